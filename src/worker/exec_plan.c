/*
 * How: mark what is needed, give every op an output buffer (or its input's, where the op works in
 * place and nobody else reads that input), and list for each node its users and the chunks that it
 * holds back: those whose variables it reads and those whose gradient it writes.
 */
#include "worker/exec_priv.h"

#include <stdio.h>
#include <string.h>

static void *zeroed(size_t n, size_t size)
{
    return calloc(n > 0 ? n : 1, size);
}

static bool is_leaf(const struct gr_node *n)
{
    return n->type->run == NULL;
}

static enum vb_st mark_needed(struct exec *e)
{
    const struct graph *g = e->p.graph;
    struct gr_node **fetch = zeroed(e->p.nfetch + e->p.nvars, sizeof(*fetch));
    uint32_t n = 0;

    if (fetch == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < e->p.nfetch; i++)
        fetch[n++] = e->p.fetch[i];
    for (uint32_t v = 0; v < e->p.nvars; v++)
        if (e->var[v].grad != NULL)
            fetch[n++] = e->var[v].grad;
    gr_prune(g, fetch, n, e->need);
    free(fetch);
    for (uint32_t i = 0; i < e->nnodes; i++)
        e->nneeded += e->need[i];
    return VB_OK;
}

static enum vb_st name_vars(struct exec *e, struct vb_err *err)
{
    for (uint32_t i = 0; i < e->nnodes; i++)
        e->var_of[i] = e->grad_of[i] = -1;
    for (uint32_t i = 0; i < e->nnodes; i++)
        e->data[i] = gr_at(e->p.graph, i)->data;
    for (uint32_t v = 0; v < e->p.nvars; v++) {
        const struct gr_node *grad = e->var[v].grad;

        e->var_of[e->var[v].node->id] = (int32_t)v;
        e->data[e->var[v].node->id] = (void *)(uintptr_t)e->var[v].value;
        if (grad == NULL)
            continue;
        if (is_leaf(grad) || e->grad_of[grad->id] >= 0) {
            vb_err_set(err, "the gradient of %s is not a node of its own", e->var[v].node->name);
            return VB_INVAL;
        }
        e->grad_of[grad->id] = (int32_t)v;
    }
    return VB_OK;
}

/* Fills a compressed list: count per node in at[i + 1] first, then the items. */
static void to_offsets(uint32_t *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        at[i + 1] += at[i];
}

/* What node waits for: its inputs, then what it runs after. */
static uint32_t needs(const struct gr_node *node)
{
    return node->nin + node->nctl;
}

static uint32_t need_at(const struct gr_node *node, uint32_t k)
{
    return k < node->nin ? node->in[k]->id : node->ctl[k - node->nin]->id;
}

static enum vb_st list_users(struct exec *e)
{
    uint32_t *fill = zeroed(e->nnodes + 1, sizeof(*fill));
    uint32_t n = 0;

    if (fill == NULL)
        return VB_NOMEM;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < e->nnodes; i++) {
            const struct gr_node *node = gr_at(e->p.graph, i);

            for (uint32_t k = 0; e->need[i] && k < needs(node); k++, n++) {
                const uint32_t in = need_at(node, k);

                if (pass == 0)
                    e->user_at[in + 1]++;
                else
                    e->user[e->user_at[in] + fill[in]++] = i;
                e->nin[i] += pass;
            }
        }
        if (pass == 0) {
            to_offsets(e->user_at, e->nnodes);
            e->user = zeroed(n, sizeof(*e->user));
            if (e->user == NULL)
                break;
        }
    }
    free(fill);
    return e->user == NULL ? VB_NOMEM : VB_OK;
}

/* Calls add for every variable that node i reads or whose gradient it writes. */
static void held_vars(const struct exec *e, uint32_t i, uint32_t *list, uint32_t *n)
{
    const struct gr_node *node = gr_at(e->p.graph, i);

    *n = 0;
    if (!e->need[i] || is_leaf(node))
        return;
    for (uint32_t k = 0; k < node->nin; k++)
        if (e->var_of[node->in[k]->id] >= 0)
            list[(*n)++] = (uint32_t)e->var_of[node->in[k]->id];
    if (e->grad_of[i] >= 0)
        list[(*n)++] = (uint32_t)e->grad_of[i];
}

static enum vb_st list_uses(struct exec *e)
{
    uint32_t list[GR_IN_MAX + 1], n = 0, total = 0;

    for (uint32_t i = 0; i < e->nnodes; i++) {
        held_vars(e, i, list, &n);
        for (uint32_t k = 0; k < n; k++)
            e->use_at[i + 1] += e->var[list[k]].nchunks;
    }
    to_offsets(e->use_at, e->nnodes);
    total = e->use_at[e->nnodes];
    e->use = zeroed(total, sizeof(*e->use));
    if (e->use == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < e->nnodes; i++) {
        uint32_t at = e->use_at[i];

        held_vars(e, i, list, &n);
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t c = 0; c < e->var[list[k]].nchunks; c++) {
                e->use[at] = e->var[list[k]].first_chunk + c;
                e->nuses[e->use[at++]]++;
            }
    }
    return VB_OK;
}

static bool is_fetched(const struct exec *e, const struct gr_node *n)
{
    for (uint32_t i = 0; i < e->p.nfetch; i++)
        if (e->p.fetch[i] == n)
            return true;
    return false;
}

/* May node take the place of its input? The input must be an op's own buffer with no other reader. */
static const struct gr_node *place_of(const struct exec *e, const struct gr_node *node)
{
    if (node->type->writes)
        return node->in[0];
    if (node->type->inplace_of < 0 || e->grad_of[node->id] >= 0)
        return NULL;
    const struct gr_node *in = node->in[node->type->inplace_of];

    if (is_leaf(in) || e->grad_of[in->id] >= 0 || is_fetched(e, in) ||
        e->user_at[in->id + 1] - e->user_at[in->id] != 1 || in->dtype != node->dtype ||
        !gr_shape_eq(in->shape, node->shape))
        return NULL;
    return in;
}

static enum vb_st give_buffers(struct exec *e)
{
    uint64_t total = 0;

    for (uint32_t pass = 0; pass < 2; pass++) {
        uint64_t at = 0;

        for (uint32_t i = 0; i < e->nnodes; i++) {
            const struct gr_node *node = gr_at(e->p.graph, i);
            const struct gr_node *in = NULL;
            uint64_t bytes = 0;

            if (!e->need[i] || is_leaf(node) || e->grad_of[i] >= 0)
                continue;
            in = place_of(e, node);
            if (in != NULL) {
                e->data[i] = e->data[in->id];
                continue;
            }
            if (!vb_mul(gr_elems(node->shape, e->p.max_rows), gr_dtype_bytes(node->dtype),
                        &bytes) ||
                bytes > UINT64_MAX / 4 || at > UINT64_MAX / 4)
                return VB_NOMEM;
            if (pass == 1)
                e->data[i] = e->arena + at;
            at = vb_round_up(at + bytes, 64);
        }
        total = at;
        if (pass == 0 &&
            posix_memalign((void **)&e->arena, 4096, vb_round_up(total + 1, 4096)) != 0) {
            e->arena = NULL;
            return VB_NOMEM;
        }
    }
    memset(e->arena, 0, total); /* touched now, so that the first step is like the others */
    return VB_OK;
}

/* One piece of memory for all ops: they run one after the other. */
static enum vb_st give_scratch(struct exec *e)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < e->nnodes; i++) {
        const struct gr_node *n = gr_at(e->p.graph, i);

        if (e->need[i] && n->type->scratch != NULL)
            most = VB_MAX(most, n->type->scratch(n, e->p.max_rows));
    }
    if (most == 0)
        return VB_OK;
    if (most > UINT64_MAX / 4 ||
        posix_memalign(&e->run.scratch, 4096, vb_round_up(most, 4096)) != 0) {
        e->run.scratch = NULL;
        return VB_NOMEM;
    }
    memset(e->run.scratch, 0, most);
    return VB_OK;
}

static enum vb_st make_arrays(struct exec *e)
{
    const uint32_t n = e->nnodes, nc = e->p.nchunks;

    e->nwords = (n + 63) / 64;
    e->var = zeroed(e->p.nvars, sizeof(*e->var));
    e->need = zeroed(n, sizeof(*e->need));
    e->data = zeroed(n, sizeof(void *));
    e->var_of = zeroed(n, sizeof(*e->var_of));
    e->grad_of = zeroed(n, sizeof(*e->grad_of));
    e->nin = zeroed(n, sizeof(*e->nin));
    e->user_at = zeroed(n + 1, sizeof(*e->user_at));
    e->use_at = zeroed(n + 1, sizeof(*e->use_at));
    e->nuses = zeroed(nc, sizeof(*e->nuses));
    e->pending = zeroed(n, sizeof(*e->pending));
    e->holding = zeroed(nc, sizeof(*e->holding));
    e->ready = zeroed(e->nwords, sizeof(*e->ready));
    e->waiting = zeroed(e->p.nvars, sizeof(*e->waiting));
    if (e->var == NULL || e->need == NULL || e->data == NULL || e->var_of == NULL ||
        e->grad_of == NULL || e->nin == NULL || e->user_at == NULL || e->use_at == NULL ||
        e->nuses == NULL || e->pending == NULL || e->holding == NULL || e->ready == NULL ||
        e->waiting == NULL)
        return VB_NOMEM;
    memcpy(e->var, e->p.var, e->p.nvars * sizeof(*e->var));
    e->p.var = NULL;
    return VB_OK;
}

enum vb_st exec_open(const struct exec_params *p, struct exec **e_out, struct vb_err *err)
{
    struct exec *e = calloc(1, sizeof(*e));
    enum vb_st st = VB_NOMEM;

    if (e == NULL)
        return st;
    e->p = *p;
    e->kn = kn_best();
    e->run.err = &e->why;
    e->nnodes = gr_count(p->graph);
    if ((st = make_arrays(e)) != VB_OK || (st = mark_needed(e)) != VB_OK ||
        (st = name_vars(e, err)) != VB_OK || (st = list_users(e)) != VB_OK ||
        (st = give_buffers(e)) != VB_OK || (st = give_scratch(e)) != VB_OK)
        goto fail;
    if (p->nchunks > 0 && (st = list_uses(e)) != VB_OK)
        goto fail;
    e->p.fetch = NULL; /* the caller's; not needed any more */
    *e_out = e;
    return VB_OK;

fail:
    exec_close(e);
    return st;
}

void exec_close(struct exec *e)
{
    if (e == NULL)
        return;
    free(e->var);
    free(e->need);
    free(e->data);
    free(e->var_of);
    free(e->grad_of);
    free(e->nin);
    free(e->user_at);
    free(e->user);
    free(e->use_at);
    free(e->use);
    free(e->nuses);
    free(e->arena);
    free(e->run.scratch);
    free(e->pending);
    free(e->holding);
    free(e->ready);
    free(e->waiting);
    free(e);
}
