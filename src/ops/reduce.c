/*
 * reduce_sum, reduce_mean, reduce_max, reduce_min (x; axes, keep) over the dimensions whose bits are set in axes (0: all);
 * with keep they stay as 1. sum_to(x, like) -> x summed over what broadcasting like to the shape of x repeats; of like only
 * the shape counts. Of an empty set: sum and mean 0, max -infinity, min infinity. A NaN makes all of them NaN. Gradients:
 * spread(dy, x; axes, keep, mean) -> dy at every place that was reduced to it, divided by how many where mean is set. Where
 * several are the largest (least) each gets the gradient.
 *
 * The order of sums is fixed: a dense row as 32 sums of each 32nd element, then as a tree, in blocks that are added in double;
 * rows one after another.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>

enum { AXES, KEEP, MEAN };
static const char *const ints[] = { "axes", "keep", NULL };
static const char *const spread_ints[] = { "axes", "keep", "mean", NULL };

static bool is_reduced(const struct gr_node *n, uint32_t i)
{
    return n->attr.i[AXES] == 0 || (n->attr.i[AXES] >> i & 1) != 0;
}

/* x with 1 for each dimension that is reduced. */
static struct gr_shape kept(const struct gr_node *n, const struct gr_shape *x)
{
    struct gr_shape s = *x;

    for (uint32_t i = 0; i < s.rank; i++)
        if (is_reduced(n, i))
            s.dim[i] = 1;
    return s;
}

/* The shape that x is reduced to. */
static enum vb_st reduced(const struct gr_node *n, const struct gr_shape *x, struct gr_shape *out,
                          struct vb_err *err)
{
    if (n->attr.i[AXES] < 0 || n->attr.i[AXES] >> x->rank != 0)
        return op_misfit(n, "an axis is beyond the rank", err);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (is_reduced(n, i) && n->attr.i[KEEP] == 0)
            continue;
        out->dim[out->rank++] = is_reduced(n, i) ? 1 : x->dim[i];
    }
    return VB_OK;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    n->dtype = GR_F32;
    return st == VB_OK ? reduced(n, &x, &n->shape, err) : st;
}

enum { LANES = 32, BLOCK = 1024 };

#define ADD(y, x) ((y) + (x))
#define GREATER(y, x) ((((x) > (y)) | ((x) != (x))) != 0 ? (x) : (y)) /* a NaN stays */
#define LESS(y, x) ((((x) < (y)) | ((x) != (x))) != 0 ? (x) : (y))

/* up to BLOCK elements of a dense row as one; and a row of x into y, one element or as many */
#define REDUCE(name, join, none, type)                                                             \
    static float name##_block(const float *x, size_t n)                                            \
    {                                                                                              \
        float lane[LANES];                                                                         \
        size_t i = 0;                                                                              \
                                                                                                   \
        for (size_t k = 0; k < LANES; k++)                                                         \
            lane[k] = none;                                                                        \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (size_t k = 0; k < LANES; k++)                                                     \
                lane[k] = join(lane[k], x[i + k]);                                                 \
        for (size_t k = 0; i + k < n; k++)                                                         \
            lane[k] = join(lane[k], x[i + k]);                                                     \
        for (size_t half = LANES / 2; half > 0; half /= 2)                                         \
            for (size_t k = 0; k < half; k++)                                                      \
                lane[k] = join(lane[k], lane[k + half]);                                           \
        return lane[0];                                                                            \
    }                                                                                              \
    static void name##_row(void *const *at, const size_t *step, size_t n)                          \
    {                                                                                              \
        const float *x = at[1];                                                                    \
        float *y = at[0];                                                                          \
        type all = (type)none;                                                                     \
                                                                                                   \
        const size_t sy = step[0], sx = step[1];                                                   \
                                                                                                   \
        if (sy == 1 && sx == 1) {                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = join(y[i], x[i]);                                                           \
            return;                                                                                \
        }                                                                                          \
        if (sy != 0) {                                                                             \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i * sy] = join(y[i * sy], x[i * sx]);                                            \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; sx == 1 && i < n; i += BLOCK) {                                         \
            const type part = (type)name##_block(x + i, VB_MIN(n - i, (size_t)BLOCK));             \
            all = join(all, part);                                                                 \
        }                                                                                          \
        for (size_t i = 0; sx != 1 && i < n; i++)                                                  \
            all = join(all, (type)x[i * sx]);                                                      \
        y[0] = join(y[0], (float)all);                                                             \
    }
REDUCE(sum, ADD, 0.0f, double)
REDUCE(max, GREATER, -INFINITY, float)
REDUCE(min, LESS, INFINITY, float)

/* x into y, which has the shape s, with 1 or nothing where it is reduced. */
static void reduce(const struct gr_tensor *x, struct gr_tensor *y, const struct gr_shape *s,
                   float none, nd_row *row)
{
    struct nd l = nd_over(&x->shape);
    float *to = y->data;

    for (size_t i = 0, k = gr_elems(*s, 0); i < k; i++)
        to[i] = none;
    nd_add(&l, s);
    nd_add(&l, &x->shape);
    nd_each(&l, (void *[]){ y->data, x->data }, (const size_t[]){ sizeof(float), sizeof(float) },
            row);
}

static float counted(const struct gr_tensor *x, const struct gr_tensor *y)
{
    const size_t n = gr_elems(y->shape, 0);

    return n > 0 ? (float)(gr_elems(x->shape, 0) / n) : 0;
}

#define RUN(name, none)                                                                            \
    static void name##_run(const struct gr_node *n, const struct gr_tensor *in,                    \
                           struct gr_tensor *out, struct gr_run *r)                                \
    {                                                                                              \
        const struct gr_shape s = kept(n, &in[0].shape);                                           \
                                                                                                   \
        reduce(&in[0], out, &s, none, name##_row);                                                 \
    }
RUN(sum, 0)
RUN(max, -INFINITY)
RUN(min, INFINITY)

static void mean_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const float count = counted(&in[0], out);
    float *y = out->data;

    sum_run(n, in, out, r);
    for (size_t i = 0, m = gr_elems(out->shape, 0); count > 0 && i < m; i++)
        y[i] /= count;
}

/* ---- gradients ---- */

static enum vb_st spread_infer(struct gr_node *n, struct vb_err *err)
{
    struct gr_shape y = { 0 };
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    if (st == VB_OK)
        st = reduced(n, &n->shape, &y, err);
    return st == VB_OK && !gr_shape_eq(y, n->in[0]->shape)
               ? op_misfit(n, "the second is not reduced to the shape of the first", err)
               : st;
}

static void spread_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const struct gr_shape s = kept(n, &out->shape);
    const float count = counted(out, &in[0]);
    struct nd l = nd_over(&out->shape);
    float *x = out->data;

    nd_add(&l, &out->shape);
    nd_add(&l, &s);
    nd_copy(&l, x, in[0].data, sizeof(*x));
    for (size_t i = 0, k = gr_elems(out->shape, 0); n->attr.i[MEAN] != 0 && i < k; i++)
        x[i] /= count;
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

/* dy where x is the largest (least), else 0 */
static enum vb_st choice_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *dy = NULL, *y = NULL, *is = NULL, *zero = NULL;
    enum vb_st st = spread(g, n, dout, false, &dy, err);

    if (st == VB_OK)
        st = spread(g, n, n, false, &y, err);
    if (st == VB_OK)
        st = op_two(g, &op_equal, n->in[0], y, &is, err);
    if (st == VB_OK)
        st = op_zero(g, GR_F32, &zero, err);
    return st == VB_OK ? gr_add(g, &op_select, NULL, (struct gr_node *[]){ is, dy, zero }, NULL,
                                &din_out[0], err)
                       : st;
}

#define OP(op, run_fn, grad_fn)                                                                    \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 1,                                                     \
                                     .ints = ints,                                                 \
                                     .inplace_of = -1,                                             \
                                     .infer = infer,                                               \
                                     .grad = grad_fn,                                              \
                                     .run = run_fn }
OP(reduce_sum, sum_run, grad);
OP(reduce_mean, mean_run, grad);
OP(reduce_max, max_run, choice_grad);
OP(reduce_min, min_run, choice_grad);

static enum vb_st sum_to_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape like = n->in[1]->shape, x = n->in[0]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);
    bool fits = like.rank <= x.rank;

    for (uint32_t i = 0; i < x.rank; i++)
        fits = fits && (nd_dim(&like, i, x.rank) == 1 || nd_dim(&like, i, x.rank) == x.dim[i]);
    n->dtype = GR_F32;
    n->shape = like;
    return st == VB_OK && !fits ? op_misfit(n, "the second cannot be repeated to the first", err)
                                : st;
}

static void sum_to_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    reduce(&in[0], out, &out->shape, 0, sum_row);
}

const struct gr_type op_sum_to = {
    .name = "sum_to", .nin = 2, .inplace_of = -1, .infer = sum_to_infer, .run = sum_to_run
};
