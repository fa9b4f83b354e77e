/*
 * tp_mem.h - sealed memory files: our own, and the checks on those that a peer hands over.
 */
#ifndef TRANSPORT_TP_MEM_H
#define TRANSPORT_TP_MEM_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TP_HUGE_BYTES (UINT64_C(2) << 20)

enum tp_mem_kind {
    TP_MEM_REGION, /* peers may only read */
    TP_MEM_HUGE, /* a region with 2 MiB pages where there are any; made only, then it is a region */
    TP_MEM_WORDS, /* peers may only read */
    TP_MEM_RING   /* the peer writes */
};

/*
 * Zeroed, mapped for reading and writing, every page there, sealed. gives: munmap and close.
 * VB_NOMEM is logged.
 */
VB_MUST_CHECK enum vb_st tp_mem_new(enum tp_mem_kind kind, uint64_t bytes, void **base_out,
                                    int *fd_out);

/*
 * Is fd a memory file of this kind and of just this size, every page there and sealed so that
 * touching it cannot end in SIGBUS? VB_PROTO if not, not logged.
 */
VB_MUST_CHECK enum vb_st tp_mem_check(enum tp_mem_kind kind, int fd, uint64_t bytes);

/* Maps a part of a checked file of a peer: rings for writing, others read-only; at: a fixed place or NULL. */
VB_MUST_CHECK enum vb_st tp_mem_map(enum tp_mem_kind kind, int fd, uint64_t offset, uint64_t bytes,
                                    void *at, void **base_out);

#endif
