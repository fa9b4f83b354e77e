/*
 * model_block.c - a block of a decoder-only transformer (Vaswani et al. 2017; norms before: Radford et al. 2019):
 * x + attention(norm(x)), then x + dense(gelu(dense(norm(x)))), on rows [batch, positions, width]. A position sees those before it.
 */
#include "worker/model_priv.h"

#include "ops/ops.h"

#include <stdio.h>

enum vb_st build_dense(struct build *b, const char *prefix, uint64_t units, struct gr_node *x,
                       struct gr_node **out)
{
    const uint64_t width = x->shape.dim[x->shape.rank - 1];
    struct gr_node *w = NULL, *bias = NULL, *y = NULL;
    char name[GR_NAME_MAX];
    enum vb_st st;

    snprintf(name, sizeof(name), "%s/weight", prefix);
    st = build_var(b, name, (struct gr_shape){ .rank = 2, .dim = { width, units } }, MODEL_BY_RANK,
                   0, &w);
    snprintf(name, sizeof(name), "%s/bias", prefix);
    if (st == VB_OK)
        st = build_var(b, name, (struct gr_shape){ .rank = 1, .dim = { units } }, MODEL_BY_RANK, 0,
                       &bias);
    if (st == VB_OK)
        st = build_op(b, "matmul", x, w, NULL, &y);
    return st == VB_OK ? build_op(b, "bias_add", y, bias, NULL, out) : st;
}

enum vb_st build_norm(struct build *b, const char *prefix, double eps, struct gr_node *x,
                      struct gr_node **out)
{
    const struct gr_shape shape = { .rank = 1, .dim = { x->shape.dim[x->shape.rank - 1] } };
    struct gr_node *gain = NULL, *bias = NULL;
    struct gr_attr a = { 0 };
    char name[GR_NAME_MAX];
    enum vb_st st;

    build_real(&a, "layer_norm", "eps", eps);
    snprintf(name, sizeof(name), "%s/gain", prefix);
    st = build_var(b, name, shape, MODEL_ONES, 0, &gain);
    snprintf(name, sizeof(name), "%s/bias", prefix);
    if (st == VB_OK)
        st = build_var(b, name, shape, MODEL_BY_RANK, 0, &bias);
    return st == VB_OK ? gr_add(b->m->graph, op_find("layer_norm"), NULL,
                                (struct gr_node *[]){ x, gain, bias }, &a, out, b->err)
                       : st;
}

/* [batch, positions, width] to [batch, heads, positions, width / heads], or back. */
static enum vb_st turn(struct build *b, struct gr_node *x, struct gr_node **out)
{
    static const char *const perm[] = { "perm0", "perm1", "perm2", "perm3" };
    static const int64_t to[] = { 0, 2, 1, 3 };
    struct gr_attr a = { 0 };

    for (unsigned i = 0; i < 4; i++)
        build_int(&a, "transpose", perm[i], to[i]);
    return build_op(b, "transpose", x, NULL, &a, out);
}

static enum vb_st shaped(struct build *b, struct gr_node *x, uint32_t rank, const uint64_t *dim,
                         struct gr_node **out)
{
    static const char *const name[] = { "dim0", "dim1", "dim2", "dim3" };
    struct gr_attr a = { 0 };

    build_int(&a, "reshape", "rank", rank);
    build_int(&a, "reshape", "dim0", -1);
    for (uint32_t i = 1; i < rank; i++)
        build_int(&a, "reshape", name[i], (int64_t)dim[i]);
    return build_op(b, "reshape", x, NULL, &a, out);
}

/* One of query, key and value, in heads. */
static enum vb_st heads_of(struct build *b, const char *what, uint64_t heads, struct gr_node *x,
                           struct gr_node **out)
{
    const uint64_t width = x->shape.dim[2];
    char prefix[48];

    snprintf(prefix, sizeof(prefix), "block%u/%s", b->nblock, what);
    enum vb_st st = build_dense(b, prefix, width, x, out);

    if (st == VB_OK)
        st = shaped(b, *out, 4, (uint64_t[]){ 0, x->shape.dim[1], heads, width / heads }, out);
    return st == VB_OK ? turn(b, *out, out) : st;
}

static enum vb_st attention(struct build *b, uint64_t heads, struct gr_node *x,
                            struct gr_node **out)
{
    const uint64_t width = x->shape.dim[2], positions = x->shape.dim[1];
    struct gr_node *q = NULL, *k = NULL, *v = NULL, *y = NULL;
    struct gr_attr score = { 0 }, soft = { 0 };
    char prefix[48];
    enum vb_st st = heads_of(b, "query", heads, x, &q);

    build_int(&score, "matmul", "tb", 1);
    build_int(&soft, "softmax", "causal", 1);
    build_int(&soft, "softmax", "dim", (int64_t)(width / heads));
    if (st == VB_OK)
        st = heads_of(b, "key", heads, x, &k);
    if (st == VB_OK)
        st = heads_of(b, "value", heads, x, &v);
    if (st == VB_OK)
        st = build_op(b, "matmul", q, k, &score, &y);
    if (st == VB_OK)
        st = build_op(b, "softmax", y, NULL, &soft, &y);
    if (st == VB_OK)
        st = build_op(b, "matmul", y, v, NULL, &y);
    if (st == VB_OK)
        st = turn(b, y, &y);
    if (st == VB_OK)
        st = shaped(b, y, 3, (uint64_t[]){ 0, positions, width }, &y);
    snprintf(prefix, sizeof(prefix), "block%u/attention", b->nblock);
    return st == VB_OK ? build_dense(b, prefix, width, y, out) : st;
}

static enum vb_st hidden(struct build *b, uint64_t units, struct gr_node *x, struct gr_node **out)
{
    char prefix[48];

    snprintf(prefix, sizeof(prefix), "block%u/hidden", b->nblock);
    enum vb_st st = build_dense(b, prefix, units, x, out);

    if (st == VB_OK)
        st = build_op(b, "gelu", *out, NULL, NULL, out);
    snprintf(prefix, sizeof(prefix), "block%u/out", b->nblock);
    return st == VB_OK ? build_dense(b, prefix, x->shape.dim[2], *out, out) : st;
}

enum vb_st build_transformer_block(struct build *b, const struct model_layer *l)
{
    struct gr_node *y = NULL, *x = b->at;
    const uint64_t width = x->shape.dim[x->shape.rank - 1];
    char prefix[48];
    enum vb_st st;

    if (x->dtype != GR_F32 || x->shape.rank != 3 || width % l->heads != 0) {
        vb_err_set(b->err, x->dtype != GR_F32 || x->shape.rank != 3
                               ? "transformer_block needs a row for each position; put embedding "
                                 "before it"
                               : "transformer_block: heads must divide the width");
        return VB_INVAL;
    }
    snprintf(prefix, sizeof(prefix), "block%u/norm1", ++b->nblock);
    st = build_norm(b, prefix, 1e-5, x, &y);
    if (st == VB_OK)
        st = attention(b, l->heads, y, &y);
    if (st == VB_OK)
        st = build_op(b, "add", x, y, NULL, &x);
    snprintf(prefix, sizeof(prefix), "block%u/norm2", b->nblock);
    if (st == VB_OK)
        st = build_norm(b, prefix, 1e-5, x, &y);
    if (st == VB_OK)
        st = hidden(b, l->hidden != 0 ? l->hidden : 4 * width, y, &y);
    return st == VB_OK ? build_op(b, "add", x, y, NULL, &b->at) : st;
}
