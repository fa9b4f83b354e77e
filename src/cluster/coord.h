/*
 * coord.h - the coordinator of a run: who is in, when it starts, sums over workers, who makes a step where
 * some are backups, when all have finished. A pure state machine: no I/O, no clock. Events go in by the functions, what everybody
 * must be told comes out of coord_next.
 */
#ifndef CLUSTER_COORD_H
#define CLUSTER_COORD_H

#include "cluster/spec.h"
#include "cluster/wire.h"

enum { COORD_OPEN = 64 }; /* tags that may be open at once */

enum coord_act { COORD_NOTHING, COORD_START, COORD_REDUCED, COORD_SET, COORD_NORMED, COORD_END };

struct coord_out {
    enum coord_act act;
    struct wire_reduce sum; /* COORD_REDUCED: to all workers */
    struct wire_set set;    /* COORD_SET: to every ps */
    struct wire_norm norm;  /* COORD_NORMED: to every ps that gives sums */
};

struct coord_task {
    bool in, ready, finished;
    uint32_t ntags;                        /* reductions given so far */
    double v[COORD_OPEN][WIRE_REDUCE_MAX]; /* of tag t at t % COORD_OPEN */
};

/* Sums over all parameters, for each step: ranks below nps give `count` of them. */
struct coord_norms {
    uint32_t count, nps; /* count 0: none are made */
    void (*merge)(uint32_t *sum,
                  const uint32_t *other); /* of WIRE_NORM_WORDS each; exact, so in any order */
};

struct coord {
    const struct cl_spec *spec;
    struct coord_task *task; /* by rank */
    uint32_t nready, nfinished;
    uint32_t done_tags;    /* tags below are summed */
    uint8_t n[COORD_OPEN]; /* values under an open tag, 0: nobody gave any yet */
    bool started, told_end;
    uint32_t set_size, nset; /* workers that make a step, and are in it already; 0: all do */
    uint32_t *ncounted;      /* by worker: ps that have its pushes for the step set.clock */
    struct wire_set set;
    struct coord_norms norms;
    uint64_t norm_clock;            /* the step whose sums are collected */
    uint32_t *norm_given;           /* by ps */
    uint32_t norm_whole, norm_told; /* ps that gave all; sums that have been told */
    uint32_t (*norm_sum)[WIRE_NORM_WORDS];
};

VB_MUST_CHECK enum vb_st coord_init(struct coord *c, const struct cl_spec *spec, uint32_t set_size);
/* After coord_init, where sums are made. */
VB_MUST_CHECK enum vb_st coord_init_norms(struct coord *c, const struct coord_norms *n);
void coord_fini(struct coord *c); /* takes zeroed */

void coord_in(struct coord *c, uint32_t rank);
/* All links of this task are up. VB_PROTO: said twice. */
VB_MUST_CHECK enum vb_st coord_ready(struct coord *c, uint32_t rank);

/* VB_PROTO: not a worker's, not its next tag, too many open, finished, or another n than others
 * gave under this tag. */
VB_MUST_CHECK enum vb_st coord_reduce(struct coord *c, uint32_t rank, const struct wire_reduce *r);
/* A finished worker is left out of the sums that it gave nothing to. */
VB_MUST_CHECK enum vb_st coord_finish(struct coord *c, uint32_t rank);

/* A ps has all pushes of a worker for a step. VB_PROTO: steps are not made so, no such worker, a step that
 * is to come, or more ps than there are. */
VB_MUST_CHECK enum vb_st coord_counted(struct coord *c, const struct wire_counted *m);

/* A ps's part of the step's sums, in order. VB_PROTO: not one that gives any, another step, or not its next. */
VB_MUST_CHECK enum vb_st coord_norm(struct coord *c, uint32_t rank, const struct wire_norm *m);

/* Ranks that are not in, or if all are, not ready: the first max of them; returns how many. */
uint32_t coord_missing(const struct coord *c, uint32_t *ranks, uint32_t max);

/* What to tell next; COORD_NOTHING when all is told. */
struct coord_out coord_next(struct coord *c);

#endif
