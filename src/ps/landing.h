/*
 * landing.h - where gradients from other hosts land: slots with room for one chunk from each worker.
 * open() is called on the transport's thread, close() on the lane's; they meet in atomics and a ring.
 */
#ifndef PS_LANDING_H
#define PS_LANDING_H

#include "base/ring.h"
#include "verbena/status.h"

#include <stdint.h>

struct landing {
    uint64_t chunk_bytes, map_bytes;
    uint32_t nworkers, nchunks, nslots;
    char *base;
    atomic_int *slot;     /* per chunk: its slot, -1: closed */
    atomic_uchar *landed; /* per (chunk, worker): 1: the place is taken in this step */
    struct vb_ring free;  /* slot numbers + 1, from lane to transport */
};

/* VB_NOMEM. Memory is reserved, not touched: it costs nothing until something lands. */
VB_MUST_CHECK enum vb_st landing_init(struct landing *l, uint32_t nchunks, uint32_t nworkers,
                                      uint64_t chunk_bytes, uint64_t budget_bytes);
void landing_fini(struct landing *l); /* takes zeroed */

/* thread: transport. Where worker's gradient of the chunk goes. VB_AGAIN: no slot free, later.
 * VB_PROTO: that worker's place is taken already. */
enum vb_st landing_open(struct landing *l, uint32_t chunk, uint32_t worker, void **place_out);
/* thread: lane. The chunk has been applied; true: a slot became free (parked ones may come). */
bool landing_close(struct landing *l, uint32_t chunk);
/* thread: lane. This worker's place is free again (its gradient was dropped). */
void landing_drop(struct landing *l, uint32_t chunk, uint32_t worker);

#endif
