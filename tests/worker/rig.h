/*
 * rig.h - a whole exchange in one process and one thread: ps lanes and workers joined by the loop
 * transport.
 */
#ifndef TESTS_WORKER_RIG_H
#define TESTS_WORKER_RIG_H

#include "ps/lane.h"
#include "transport/tp_loop.h"
#include "worker/exchange.h"

enum { RIG_PS_MAX = 4, RIG_WORKERS_MAX = 8 };

struct rig_params {
    const uint64_t *elems; /* of the variables */
    uint32_t nvars, nps, nworkers, nlanes;
    uint64_t chunk_bytes, landing_bytes;
    struct ps_class cls[2]; /* the second: of variables from second_var on, where that is not 0 */
    uint32_t second_var;
    uint64_t quiet_from; /* from this step on all gradients are 0; 0: never */
    uint64_t seed;       /* of the loop; 0: in order and at once */
    struct tp_loop_knobs knobs;
};

struct rig {
    struct rig_params p;
    struct ps_table table;
    struct tp_node *ps_node[RIG_PS_MAX], *worker_node[RIG_WORKERS_MAX];
    struct lane *lane[RIG_PS_MAX][TP_PORTS_MAX];
    struct exchange *x[RIG_WORKERS_MAX];
};

void rig_open(struct rig *r, const struct rig_params *p); /* asserts */
void rig_close(struct rig *r);

/* The parameters of ps k, where it has them. */
const float *rig_params_at(const struct rig *r, const struct ps_chunk *c);

/* One round of progress everywhere; false: a lane says that the protocol was broken. */
bool rig_progress(struct rig *r);

/* What worker w's gradient of clock t is at element i of the line. */
float rig_grad(uint32_t w, uint64_t t, uint64_t i);

/* Runs all workers through `steps` synchronous steps with those gradients, pushing chunks in an order
 * made from the seed; samples of worker w: 10 + w. false: it stood still. */
bool rig_train(struct rig *r, uint64_t steps);

/* The line after `steps` steps by the plain rule, from zero parameters; gives: free. */
float *rig_reference(const struct rig *r, uint64_t steps);

#endif
