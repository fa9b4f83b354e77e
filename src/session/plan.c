/* plan.c - from a graph, feeds and fetches to an executor: simplified, with the variables that it reads. */
#include "session/session_priv.h"

#include <string.h>

static bool always(void *arg, uint32_t var)
{
    return true;
}

static enum vb_st never_waits(void *arg)
{
    return VB_INVAL; /* a run in one process waits for nothing */
}

static void nothing(void *arg) {}

static enum vb_st make_exec(struct plan *p, struct store *store, struct vb_err *err)
{
    const uint32_t n = gr_count(p->g);
    AUTO_FREE struct exec_var *var = calloc(n + 1, sizeof(*var));
    struct exec_params ep = { .graph = p->g,
                              .fetch = p->to,
                              .nfetch = p->nfetch,
                              .var = var,
                              .max_rows = p->max_rows,
                              .var_ready = always,
                              .wait = never_waits,
                              .poll = nothing };

    if (var == NULL)
        return VB_NOMEM;
    for (uint32_t id = 0; id < n; id++) {
        struct gr_node *node = gr_at(p->g, id);

        if (node->type != &gr_variable)
            continue;
        var[ep.nvars] = (struct exec_var){ .node = node, .value = store_get(store, node, err) };
        if (var[ep.nvars++].value == NULL)
            return VB_INVAL;
    }
    return exec_open(&ep, &p->exec, err);
}

static enum vb_st remember(struct plan *p, struct gr_node *const *feed,
                           struct gr_node *const *fetch)
{
    p->feed = calloc(p->nfeed + 1, sizeof(*p->feed));
    p->fetch = calloc(p->nfetch + 1, sizeof(*p->fetch));
    p->from = calloc(p->nfeed + 1, sizeof(struct gr_node *));
    p->to = calloc(p->nfetch + 1, sizeof(struct gr_node *));
    if (p->feed == NULL || p->fetch == NULL || p->from == NULL || p->to == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < p->nfeed; i++)
        p->feed[i] = feed[i]->id;
    for (uint32_t i = 0; i < p->nfetch; i++)
        p->fetch[i] = fetch[i]->id;
    return VB_OK;
}

enum vb_st plan_make(const struct graph *g, struct store *store, struct gr_node *const *feed,
                     uint32_t nfeed, struct gr_node *const *fetch, uint32_t nfetch,
                     uint64_t max_rows, struct plan **out, struct vb_err *err)
{
    const struct gr_simplify sp = { fetch, feed, nfetch, nfeed };
    AUTO_FREE struct gr_node **map = calloc(gr_count(g) + 1, sizeof(struct gr_node *));
    struct plan *p = calloc(1, sizeof(*p));
    enum vb_st st = VB_NOMEM;

    vb_err_set(err, "out of memory for a plan");
    if (p == NULL || map == NULL)
        goto fail;
    p->nfeed = nfeed;
    p->nfetch = nfetch;
    p->max_rows = max_rows;
    st = remember(p, feed, fetch);
    if (st == VB_OK)
        st = gr_simplify(g, &sp, &p->g, map, err);
    if (st != VB_OK)
        goto fail;
    for (uint32_t i = 0; i < nfeed; i++)
        p->from[i] = map[feed[i]->id];
    for (uint32_t i = 0; i < nfetch; i++)
        p->to[i] = map[fetch[i]->id];
    st = make_exec(p, store, err);
    if (st != VB_OK)
        goto fail;
    *out = p;
    return VB_OK;

fail:
    plan_free(p);
    return st;
}

void plan_free(struct plan *p)
{
    if (p == NULL)
        return;
    exec_close(p->exec);
    gr_free(p->g);
    free(p->feed);
    free(p->fetch);
    free(p->from);
    free(p->to);
    free(p);
}
