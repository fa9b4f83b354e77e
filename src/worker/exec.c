/*
 * How: counters. A node whose inputs all exist is in the ready set; the lowest number runs first
 * (numbers are a topological order, so forward comes before backward). A variable exists once it has
 * landed. A chunk counts the nodes that hold it back; at zero it is released.
 *
 * VB_MUTANT_EARLY_PUSH builds the wrong rule that a test must catch: the chunk is released when its
 * gradients are written, though an op still to run reads its variables.
 */
#include "worker/exec_priv.h"

#include <string.h>

void exec_feed(struct exec *e, const struct gr_node *placeholder, void *data)
{
    e->data[placeholder->id] = data;
}

const float *exec_output(const struct exec *e, const struct gr_node *n)
{
    return e->data[n->id];
}

const char *exec_why(const struct exec *e)
{
    return e->why.text;
}

struct exec_run exec_tree_place(uint64_t m, uint64_t n)
{
    const uint32_t depth = (uint32_t)__builtin_popcountll(m);

    return (struct exec_run){ .depth = depth,
                              .merges = m + 1 == n ? depth : (uint32_t)__builtin_ctzll(~m),
                              .last = m + 1 == n };
}

static struct gr_tensor view(const struct exec *e, const struct gr_node *n, uint64_t rows)
{
    struct gr_tensor t = { .data = e->data[n->id], .dtype = n->dtype, .shape = n->shape };

    for (uint32_t i = 0; i < t.shape.rank; i++)
        if (t.shape.dim[i] == GR_BATCH)
            t.shape.dim[i] = rows;
    return t;
}

static void set_ready(struct exec *e, uint32_t node)
{
    e->ready[node / 64] |= UINT64_C(1) << (node % 64);
}

static bool take_ready(struct exec *e, uint32_t *node_out)
{
    for (uint32_t w = 0; w < e->nwords; w++)
        if (e->ready[w] != 0) {
            *node_out = w * 64 + (uint32_t)__builtin_ctzll(e->ready[w]);
            e->ready[w] &= e->ready[w] - 1;
            return true;
        }
    return false;
}

static void exists(struct exec *e, uint32_t node)
{
    for (uint32_t i = e->user_at[node]; i < e->user_at[node + 1]; i++)
        if (--e->pending[e->user[i]] == 0)
            set_ready(e, e->user[i]);
}

/* Variables that have landed since the last look come into existence. */
static void look_at_vars(struct exec *e)
{
    uint32_t still = 0;

    for (uint32_t i = 0; i < e->nwaiting; i++) {
        const uint32_t v = e->waiting[i];

        if (e->p.var_ready(e->p.arg, v))
            exists(e, e->var[v].node->id);
        else
            e->waiting[still++] = v;
    }
    e->nwaiting = still;
}

/* Adds the finished micro-batches of one variable, as far as the tree is complete. */
static void fold(struct exec *e, const struct exec_var *v, const struct exec_run *r)
{
    const size_t n = gr_elems(v->node->shape, 0);

    for (uint32_t k = 0; k < r->merges; k++)
        e->kn->add(v->grad_at[r->depth - k - 1], v->grad_at[r->depth - k], n);
}

static void let_go(struct exec *e, uint32_t node)
{
#ifdef VB_MUTANT_EARLY_PUSH
    if (e->grad_of[node] < 0)
        return;
#endif
    for (uint32_t i = e->use_at[node]; i < e->use_at[node + 1]; i++)
        if (--e->holding[e->use[i]] == 0)
            e->p.release(e->p.arg, e->use[i]);
}

static void run_node(struct exec *e, uint32_t i, const struct exec_run *r)
{
    const struct gr_node *n = gr_at(e->p.graph, i);
    const int32_t v = e->grad_of[i];
    struct gr_tensor in[GR_IN_MAX], out;

    if (v >= 0)
        e->data[i] = e->var[v].grad_at[r->depth];
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = view(e, n->in[k], r->rows);
    out = view(e, n, r->rows);
    n->type->run(n, in, &out, &e->run);
    if (v >= 0)
        fold(e, &e->var[v], r);
    if (r->last && e->p.nchunks > 0)
        let_go(e, i);
    exists(e, i);
}

static void start_holding(struct exec *e)
{
#ifdef VB_MUTANT_EARLY_PUSH
    memset(e->holding, 0, e->p.nchunks * sizeof(*e->holding));
    for (uint32_t i = 0; i < e->nnodes; i++)
        for (uint32_t k = e->use_at[i]; e->grad_of[i] >= 0 && k < e->use_at[i + 1]; k++)
            e->holding[e->use[k]]++;
#else
    memcpy(e->holding, e->nuses, e->p.nchunks * sizeof(*e->holding));
#endif
}

static uint32_t start(struct exec *e, const struct exec_run *r)
{
    uint32_t nleaves = 0;

    memcpy(e->pending, e->nin, e->nnodes * sizeof(*e->pending));
    memset(e->ready, 0, e->nwords * sizeof(*e->ready));
    e->nwaiting = 0;
    if (r->last && e->p.nchunks > 0)
        start_holding(e);
    for (uint32_t i = 0; i < e->nnodes; i++) {
        if (!e->need[i])
            continue;
        if (e->var_of[i] >= 0)
            e->waiting[e->nwaiting++] = (uint32_t)e->var_of[i];
        else if (gr_at(e->p.graph, i)->type->run == NULL)
            exists(e, i);
        else if (e->nin[i] == 0)
            set_ready(e, i);
        nleaves += gr_at(e->p.graph, i)->type->run == NULL;
    }
    return nleaves;
}

enum vb_st exec_run(struct exec *e, const struct exec_run *r)
{
    uint32_t todo = e->nneeded - start(e, r), node = 0;

    e->run.seed = r->seed;
    e->run.failed = false;

    while (todo > 0) {
        look_at_vars(e);
        if (take_ready(e, &node)) {
            run_node(e, node, r);
            if (e->run.failed)
                return VB_INVAL;
            todo--;
            e->p.poll(e->p.arg);
            continue;
        }
        const enum vb_st st = e->p.wait(e->p.arg);

        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}
