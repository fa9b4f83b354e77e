/*
 * engine.h - the consistency engine of one lane: (state, event) -> (state, actions). Pure: no I/O, no
 * clock, no allocation. The server, tests on the loop transport and the explorer run this very code.
 *
 * Chunks and workers are numbered from 0 within the engine. A chunk has an *epoch*: how many steps
 * have been applied to it; before its first value it has none. Epoch e is what a worker at clock e
 * reads. Events may come duplicated, late or reordered between senders: the engine drops and counts.
 *
 * Mode `sync`: step e of a chunk is applied when every live worker has pushed clock e. A worker that
 * has finished or is lost leaves the quorum; what it has pushed for the step in flight stays in,
 * weighted by its samples. Ticks are counted: the tick of a clock takes effect once the pushes it
 * announces are in, so that a tick may overtake pushes. In two-phase mode a complete chunk first asks
 * for a reduction over all chunks of the step (global norm), and is applied when the value arrives.
 */
#ifndef PS_ENGINE_H
#define PS_ENGINE_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_event_kind {
    PS_EV_JOINED,   /* worker, clock: counts from this clock on */
    PS_EV_INIT,     /* chunk: its first value */
    PS_EV_PUSH,     /* worker, chunk, clock, samples */
    PS_EV_TICK,     /* worker, clock, count (pushes sent since it joined) */
    PS_EV_FINISHED, /* worker, count: as tick, and no more will come */
    PS_EV_READ,     /* worker, chunk, clock: wants epoch >= clock */
    PS_EV_LOST,     /* worker */
    PS_EV_REDUCED,  /* clock, value: two-phase only */
    PS_EV_TIMER     /* no effect in sync */
};

struct ps_event {
    enum ps_event_kind kind;
    uint32_t worker, chunk;
    uint64_t clock, count;
    uint32_t samples;
    float value;
};

enum ps_action_kind {
    PS_ACT_STORE,   /* the event's payload becomes the chunk's value */
    PS_ACT_KEEP,    /* the event's payload is worker's gradient of this chunk until applied */
    PS_ACT_DROP,    /* the event's payload is not used (late or twice); PS_ALL: a first value */
    PS_ACT_PARTIAL, /* two-phase: reduce the chunk's kept gradients to a number for `clock` */
    PS_ACT_APPLY, /* one optimizer step from the kept gradients of ps_engine_has, `samples` in all */
    PS_ACT_PUBLISH /* tell `worker`, or all live ones (PS_ALL), that `clock` is the chunk's epoch */
};
#define PS_ALL UINT32_MAX

struct ps_action {
    enum ps_action_kind kind;
    uint32_t worker, chunk;
    uint64_t clock; /* APPLY, PARTIAL: the step; PUBLISH: the epoch */
    uint64_t samples;
    float value; /* APPLY: the reduction in two-phase mode, else 1 */
};

struct ps_engine;

struct ps_engine_params {
    uint32_t nworkers, nchunks;
    bool two_phase;
};

/* Bytes of memory that an engine needs, aligned to 8. 0: the numbers are too large. */
size_t ps_engine_bytes(const struct ps_engine_params *p);
/* Makes an engine in mem. All workers are absent, all chunks without a value. */
struct ps_engine *ps_engine_init(void *mem, const struct ps_engine_params *p);
/* The most actions that one event can give: what out[] must hold. */
size_t ps_engine_max_actions(const struct ps_engine_params *p);

/* One event; actions are to be carried out in order. VB_PROTO: an honest peer does not send this
 * (unknown numbers, a clock from the future, a worker that is not in); the state is unchanged. */
VB_MUST_CHECK enum vb_st ps_engine_step(struct ps_engine *e, const struct ps_event *ev,
                                        struct ps_action *out, size_t *nout);

/* Is worker's gradient part of the chunk's step in flight? For PS_ACT_APPLY and PS_ACT_PARTIAL: valid
 * until the next event of the chunk. */
bool ps_engine_has(const struct ps_engine *e, uint32_t chunk, uint32_t worker);
bool ps_engine_live(const struct ps_engine *e, uint32_t worker);
/* Whom does a step in flight wait for? The first such worker and its clock; false: nobody. */
bool ps_engine_missing(const struct ps_engine *e, uint32_t *worker_out, uint64_t *clock_out);
uint64_t ps_engine_dropped(const struct ps_engine *e);

#endif
