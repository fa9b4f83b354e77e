/* queue.h - events in virtual time, the earliest first; of the same time, first in first out. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_event {
    double at;
    uint64_t seq; /* set by queue_put */
    uint32_t kind, worker, chunk, by;
    uint64_t clock;
};

struct sim_queue { /* zeroed: empty */
    struct sim_event *ev;
    size_t n, room;
    uint64_t seq;
};

VB_MUST_CHECK enum vb_st queue_put(struct sim_queue *q, struct sim_event ev); /* VB_NOMEM */
bool queue_get(struct sim_queue *q, struct sim_event *out);                   /* false: empty */
void queue_fini(struct sim_queue *q);

#endif
