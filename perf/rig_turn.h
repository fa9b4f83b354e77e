/* rig_turn.h - a rig whose workers do what they are told (turn.h), each a process. */
#ifndef PERF_RIG_TURN_H
#define PERF_RIG_TURN_H

#include "perf/rig.h"
#include "perf/turn.h"

struct rig_turn {
    struct rig rig;  /* rig_make, and what differs from the usual, before the start */
    turn_part *part; /* arg: the worker's struct rig */
    pid_t ps;
    unsigned n;
    struct turn worker[RIG_WORKERS_MAX];
};

/* false: logged. rig_turn_stop in any case. */
bool rig_turn_start(struct rig_turn *g);
/* Takes zeroed. */
void rig_turn_stop(struct rig_turn *g);
/* The part of those that only exchange: n synchronous ones. */
turn_part rig_turn_exchange;

#endif
