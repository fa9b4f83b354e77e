/*
 * reduce_sum, reduce_mean, reduce_max (x; axes, keep) over the dimensions whose bits are set in axes (0: all); with keep
 * they stay as 1. Added in the order of x. Of an empty set: sum and mean 0, max -infinity. And their gradient:
 * spread(dy, x; axes, keep, mean) -> dy at every place that was reduced to it, divided by how many where mean is set. Where
 * several are the largest each gets the gradient of max.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { AXES, KEEP, MEAN };
static const char *const ints[] = { "axes", "keep", NULL };
static const char *const spread_ints[] = { "axes", "keep", "mean", NULL };

static bool is_reduced(const struct gr_node *n, uint32_t i)
{
    return n->attr.i[AXES] == 0 || (n->attr.i[AXES] >> i & 1) != 0;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;

    if (n->attr.i[AXES] < 0 || n->attr.i[AXES] >> x.rank != 0)
        return op_misfit(n, "an axis is beyond the rank", err);
    n->dtype = GR_F32;
    for (uint32_t i = 0; i < x.rank; i++) {
        if (is_reduced(n, i) && n->attr.i[KEEP] == 0)
            continue;
        n->shape.dim[n->shape.rank++] = is_reduced(n, i) ? 1 : x.dim[i];
    }
    return op_want(n, 0, GR_F32, x.rank, err);
}

/* Elements of the result from one index of x to the next in each dimension; 0: it is reduced. */
static void strides(const struct gr_node *n, const struct gr_shape *x, size_t *out)
{
    size_t step = 1;

    for (uint32_t i = x->rank; i-- > 0;) {
        out[i] = is_reduced(n, i) ? 0 : step;
        step *= is_reduced(n, i) ? 1 : x->dim[i];
    }
}

/* The place in the result for each element of x, in order. */
struct cursor {
    uint64_t index[GR_RANK_MAX];
    size_t stride[GR_RANK_MAX], at;
};

static void step(struct cursor *c, const struct gr_shape *x)
{
    for (uint32_t i = x->rank; i-- > 0;) {
        c->at += c->stride[i];
        if (++c->index[i] < x->dim[i])
            return;
        c->at -= c->stride[i] * x->dim[i];
        c->index[i] = 0;
    }
}

static float counted(const struct gr_tensor *x, const struct gr_tensor *y)
{
    const size_t n = gr_elems(y->shape, 0);

    return n > 0 ? (float)(gr_elems(x->shape, 0) / n) : 0;
}

static void sum_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    const size_t k = gr_elems(in[0].shape, 0), m = gr_elems(out->shape, 0);
    const float *x = in[0].data;
    struct cursor c = { .at = 0 };
    float *y = out->data;

    strides(n, &in[0].shape, c.stride);
    memset(y, 0, m * sizeof(*y));
    for (size_t i = 0; i < k; i++, step(&c, &in[0].shape))
        y[c.at] += x[i];
}

static void mean_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const float count = counted(&in[0], out);
    float *y = out->data;

    sum_run(n, in, out, r);
    for (size_t i = 0, m = gr_elems(out->shape, 0); count > 0 && i < m; i++)
        y[i] /= count;
}

static void max_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    const size_t k = gr_elems(in[0].shape, 0), m = gr_elems(out->shape, 0);
    const float *x = in[0].data;
    struct cursor c = { .at = 0 };
    float *y = out->data;

    strides(n, &in[0].shape, c.stride);
    for (size_t i = 0; i < m; i++)
        y[i] = -INFINITY;
    for (size_t i = 0; i < k; i++, step(&c, &in[0].shape))
        y[c.at] = x[i] > y[c.at] || isnan(x[i]) ? x[i] : y[c.at];
}

static void spread_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const float *dy = in[0].data, count = n->attr.i[MEAN] != 0 ? counted(&in[1], &in[0]) : 1;
    struct cursor c = { .at = 0 };
    float *dx = out->data;

    strides(n, &in[1].shape, c.stride);
    for (size_t i = 0, k = gr_elems(out->shape, 0); i < k; i++, step(&c, &in[1].shape))
        dx[i] = dy[c.at] / count;
}

static enum vb_st spread_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    return op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);
}

const struct gr_type op_spread = { .name = "spread",
                                   .nin = 2,
                                   .ints = spread_ints,
                                   .inplace_of = -1,
                                   .infer = spread_infer,
                                   .run = spread_run };

static enum vb_st spread(struct graph *g, struct gr_node *n, struct gr_node *dy, bool mean,
                         struct gr_node **out, struct vb_err *err)
{
    struct gr_attr a = n->attr;

    a.i[MEAN] = mean;
    return gr_add(g, &op_spread, NULL, (struct gr_node *[]){ dy, n->in[0] }, &a, out, err);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    return spread(g, n, dout, n->type == &op_reduce_mean, &din_out[0], err);
}

/* dy where x is the largest */
static enum vb_st max_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const float none = 0;
    struct gr_node *dy = NULL, *y = NULL, *is = NULL, *zero = NULL;
    enum vb_st st = spread(g, n, dout, false, &dy, err);

    if (st == VB_OK)
        st = spread(g, n, n, false, &y, err);
    if (st == VB_OK)
        st = gr_add(g, &op_equal, NULL, (struct gr_node *[]){ n->in[0], y }, NULL, &is, err);
    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, (struct gr_shape){ 0 }, &none, &zero, err);
    return st == VB_OK ? gr_add(g, &op_select, NULL, (struct gr_node *[]){ is, dy, zero }, NULL,
                                &din_out[0], err)
                       : st;
}

#define REDUCE(op, run_fn, grad_fn)                                                                \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 1,                                                     \
                                     .ints = ints,                                                 \
                                     .inplace_of = -1,                                             \
                                     .infer = infer,                                               \
                                     .grad = grad_fn,                                              \
                                     .run = run_fn }
REDUCE(reduce_sum, sum_run, grad);
REDUCE(reduce_mean, mean_run, grad);
REDUCE(reduce_max, max_run, max_grad);
