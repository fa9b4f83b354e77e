/*
 * explore_engine.h - a few workers, what is under way between them and the engine, the engine itself and
 * the specification: one state of the explorer, and how it goes on.
 */
#ifndef TESTS_PS_EXPLORE_ENGINE_H
#define TESTS_PS_EXPLORE_ENGINE_H

#include "spec.h"

#include "ps/engine_int.h"

enum { W = SPEC_W, K = SPEC_K, CLOCKS = 5, MEMORY = 1024, ACTIONS = 32, DEPTH = 400 };
enum { OUT, RUNS, DONE, DEAD };

struct config {
    const char *what;
    uint8_t mode, s, two_phase, backups, nw, nk, clocks,
        absent; /* absent: the last one joins later */
    uint8_t skips, reads, dups, deaths, joins,
        uneven; /* how many at most; uneven: worker 1 ends earlier */
};

struct env {
    uint8_t skips, reads, dups, deaths, joins;
    uint8_t state[W], clock[W], done[W], ticked[W], count[W];
    uint8_t unanswered[W];                                    /* chunks whose last push is */
    uint8_t may[W][K], asked[W][K];                           /* clock + 1 */
    uint8_t push[W][K], read[W][K], tick[W], fin[W], reduced; /* under way: sets of clocks */
    uint8_t announced[W][CLOCKS];                             /* by the tick */
};

struct world {
    struct env env;
    struct spec spec;
    uint64_t engine[MEMORY / 8];
};

extern struct config cfg;
extern const char *fault; /* the first thing that was wrong, or NULL */
extern char trace[DEPTH][40];
extern unsigned depth;

/* explore_world.c */
void world_make(struct world *x, const struct config *c); /* forgets all states */
bool visit(const struct world *x);                        /* for the first time? */
uint64_t states_seen(void);
void states_forget(void);
void blame(const char *what); /* takes NULL */
struct ps_engine *engine_of(const struct world *x);
/* An event that an honest peer sends; again: this push has come before. */
void must(struct world *x, const struct ps_event *ev, bool again);
/* What nobody honest does, tried on a copy. */
void probe(const struct world *x);
/* Nothing of those that live is under way. */
bool quiet(const struct world *x);

/* explore_moves.c: all that can happen next, one after another. False: something is wrong there. moved:
 * somebody gets on without being forced to. */
bool try_push(const struct world *x, unsigned w, unsigned k, bool *moved);
bool try_next(const struct world *x, unsigned w, bool *moved);
bool try_end(const struct world *x, unsigned w, bool *moved);
bool try_deliver(const struct world *x, unsigned w, bool *moved);
bool try_coordinate(const struct world *x, bool *moved);

/* explore_engine.c: looks at a state and all that comes after it. */
bool look(const struct world *x);

#endif
