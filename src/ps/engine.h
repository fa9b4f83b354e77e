/*
 * engine.h - the consistency engine of one lane: (state, event) -> (state, actions). Pure: no I/O, no
 * clock, no allocation. The server, tests on the loop transport and the explorer run this very code.
 *
 * Chunks and workers are numbered from 0 within the engine. A chunk has an *epoch*: how many steps
 * have been applied to it; before its first value it has none. Events may come duplicated, late or
 * reordered, also between the chunks of one worker: the engine drops and counts. Ticks are counted:
 * the tick of a clock takes effect once the pushes of all clocks up to it are in, so that a tick may
 * overtake pushes. A push of clock c implies a read at clock c + 1 of the same chunk; a worker pushes
 * a chunk again only after the answer. A worker that has finished or is lost never holds others up.
 *
 * PS_SYNC: step e of a chunk is applied when every live worker has pushed clock e; epoch e is what a
 * worker at clock e reads. What a worker that left has pushed for the step in flight stays in, weighted
 * by its samples.
 *
 * PS_SSP: every push is a step of its own, on arrival. A read at clock c is answered when
 * R >= max(0, c - s) and the reader's own pushes of clocks < c are in, where R of a chunk is the clock
 * up to which all live workers' pushes of it are in. A worker that does not push the chunk in some clock
 * is counted by its tick, so every worker ticks every clock. Both bounds 0 are PS_SYNC.
 *
 * PS_BACKUP: PS_ACT_COUNTED tells that all pushes of a worker and clock are in; the coordinator collects
 * them and names the step's workers (PS_EV_SET), and the step is applied to all chunks. All other
 * gradients of that clock are dropped; whoever sent one is answered with the epoch, and goes on there.
 *
 * In two-phase mode (not PS_SSP) a complete chunk first asks for a reduction over all chunks of the step
 * (global norm), and is applied when the value arrives.
 */
#ifndef PS_ENGINE_H
#define PS_ENGINE_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_mode { PS_SYNC, PS_BACKUP, PS_SSP };
#define PS_UNBOUNDED UINT32_MAX /* a staleness: asynchronous */

enum ps_event_kind {
    PS_EV_JOINED, /* worker, clock: counts from this clock on; ps_engine_minimum says where to enter */
    PS_EV_INIT,     /* chunk: its first value; answers all reads of clock 0 */
    PS_EV_PUSH,     /* worker, chunk, clock, samples */
    PS_EV_TICK,     /* worker, clock, count (pushes sent since it joined) */
    PS_EV_FINISHED, /* worker, clock (its last), count: as tick, and no more will come */
    PS_EV_READ, /* worker, chunk, clock: wants the chunk for that clock; first read, joiners. count
                       1: once more, as it is now */
    PS_EV_LOST, /* worker */
    PS_EV_REDUCED, /* clock, value: two-phase only */
    PS_EV_SET,     /* clock, set: PS_BACKUP only; who makes this step */
    PS_EV_BOUND,   /* count: the staleness bound from now on, held between lo and hi */
    PS_EV_TIMER    /* no effect */
};

struct ps_event {
    enum ps_event_kind kind;
    uint32_t worker, chunk;
    uint64_t clock, count;
    uint32_t samples;
    float value;
    const uint64_t *set; /* bit w % 64 of word w / 64: worker w */
};

enum ps_action_kind {
    PS_ACT_STORE, /* the event's payload becomes the chunk's value */
    PS_ACT_KEEP,  /* the event's payload is worker's gradient of this chunk until applied */
    PS_ACT_DROP, /* a gradient of worker, the event's or a kept one, is not used; PS_ALL: a first value */
    PS_ACT_PARTIAL, /* two-phase: reduce the chunk's kept gradients to a number for `clock` */
    PS_ACT_APPLY, /* one optimizer step from the kept gradients of ps_engine_has, `samples` in all */
    PS_ACT_PUBLISH, /* tell `worker`, or all live ones (PS_ALL), that it may work at `clock` */
    PS_ACT_COUNTED  /* PS_BACKUP: all pushes of `worker` for the step `clock` are in */
};
#define PS_ALL UINT32_MAX

struct ps_action {
    enum ps_action_kind kind;
    uint32_t worker, chunk; /* APPLY: PS_SSP: whose gradient, else PS_ALL */
    uint64_t clock;   /* APPLY, PARTIAL: the step; PUBLISH: acknowledges pushes of clocks < this */
    uint64_t samples; /* APPLY, PARTIAL; 0 when PS_BACKUP's workers have not pushed the chunk */
    uint64_t
        updates; /* APPLY, PARTIAL: steps applied before; PUBLISH: steps applied. Sync: the clock */
    /* PUBLISH in PS_SSP: clock - R, and how far the freshest worker is ahead of clock; never below 0 */
    uint64_t behind, ahead;
    float value; /* APPLY: the reduction in two-phase mode, else 1 */
};

struct ps_engine;

struct ps_engine_params {
    uint32_t nworkers, nchunks;
    bool two_phase;
    enum ps_mode mode;
    uint32_t staleness_lo, staleness_hi; /* PS_SSP: the bound starts at lo; PS_UNBOUNDED: async */
    uint32_t backups; /* PS_BACKUP: nworkers - backups of them make a step, or all that live */
};

/* Bytes of memory that an engine needs, aligned to 8. 0: the numbers are too large or do not go
 * together. */
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
/* Where a joiner enters: the lowest clock at which some chunk still waits for a live worker. */
uint64_t ps_engine_minimum(const struct ps_engine *e);
/* For whom does worker wait, and for the end of which clock of that one? Looks at its first chunk that
 * waits; of several workers the first. false: for nobody (or for the coordinator). */
bool ps_engine_waits(const struct ps_engine *e, uint32_t worker, uint32_t *whom_out,
                     uint64_t *clock_out);
/* The same for the first chunk with something in flight: whom does it wait for? false: nobody. */
bool ps_engine_missing(const struct ps_engine *e, uint32_t *worker_out, uint64_t *clock_out);
/* Gradients and first values that were not used. */
uint64_t ps_engine_dropped(const struct ps_engine *e);
/* Answered reads by how far they were behind: 0, 1, .. 15, more. First values are not counted. */
enum { PS_STALENESS_BUCKETS = 17 };
const uint64_t *ps_engine_staleness(const struct ps_engine *e);

#endif
