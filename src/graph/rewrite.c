/*
 * rewrite.c - what a run needs of a graph, as a graph of its own. One pass over the nodes in their order: each is
 * taken over with its inputs replaced by what those have become; a node that equals an earlier one becomes that;
 * one whose inputs are constants is computed here and now.
 */
#include "base/random.h"
#include "graph/graph.h"

#include <string.h>

enum { FOLD_BYTES_MAX = 1 << 20 };

struct rewrite {
    const struct gr_simplify *p;
    struct graph *out;
    struct gr_node **map;
    const bool *fed;
    uint32_t *bucket, nbuckets; /* by hash: id + 1 of a node of `out`, chained by next */
    uint32_t *next;
    struct vb_err *err;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    return (h ^ x) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static uint64_t data_bytes(const struct gr_node *n)
{
    return n->data == NULL ? 0 : gr_elems(n->shape, 0) * gr_dtype_bytes(n->dtype);
}

static uint64_t hash_of(const struct gr_node *n)
{
    uint64_t h = vb_hash_str(n->type->name);

    for (uint32_t i = 0; i < n->nin; i++)
        h = mix(h, n->in[i]->id);
    for (int i = 0; i < GR_INTS_MAX; i++)
        h = mix(h, (uint64_t)n->attr.i[i]);
    return mix(h, data_bytes(n));
}

static bool same(const struct gr_node *a, const struct gr_node *b)
{
    return a->type == b->type && a->nin == b->nin && a->dtype == b->dtype &&
           memcmp(a->in, b->in, a->nin * sizeof(a->in[0])) == 0 &&
           memcmp(&a->attr, &b->attr, sizeof(a->attr)) == 0 && strcmp(a->device, b->device) == 0 &&
           gr_shape_eq(a->shape, b->shape) && data_bytes(a) == data_bytes(b) &&
           (a->data == NULL || memcmp(a->data, b->data, data_bytes(a)) == 0);
}

/* Can it be replaced by another node that computes the same? */
static bool is_pure(const struct gr_node *n)
{
    return (n->type->run != NULL || n->type == &gr_constant) && !n->type->stateful && n->nctl == 0;
}

/* An earlier node like this one, which is the last of the graph; else it is remembered. */
static struct gr_node *find_same(struct rewrite *r, struct gr_node *n)
{
    const uint64_t at = hash_of(n) % r->nbuckets;

    if (!is_pure(n))
        return NULL;
    for (uint32_t k = r->bucket[at]; k != 0; k = r->next[k - 1])
        if (same(gr_at(r->out, k - 1), n))
            return gr_at(r->out, k - 1);
    r->next[n->id] = r->bucket[at];
    r->bucket[at] = n->id + 1;
    return NULL;
}

static bool can_fold(const struct gr_node *n)
{
    const uint64_t elems = gr_elems(n->shape, UINT64_MAX);

    if (!is_pure(n) || n->nin == 0 || n->type->scratch != NULL ||
        elems > FOLD_BYTES_MAX / gr_dtype_bytes(n->dtype))
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        if (n->in[i]->type != &gr_constant)
            return false;
    return true;
}

/* Computes the last node of the graph, which becomes a constant. */
static enum vb_st fold(struct rewrite *r, struct gr_node *n)
{
    struct gr_tensor in[GR_IN_MAX], out = { .dtype = n->dtype, .shape = n->shape };
    struct gr_run run = { .err = r->err };

    out.data = calloc(gr_elems(n->shape, 0) + 1, gr_dtype_bytes(n->dtype));
    if (out.data == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = (struct gr_tensor){ n->in[i]->data, n->in[i]->dtype, n->in[i]->shape };
    n->type->run(n, in, &out, &run);
    if (run.failed) {
        free(out.data);
        return VB_INVAL;
    }
    gr_become_constant(n, out.data);
    return VB_OK;
}

static enum vb_st take_over(struct rewrite *r, const struct gr_node *old)
{
    struct gr_node *in[GR_IN_MAX] = { NULL }, *n = NULL;
    enum vb_st st;

    for (uint32_t i = 0; i < old->nin; i++)
        in[i] = r->fed[old->id] ? NULL : r->map[old->in[i]->id];
    if (r->fed[old->id])
        st = gr_add_placeholder(r->out, old->name, old->dtype, old->shape, &n, r->err);
    else
        st = gr_copy(r->out, old, in, &n, r->err);
    for (uint32_t i = 0; st == VB_OK && !r->fed[old->id] && i < old->nctl; i++)
        st = gr_after(n, r->map[old->ctl[i]->id], r->err);
    if (st == VB_OK && can_fold(n))
        st = fold(r, n);
    if (st != VB_OK)
        return st;
    struct gr_node *twin = r->fed[old->id] ? NULL : find_same(r, n);

    if (twin != NULL)
        gr_drop_last(r->out);
    r->map[old->id] = twin != NULL ? twin : n;
    return VB_OK;
}

/* What is needed when inputs of what is fed are not. */
static void mark(const struct graph *g, const struct gr_simplify *p, const bool *fed, bool *need)
{
    for (uint32_t i = 0; i < p->nfetch; i++)
        need[p->fetch[i]->id] = true;
    for (uint32_t id = gr_count(g); id-- > 0;) {
        const struct gr_node *n = gr_at(g, id);

        for (uint32_t i = 0; need[id] && !fed[id] && i < n->nin; i++)
            need[n->in[i]->id] = true;
        for (uint32_t i = 0; need[id] && !fed[id] && i < n->nctl; i++)
            need[n->ctl[i]->id] = true;
    }
}

static enum vb_st check_fed(const struct graph *g, const bool *need, const bool *fed,
                            struct vb_err *err)
{
    for (uint32_t id = 0; id < gr_count(g); id++)
        if (need[id] && !fed[id] && gr_at(g, id)->type == &gr_placeholder) {
            vb_err_set(err, "placeholder '%s' is needed and not fed", gr_at(g, id)->name);
            return VB_INVAL;
        }
    return VB_OK;
}

enum vb_st gr_simplify(const struct graph *g, const struct gr_simplify *p, struct graph **out,
                       struct gr_node **map, struct vb_err *err)
{
    const uint32_t n = gr_count(g);
    AUTO_FREE bool *need = calloc(n + 1, sizeof(*need));
    AUTO_FREE bool *fed = calloc(n + 1, sizeof(*fed));
    AUTO_FREE uint32_t *bucket = calloc(2 * (size_t)n + 1, sizeof(*bucket));
    AUTO_FREE uint32_t *next = calloc(n + 1, sizeof(*next));
    struct rewrite r = {
        .p = p, .map = map, .fed = fed, .bucket = bucket, .next = next, .err = err
    };
    enum vb_st st = VB_NOMEM;

    vb_err_set(err, "out of memory for a graph of %u nodes", n);
    memset(map, 0, n * sizeof(struct gr_node *));
    if (need == NULL || fed == NULL || bucket == NULL || next == NULL)
        return st;
    r.nbuckets = 2 * n + 1;
    for (uint32_t i = 0; i < p->nfeed; i++)
        fed[p->feed[i]->id] = true;
    mark(g, p, fed, need);
    st = check_fed(g, need, fed, err);
    if (st == VB_OK)
        st = gr_new(&r.out);
    for (uint32_t id = 0; st == VB_OK && id < n; id++)
        if (need[id])
            st = take_over(&r, gr_at(g, id));
    if (st != VB_OK) {
        gr_free(r.out);
        return st;
    }
    *out = r.out;
    return VB_OK;
}
