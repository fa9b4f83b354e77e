/*
 * lane.h - one server thread's share of a ps: it owns its chunks alone (parameters, optimizer state,
 * engine) and talks to the workers over one port. No locks.
 *
 * A gradient that can be viewed (same host) is read where the worker left it. Others land in the
 * lane's landing memory: a chunk that opens (first gradient of a step) gets room for all workers at
 * once, so that an open chunk can always be completed; when the budget is used up, gradients of
 * further chunks are parked in the transport until a chunk has been applied.
 *
 * Thread: lane_run's, but for create, links and destroy (set-up) and the place callback, which runs
 * on the transport's thread.
 */
#ifndef PS_LANE_H
#define PS_LANE_H

#include "kernels/kn.h"
#include "ps/table.h"
#include "transport/tp.h"

struct lane;

struct lane_params {
    const struct ps_table *table; /* borrowed, as all pointers here, until destroy */
    uint32_t ps, lane, nworkers;
    struct tp_node *node;
    uint32_t region; /* of the node: this ps's range of parameters */
    const struct kn_opt *optimizer;
    uint64_t landing_bytes; /* budget for landing memory, at least one chunk for all workers */
};

/* Makes the lane and sets the callbacks of port `lane` of the node. Links carry the peer's rank as
 * user pointer; ranks of workers start at table->nps. */
VB_MUST_CHECK enum vb_st lane_create(const struct lane_params *p, struct lane **lane_out);
void lane_destroy(struct lane *l); /* takes NULL; after the node has closed: it receives here */

/* The link to that worker, before the lane runs. */
void lane_link(struct lane *l, uint32_t worker, struct tp_link *link);

/* Progress until something happened or the deadline: what the lane's thread calls in a loop. VB_PROTO:
 * a worker broke the protocol (logged). VB_TIMEOUT: nothing happened. */
VB_MUST_CHECK enum vb_st lane_poll(struct lane *l, uint64_t deadline_ns);

/* Which worker does a step in flight wait for? false: none. */
bool lane_missing(const struct lane *l, uint32_t *worker_out, uint64_t *clock_out);
uint64_t lane_dropped(const struct lane *l);

#endif
