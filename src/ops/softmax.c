/*
 * softmax(x; causal, dim), log_softmax(x) over the last dimension, with the largest taken off first; softmax_grad(dy, y; causal,
 * dim) = y (dy - sum dy y) and log_softmax_grad(dy, y) = dy - exp(y) sum dy, sums over that dimension.
 *
 * For attention softmax is of x / sqrt(dim) (0: of x), and with causal row i of n has its first cols - n + i + 1 columns alone, the
 * others are 0. Sums are in LANES parts, each in order.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/elementary.h"

#include <math.h>

enum { CAUSAL, DIM };
static const char *const ints[] = { "causal", "dim", NULL };

enum { LANES = 16 };

static bool has_no_rows(const struct gr_shape *s)
{
    const uint64_t *last = &s->dim[s->rank - 1];

    return s->rank < 2 || last[-1] == GR_BATCH || last[-1] > last[0];
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const bool causal = n->type->ints != NULL && n->attr.i[CAUSAL] != 0;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    if (st == VB_OK && (x.rank == 0 || x.dim[x.rank - 1] == GR_BATCH))
        return op_misfit(n, "there is no last dimension to sum over", err);
    if (st == VB_OK && causal && has_no_rows(&x))
        return op_misfit(n, "causal needs rows, not more than columns, and not the batch", err);
    if (st == VB_OK && n->type->ints != NULL && n->attr.i[DIM] < 0)
        return op_misfit(n, "dim is negative", err);
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

static float scale_of(const struct gr_node *n)
{
    return n->attr.i[DIM] == 0 ? 1.0f : 1.0f / sqrtf((float)n->attr.i[DIM]);
}

/* How many columns row i, counted over all matrices, has. */
static size_t width(const struct gr_node *n, const struct gr_tensor *t, size_t i, size_t cols)
{
    if (n->attr.i[CAUSAL] == 0)
        return cols;
    const size_t rows = t->shape.dim[t->shape.rank - 2];

    return cols - rows + i % rows + 1;
}

static float largest(const float *x, size_t n)
{
    float lane[LANES];
    size_t i = 0;

    for (size_t k = 0; k < LANES; k++)
        lane[k] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (size_t k = 1; k < LANES; k++)
        lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    return lane[0];
}

/* lane[i % LANES] += f of element i, then the lanes in order. */
#define SUM_OF(name, f, ...)                                                                       \
    static float name(__VA_ARGS__, size_t n)                                                       \
    {                                                                                              \
        float lane[LANES] = { 0 };                                                                 \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (; at + LANES <= n; at += LANES)                                                       \
            for (size_t k = 0; k < LANES; k++) {                                                   \
                const size_t i = at + k;                                                           \
                lane[k] += f;                                                                      \
            }                                                                                      \
        for (size_t i = at; i < n; i++)                                                            \
            lane[i - at] += f;                                                                     \
        for (size_t k = 1; k < LANES; k++)                                                         \
            lane[0] += lane[k];                                                                    \
        return lane[0];                                                                            \
    }
SUM_OF(sum, x[i], const float *x)
SUM_OF(sum_product, x[i] * y[i], const float *x, const float *y)
SUM_OF(sum_exp, kn_exp(x[i] - most), const float *x, float most)

static void softmax_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                        struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float scale = scale_of(n), *x = in[0].data;
    float *y = out->data;

    for (size_t i = 0; i < k.n; i++, x += k.cols, y += k.cols) {
        const size_t w = width(n, out, i, k.cols);
        const float most = largest(x, w);

        for (size_t c = 0; c < w; c++)
            y[c] = kn_exp((x[c] - most) * scale);
        const float total = sum(y, w);

        for (size_t c = 0; c < w; c++)
            y[c] /= total;
        for (size_t c = w; c < k.cols; c++)
            y[c] = 0;
    }
}

static void log_softmax_run(const struct gr_node *n, const struct gr_tensor *in,
                            struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *x = in[0].data;
    float *y = out->data;

    for (size_t i = 0; i < k.n; i++, x += k.cols, y += k.cols) {
        const float most = largest(x, k.cols), log_sum = logf(sum_exp(x, most, k.cols));

        for (size_t c = 0; c < k.cols; c++)
            y[c] = x[c] - most - log_sum;
    }
}

static void softmax_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                             struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float scale = scale_of(n), *dy = in[0].data, *y = in[1].data;
    float *dx = out->data;

    for (size_t i = 0; i < k.n; i++, dy += k.cols, y += k.cols, dx += k.cols) {
        const size_t w = width(n, out, i, k.cols);
        const float total = sum_product(dy, y, w);

        for (size_t c = 0; c < w; c++)
            dx[c] = scale * (y[c] * (dy[c] - total));
        for (size_t c = w; c < k.cols; c++)
            dx[c] = 0;
    }
}

static void log_softmax_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                                 struct gr_tensor *out, struct gr_run *r)
{
    const struct rows k = rows_of(out);
    const float *dy = in[0].data, *y = in[1].data;
    float *dx = out->data;

    for (size_t i = 0; i < k.n; i++, dy += k.cols, y += k.cols, dx += k.cols) {
        const float total = sum(dy, k.cols);

        for (size_t c = 0; c < k.cols; c++)
            dx[c] = dy[c] - kn_exp(y[c]) * total;
    }
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_type *t = n->type == &op_softmax ? &op_softmax_grad : &op_log_softmax_grad;

    return gr_add(g, t, NULL, (struct gr_node *[]){ dout, n }, &n->attr, &din_out[0], err);
}

#define SOFTMAX(op, ...)                                                                           \
    const struct gr_type op_##op = { .name = #op, .inplace_of = 0, .run = op##_run, __VA_ARGS__ }
SOFTMAX(softmax, .nin = 1, .ints = ints, .infer = infer, .grad = grad);
SOFTMAX(log_softmax, .nin = 1, .infer = infer, .grad = grad);
SOFTMAX(softmax_grad, .nin = 2, .ints = ints, .infer = infer_two);
SOFTMAX(log_softmax_grad, .nin = 2, .infer = infer_two);
