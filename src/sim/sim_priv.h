/* sim_priv.h - the simulator's inside: sim.c (events), sim_setup.c (once), sim_backup.c (the coordinator). */
#ifndef SIM_SIM_PRIV_H
#define SIM_SIM_PRIV_H

#include "ps/bound.h"
#include "sim/queue.h"
#include "sim/sim.h"

struct lane {
    struct ps_engine *engine;
    uint32_t nchunks, *chunk; /* of the table */
    double free_at;
    struct ps_bound bound;
    uint32_t *pushed; /* per worker: pushes that are in */
};

struct worker {
    uint64_t clock;
    uint32_t missing; /* answers */
    bool *asked;      /* per chunk */
    uint64_t *epoch;  /* per chunk: what it was last answered with */
    double computed_at, waited;
    bool dead, finished;
};

struct port { /* when a task can send and receive again */
    double tx, rx;
};

struct sim {
    const struct sim_params *p;
    struct sim_queue queue;
    struct lane *lane;
    uint32_t nlanes, nused, *local; /* nused: lanes with chunks; a chunk's number within its lane */
    struct worker *worker;
    struct port *port; /* ps, then workers */
    struct ps_action *action;
    struct sim_result *out;
    enum vb_st st;
    /* PS_BACKUP, the coordinator: per worker the lanes that have all its pushes of the step; who made the last one */
    uint32_t *counted, live;
    uint64_t step, *set;
};

enum { COMPUTED, PUSH_SEEN, PUSH_IN, PUSH_DONE, PARAM_SEEN, PARAM_IN, SET, LOST };

void sim_put(struct sim *s, struct sim_event ev);
/* An engine's step, and what comes of it. by: whose push it is, plus 1. */
void sim_tell(struct sim *s, uint32_t lane, const struct ps_event *ev, double now, uint32_t by);
enum vb_st sim_set_up(struct sim *s);
void sim_tear_down(struct sim *s);

/* sim_backup.c */
void sim_counted(struct sim *s, uint32_t worker, uint64_t clock, double now);
void sim_name(struct sim *s, double now);

#endif
