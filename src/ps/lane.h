/*
 * lane.h - one server thread's share of a ps: it owns its chunks alone (parameters, optimizer state,
 * engine) and talks to the workers over one port. No locks.
 *
 * A gradient that can be viewed (same host) is read where the worker left it. Others land in the
 * lane's landing memory: a chunk that opens (first gradient of a step) gets room for all workers at
 * once, so that an open chunk can always be completed; when the budget is used up, gradients of
 * further chunks are parked in the transport until a chunk has been applied. Where each gradient is a
 * step of its own, each has its own room.
 *
 * In sync a worker on this host reads the parameters where the lane has them. In the other modes they
 * change while it reads, so each worker has a copy here: written when it may go on, read in place on
 * this host, sent to others.
 *
 * Thread: lane_run's, but for create, links and destroy (set-up) and the place callback, which runs
 * on the transport's thread.
 */
#ifndef PS_LANE_H
#define PS_LANE_H

#include "ps/class.h"
#include "transport/tp.h"

struct lane;

/* What becomes of a gradient that has a NaN or infinity. */
enum ps_nan { PS_NAN_STOP, PS_NAN_SKIP };

struct lane_params {
    const struct ps_table *table; /* borrowed, as all pointers here, until destroy */
    uint32_t ps, lane, nworkers;
    struct tp_node *node;
    uint32_t region;            /* of the node: this ps's range of parameters */
    uint32_t copies;            /* of the node: what workers have (ps_copy_at) */
    uint32_t pulls;             /* of the node: encoded parameters (ps_pull_place) */
    const struct ps_class *cls; /* table->nclasses of them; PS_BACKUP has all or none */
    enum ps_nan on_nan;
    /* PS_BACKUP: all pushes of a worker for that step are in. thread: the lane's. */
    void (*counted)(void *arg, uint32_t worker, uint64_t clock);
    /* Where lane_norms is not 0: this lane's part of the next step's sums. thread: the lane's. */
    void (*norm)(void *arg, const struct kn_exact *sum);
    void *arg;
    uint64_t landing_bytes; /* budget for landing memory, at least one chunk for all workers */
};

/*
 * How many sums over all parameters a step needs before it can be applied: 1 for the global norm of the
 * gradient, over the classes that are clipped by it; then for lamb two of each variable, of its squares and
 * of those of its update. 0: none.
 */
uint32_t lane_norms(const struct ps_class *c, const struct ps_table *t);
/* Does this lane take part in them? */
bool lane_gives_norms(const struct ps_class *c, const struct ps_table *t, uint32_t ps,
                      uint32_t lane);

/* Makes the lane and sets the callbacks of port `lane` of the node. Links carry the peer's rank as
 * user pointer; ranks of workers start at table->nps. */
VB_MUST_CHECK enum vb_st lane_create(const struct lane_params *p, struct lane **lane_out);
void lane_destroy(struct lane *l); /* takes NULL; after the node has closed: it receives here */

/* The link to that worker, before the lane runs. */
void lane_link(struct lane *l, uint32_t worker, struct tp_link *link);

/* Progress until something happened or the deadline: what the lane's thread calls in a loop. VB_PROTO:
 * a worker broke the protocol (logged). VB_INVAL: the run shall end, lane_why says why. VB_TIMEOUT: nothing
 * happened. */
VB_MUST_CHECK enum vb_st lane_poll(struct lane *l, uint64_t deadline_ns);

/* PS_BACKUP: who makes the step lane_next; bit w % 64 of word w / 64. VB_PROTO as of lane_poll. */
VB_MUST_CHECK enum vb_st lane_set(struct lane *l, const uint64_t *bits);
uint64_t lane_next(const struct lane *l); /* the step that a set is awaited for */

/* Does the lane wait for the sums of that step? */
bool lane_wants_norms(const struct lane *l, uint64_t *clock_out);
/* They are there; the step is applied. VB_PROTO, VB_INVAL as of lane_poll. */
VB_MUST_CHECK enum vb_st lane_normed(struct lane *l, const struct kn_exact *sum);

/* Which worker does a step in flight wait for? false: none. */
bool lane_missing(const struct lane *l, uint32_t *worker_out, uint64_t *clock_out);
uint64_t lane_dropped(const struct lane *l);
uint64_t lane_skipped(const struct lane *l); /* gradients with a NaN or infinity */
const char *lane_why(const struct lane *l);
/* Adds to hist[PS_STALENESS_BUCKETS], of one class. */
void lane_staleness(const struct lane *l, uint32_t cls, uint64_t *hist);

#endif
