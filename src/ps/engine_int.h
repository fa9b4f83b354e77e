/*
 * engine_int.h - the engine's inside. One mechanism serves all modes: gradients are kept in a bit set
 * per chunk until a step is made from them (engine_sync.c), and a mode is a table of what happens at its
 * turning points. What PS_SSP and PS_BACKUP need to know of each (chunk, worker) is a cell; reads wait
 * there (engine_ssp.c).
 */
#ifndef PS_ENGINE_INT_H
#define PS_ENGINE_INT_H

#include "ps/engine_rules.h"

enum member { ABSENT, LIVE, FINISHED, LOST };

struct worker {
    enum member state;
    bool tick_held, tick_finishes;
    uint64_t clock;  /* ticks that took effect */
    uint64_t pushes; /* in, duplicates apart */
    uint64_t tick_clock, tick_count;
};

struct chunk {
    bool has_value, reducing, fresh; /* fresh: `in` is of the step in flight, not of the last one */
    uint32_t nwait;                  /* cells that wait */
    uint64_t epoch, samples;
    uint64_t low, top; /* least next of live workers (PS_BACKUP: the epoch), greatest of any */
};

struct cell {
    uint64_t next;    /* pushes of clocks < next are in or will never be */
    uint64_t want;    /* the clock of the read that waits + 1; 0: none */
    uint64_t granted; /* reads of clocks < granted have been answered */
    uint32_t samples; /* of the gradient that is kept */
};

struct out {
    struct ps_action *a;
    size_t n;
};

struct rules {
    bool cells;
    void (*joined)(struct ps_engine *e, uint32_t w);
    void (*first_value)(struct ps_engine *e, uint32_t k, struct out *o);
    enum vb_st (*push)(struct ps_engine *e, const struct ps_event *ev, struct out *o);
    enum vb_st (*read)(struct ps_engine *e, const struct ps_event *ev, struct out *o);
    void (*ticked)(struct ps_engine *e, uint32_t w, struct out *o);
    void (*left)(struct ps_engine *e, uint32_t w, struct out *o);
    void (*applied)(struct ps_engine *e, uint32_t k, struct out *o);
    void (*bound)(struct ps_engine *e, struct out *o);
    /* Does w wait at this chunk? PS_ALL: anybody. */
    bool (*blocked)(const struct ps_engine *e, uint32_t k, uint32_t w);
    /* Whom does w (PS_ALL: the first that waits) wait for there? */
    bool (*laggard)(const struct ps_engine *e, uint32_t k, uint32_t w, uint32_t *whom_out,
                    uint64_t *clock_out);
};

extern const struct rules engine_sync, engine_ssp, engine_backup;

struct ps_engine {
    struct ps_engine_params p;
    const struct rules *rules;
    uint32_t words; /* of a bit set */
    uint32_t s;     /* the bound in force */
    uint64_t step;  /* PS_BACKUP: the next to be named */
    uint64_t dropped, staleness[PS_STALENESS_BUCKETS];
    struct worker *worker;
    struct chunk *chunk;
    uint64_t *in;      /* words per chunk */
    struct cell *cell; /* nworkers per chunk */
};

static inline void act(struct out *o, struct ps_action a)
{
    o->a[o->n++] = a;
}

static inline struct cell *cell_at(const struct ps_engine *e, uint32_t k, uint32_t w)
{
    return &e->cell[(size_t)k * e->p.nworkers + w];
}

static inline bool holds_up(const struct ps_engine *e, uint32_t w)
{
    return ps_rule_holds_up(e->worker[w].state == LIVE);
}

/* engine.c */
void engine_drop(struct ps_engine *e, uint32_t k, uint32_t w, struct out *o);
void engine_note_read(struct ps_engine *e, uint64_t behind);

/* engine_sync.c: steps from kept gradients. */
void step_open(struct ps_engine *e, uint32_t k); /* from now on gradients are of the next step */
void step_keep(struct ps_engine *e, const struct ps_event *ev, struct out *o);
void step_make(struct ps_engine *e, uint32_t k, uint32_t w, uint64_t clock, float value,
               struct out *o);
/* Asks for the reduction in two-phase mode, else makes the step. */
void step_begin(struct ps_engine *e, uint32_t k, struct out *o);

/* engine_backup.c */
enum vb_st backup_on_set(struct ps_engine *e, const struct ps_event *ev, struct out *o);

/* engine_ssp.c: reads that wait. */
void read_joined(struct ps_engine *e, uint32_t w);
void read_first_value(struct ps_engine *e, uint32_t k, struct out *o);
enum vb_st read_on(struct ps_engine *e, const struct ps_event *ev, struct out *o);
/* The read that the push implies; the caller answers. */
void read_implied(struct ps_engine *e, const struct ps_event *ev);
void read_answer(struct ps_engine *e, uint32_t k, uint32_t w, struct out *o);
void read_answer_all(struct ps_engine *e, uint32_t k, struct out *o);
void read_forget(struct ps_engine *e, uint32_t w);
bool read_blocked(const struct ps_engine *e, uint32_t k, uint32_t w);

#endif
