/*
 * softmax(x), log_softmax(x) over the last dimension, with the largest taken off first; softmax_grad(dy, y) = y (dy - sum
 * dy y) and log_softmax_grad(dy, y) = dy - exp(y) sum dy, sums over that dimension.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    if (st == VB_OK && (x.rank == 0 || x.dim[x.rank - 1] == GR_BATCH))
        return op_misfit(n, "there is no last dimension to sum over", err);
    n->dtype = GR_F32;
    n->shape = x;
    return st;
}

static enum vb_st infer_two(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = infer(n, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, n->shape.rank, err);
    return st == VB_OK && !gr_shape_eq(n->shape, n->in[1]->shape)
               ? op_misfit(n, "shapes differ", err)
               : st;
}

struct rows {
    size_t n, cols;
};

static struct rows rows_of(const struct gr_tensor *t)
{
    const size_t cols = t->shape.dim[t->shape.rank - 1];

    return (struct rows){ gr_elems(t->shape, 0) / VB_MAX(cols, 1u), cols };
}

/* The sum of exp(x - largest); *most is the largest. */
static float sum_exp(const float *x, size_t n, float *most)
{
    float sum = 0;

    *most = x[0];
    for (size_t i = 1; i < n; i++)
        *most = x[i] > *most ? x[i] : *most;
    for (size_t i = 0; i < n; i++)
        sum += expf(x[i] - *most);
    return sum;
}

static void softmax_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                        struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *x = in[0].data;
    float *y = out->data, most;

    for (size_t i = 0; i < k.n; i++, x += k.cols, y += k.cols) {
        const float sum = sum_exp(x, k.cols, &most);

        for (size_t c = 0; c < k.cols; c++)
            y[c] = expf(x[c] - most) / sum;
    }
}

static void log_softmax_run(const struct gr_node *n, const struct gr_tensor *in,
                            struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *x = in[0].data;
    float *y = out->data, most;

    for (size_t i = 0; i < k.n; i++, x += k.cols, y += k.cols) {
        const float log_sum = logf(sum_exp(x, k.cols, &most));

        for (size_t c = 0; c < k.cols; c++)
            y[c] = x[c] - most - log_sum;
    }
}

static void softmax_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                             struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *dy = in[0].data, *y = in[1].data;
    float *dx = out->data;

    for (size_t i = 0; i < k.n; i++, dy += k.cols, y += k.cols, dx += k.cols) {
        float sum = 0;

        for (size_t c = 0; c < k.cols; c++)
            sum += dy[c] * y[c];
        for (size_t c = 0; c < k.cols; c++)
            dx[c] = y[c] * (dy[c] - sum);
    }
}

static void log_softmax_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                                 struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *dy = in[0].data, *y = in[1].data;
    float *dx = out->data;

    for (size_t i = 0; i < k.n; i++, dy += k.cols, y += k.cols, dx += k.cols) {
        float sum = 0;

        for (size_t c = 0; c < k.cols; c++)
            sum += dy[c];
        for (size_t c = 0; c < k.cols; c++)
            dx[c] = dy[c] - expf(y[c]) * sum;
    }
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_type *t = n->type == &op_softmax ? &op_softmax_grad : &op_log_softmax_grad;

    return gr_add(g, t, NULL, (struct gr_node *[]){ dout, n }, NULL, &din_out[0], err);
}

#define SOFTMAX(op)                                                                                \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 1, .inplace_of = 0, .infer = infer, .grad = grad, .run = op##_run      \
    }
SOFTMAX(softmax);
SOFTMAX(log_softmax);

#define OF_GRADIENT(op)                                                                            \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 2, .inplace_of = 0, .infer = infer_two, .run = op##_run                \
    }
OF_GRADIENT(softmax_grad);
OF_GRADIENT(log_softmax_grad);
