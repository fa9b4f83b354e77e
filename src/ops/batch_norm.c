/*
 * batch_norm(x [.., n], gain, bias, [mean, variance]; eps) (Ioffe & Szegedy 2015): (x - mean) / sqrt(variance + eps) * gain + bias, each
 * [n]. Mean and variance (divided by the number of rows) are those of all rows of x, or given; a given one has no gradient. Sums are
 * in double, rows in order.
 *
 * Gradients: batch_norm_grad(dy, x, gain, [mean, variance]; eps) for x, and for gain the column sums of dy times
 * batch_norm with gain 1 and bias 0.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { EPS };
static const char *const reals[] = { "eps", NULL };

static uint64_t cols_of(const struct gr_shape *s)
{
    return s->dim[s->rank - 1];
}

/* x is input i, of rank 2 at least; inputs from `from` on are as long as its last dimension. */
static enum vb_st fit(const struct gr_node *n, uint32_t x, uint32_t from, struct vb_err *err)
{
    const struct gr_shape s = n->in[x]->shape;
    enum vb_st st = op_want(n, x, GR_F32, VB_MAX(s.rank, 2u), err);

    if (st == VB_OK && n->nin != n->type->nin && n->nin != n->type->nin + 2)
        st = op_misfit(n, "mean and variance are given together or not at all", err);
    for (uint32_t i = from; i < n->nin && st == VB_OK; i++) {
        st = op_want(n, i, GR_F32, 1, err);
        if (st == VB_OK && n->in[i]->shape.dim[0] != cols_of(&s))
            st = op_misfit(n, "gain, bias, mean or variance are not as long as the last dimension",
                           err);
    }
    return st;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return fit(n, 0, 1, err);
}

static enum vb_st grad_infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = fit(n, 1, 2, err);

    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    return st == VB_OK && (n->in[0]->dtype != GR_F32 || !gr_shape_eq(n->in[0]->shape, n->shape))
               ? op_misfit(n, "the gradient is not like x", err)
               : st;
}

/* In r->scratch, for each column. */
struct columns {
    double *a, *b;
    float *mean, *inv; /* inv: 1 / sqrt(variance + eps) */
};

static uint64_t scratch(const struct gr_node *n, uint64_t batch)
{
    return cols_of(&n->shape) * (2 * sizeof(double) + 2 * sizeof(float));
}

static struct columns columns_at(void *p, size_t cols)
{
    double *a = p;
    float *f = (float *)(a + 2 * cols);

    return (struct columns){ a, a + cols, f, f + cols };
}

static void measure(const struct columns *k, const float *x, size_t rows, size_t cols)
{
    memset(k->a, 0, 2 * cols * sizeof(double)); /* and b */
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            k->a[c] += (double)x[i * cols + c];
    for (size_t c = 0; c < cols; c++)
        k->mean[c] = (float)(k->a[c] / (double)rows);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++) {
            const double d = (double)x[i * cols + c] - (double)k->mean[c];

            k->b[c] += d * d;
        }
    for (size_t c = 0; c < cols; c++)
        k->inv[c] = (float)(k->b[c] / (double)rows);
}

/* given: mean and variance; NULL: those of x. */
static void look(const struct gr_node *n, const struct columns *k, const float *x,
                 const struct gr_tensor *given, size_t rows, size_t cols)
{
    if (given == NULL)
        measure(k, x, rows, cols);
    else {
        memcpy(k->mean, given[0].data, cols * sizeof(float));
        memcpy(k->inv, given[1].data, cols * sizeof(float));
    }
    for (size_t c = 0; c < cols; c++)
        k->inv[c] = 1.0f / sqrtf(k->inv[c] + (float)n->attr.f[EPS]);
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const size_t cols = cols_of(&out->shape), rows = gr_elems(out->shape, 0) / VB_MAX(cols, 1u);
    const struct columns k = columns_at(r->scratch, cols);
    const float *x = in[0].data, *gain = in[1].data, *bias = in[2].data;
    float *y = out->data;

    if (rows == 0)
        return;
    look(n, &k, x, n->nin > 3 ? &in[3] : NULL, rows, cols);
    for (size_t i = 0; i < rows; i++, x += cols, y += cols)
        for (size_t c = 0; c < cols; c++)
            y[c] = (x[c] - k.mean[c]) * k.inv[c] * gain[c] + bias[c];
}

/* With h = (x - mean) inv:  dx = gain inv (dy - mean(dy) - h mean(dy h)); where they are given: gain inv dy. */
static void grad_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const size_t cols = cols_of(&out->shape), rows = gr_elems(out->shape, 0) / VB_MAX(cols, 1u);
    const struct columns k = columns_at(r->scratch, cols);
    const float *dy = in[0].data, *x = in[1].data, *gain = in[2].data;
    const bool given = n->nin > 3;
    float *dx = out->data;

    if (rows == 0)
        return;
    look(n, &k, x, given ? &in[3] : NULL, rows, cols);
    memset(k.a, 0, 2 * cols * sizeof(double));
    for (size_t i = 0; i < rows && !given; i++)
        for (size_t c = 0; c < cols; c++) {
            const float g = dy[i * cols + c];

            k.a[c] += (double)g;
            k.b[c] += (double)g * (double)((x[i * cols + c] - k.mean[c]) * k.inv[c]);
        }
    for (size_t c = 0; c < cols; c++) {
        k.a[c] /= (double)rows;
        k.b[c] /= (double)rows;
    }
    for (size_t i = 0; i < rows; i++, dy += cols, x += cols, dx += cols)
        for (size_t c = 0; c < cols; c++) {
            const float h = (x[c] - k.mean[c]) * k.inv[c];

            dx[c] = gain[c] * k.inv[c] * (dy[c] - (float)k.a[c] - h * (float)k.b[c]);
        }
}

const struct gr_type op_batch_norm_grad = { .name = "batch_norm_grad",
                                            .nin = 3,
                                            .nin_max = 5,
                                            .reals = reals,
                                            .inplace_of = -1,
                                            .infer = grad_infer,
                                            .scratch = scratch,
                                            .run = grad_run };

/* d gain = sum over rows of dy h */
static enum vb_st gain_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            struct gr_node **out, struct vb_err *err)
{
    const struct gr_shape cols = n->in[1]->shape;
    struct gr_node *in[5], *h = NULL, *x = NULL;
    AUTO_FREE float *ones = calloc(cols.dim[0], sizeof(float));
    enum vb_st st = ones == NULL ? VB_NOMEM : VB_OK;

    memcpy(in, n->in, n->nin * sizeof(in[0]));
    for (uint64_t i = 0; st == VB_OK && i < cols.dim[0]; i++)
        ones[i] = 1;
    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, cols, ones, &in[1], err);
    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, cols, NULL, &in[2], err);
    if (st == VB_OK)
        st = gr_add_n(g, &op_batch_norm, NULL, in, n->nin, &n->attr, &h, err);
    if (st == VB_OK)
        st = op_two(g, &op_mul, dout, h, &x, err);
    return st == VB_OK ? bc_sum_to(g, x, n->in[1], out, err) : st;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *in[5] = { dout, n->in[0], n->in[1] };
    enum vb_st st = VB_OK;

    if (n->nin > 3) {
        in[3] = n->in[3];
        in[4] = n->in[4];
    }
    if (need[0])
        st = gr_add_n(g, &op_batch_norm_grad, NULL, in, n->nin, &n->attr, &din_out[0], err);
    if (st == VB_OK && need[1])
        st = gain_grad(g, n, dout, &din_out[1], err);
    return st == VB_OK && need[2] ? bc_sum_to(g, dout, n->in[2], &din_out[2], err) : st;
}

const struct gr_type op_batch_norm = { .name = "batch_norm",
                                       .nin = 3,
                                       .nin_max = 5,
                                       .reals = reals,
                                       .inplace_of = -1,
                                       .infer = infer,
                                       .grad = grad,
                                       .scratch = scratch,
                                       .run = run };
