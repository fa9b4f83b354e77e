/* exec_priv.h - the executor's inside, shared by exec_plan.c (once) and exec.c (every run). */
#ifndef WORKER_EXEC_PRIV_H
#define WORKER_EXEC_PRIV_H

#include "kernels/kn.h"
#include "worker/exec.h"

struct exec {
    struct exec_params p;
    struct exec_var *var;
    const struct kn_ops *kn;
    uint32_t nnodes, nneeded;
    bool *need;               /* per node: does a fetch or a gradient need it? */
    void **data;              /* per node: where its output is */
    int32_t *var_of;          /* per node: index of the variable it is, -1 */
    int32_t *grad_of;         /* per node: index of the variable whose gradient it is, -1 */
    uint32_t *nin;            /* per node: needed inputs, counted with multiplicity */
    uint32_t *user_at, *user; /* users of node i: user[user_at[i] .. user_at[i + 1]) */
    uint32_t *use_at, *use;   /* chunks that node i holds back, likewise */
    uint32_t *nuses;          /* per chunk: nodes that hold it back */
    char *arena;
    struct gr_run run;
    struct vb_err why;
    /* of the run */
    uint32_t *pending; /* per node: inputs that do not exist yet */
    uint32_t *holding; /* per chunk */
    uint64_t *ready;   /* bit per node */
    uint32_t nwords, nwaiting;
    uint32_t *waiting; /* variables that have not landed */
};

#endif
