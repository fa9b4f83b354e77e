/*
 * exec.h - runs a graph on one thread: an op runs as soon as its inputs exist and the variables it
 * reads have landed. While it runs the last micro-batch of a step it says of every chunk when no op
 * still to run writes its gradient or reads its variables: from then on the chunk may be pushed, and
 * the parameter server may overwrite it.
 *
 * Nothing is allocated after exec_open. Thread: one.
 */
#ifndef WORKER_EXEC_H
#define WORKER_EXEC_H

#include "graph/graph.h"

enum { EXEC_DEPTH_MAX = 16 };

/* A variable and, where gradients are wanted, where they go. */
struct exec_var {
    struct gr_node *node, *grad; /* grad NULL: evaluation only */
    const float *value;
    float *grad_at[EXEC_DEPTH_MAX]; /* [0]: the gradient region; deeper: scratch of the one sum */
    uint32_t first_chunk, nchunks;  /* in the chunk table */
};

struct exec_params {
    const struct graph *graph;
    struct gr_node *const *fetch; /* computed in every run, besides the gradients */
    uint32_t nfetch;
    const struct exec_var *var; /* copied */
    uint32_t nvars, nchunks;    /* chunks: of the table; 0 in evaluation */
    uint64_t max_rows;

    bool (*var_ready)(void *arg, uint32_t var); /* has it landed at the run's clock? */
    enum vb_st (*wait)(void *arg);              /* until something may have landed */
    void (*poll)(void *arg);                    /* between ops; never sleeps */
    void (*release)(void *arg, uint32_t chunk); /* the chunk may be pushed */
    void *arg;
};

struct exec;

/* VB_INVAL: err says (a gradient that is not a node of its own). gives: exec_close. */
VB_MUST_CHECK enum vb_st exec_open(const struct exec_params *p, struct exec **e_out,
                                   struct vb_err *err);
void exec_close(struct exec *e); /* takes NULL */

/* The data of a placeholder for the next runs; borrowed. */
void exec_feed(struct exec *e, const struct gr_node *placeholder, void *data);

struct exec_run {
    uint64_t rows;   /* of this micro-batch, 0..max_rows */
    uint32_t depth;  /* gradients are written to grad_at[depth] */
    uint32_t merges; /* then grad_at[depth - 1] += grad_at[depth], so many times downwards */
    bool last;       /* last micro-batch of the step: release chunks */
    uint64_t seed;   /* for ops that draw numbers: another one in each run */
};

/* One run. Any status of wait ends it. VB_INVAL: an op failed, exec_why says which and why. */
VB_MUST_CHECK enum vb_st exec_run(struct exec *e, const struct exec_run *r);

/* The output of a fetched node after a run; stays the executor's. */
const float *exec_output(const struct exec *e, const struct gr_node *n);

const char *exec_why(const struct exec *e);

/* Where micro-batch m of n of a worker goes in the one sum: a binary tree over neighbours. */
struct exec_run exec_tree_place(uint64_t m, uint64_t n);

#endif
