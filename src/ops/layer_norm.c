/*
 * layer_norm(x, gain, bias; eps) over the last dimension (Ba et al. 2016): (x - mean) / sqrt(variance + eps) * gain + bias, the
 * variance divided by n. Gradients: layer_norm_grad(dy, x, gain; eps) for x, and for gain the column sums of dy times
 * layer_norm with gain 1 and bias 0.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>

enum { EPS };
static const char *const reals[] = { "eps", NULL };

static uint64_t cols_of(const struct gr_shape *s)
{
    return s->rank > 0 ? s->dim[s->rank - 1] : 0;
}

static enum vb_st want_rows(const struct gr_node *n, uint32_t x, struct vb_err *err)
{
    const struct gr_shape s = n->in[x]->shape;
    const enum vb_st st = op_want(n, x, GR_F32, s.rank, err);

    if (st == VB_OK && (s.rank == 0 || cols_of(&s) == GR_BATCH))
        return op_misfit(n, "there is no last dimension to normalise", err);
    return st;
}

static enum vb_st want_col(const struct gr_node *n, uint32_t i, const struct gr_shape *x,
                           struct vb_err *err)
{
    const enum vb_st st = op_want(n, i, GR_F32, 1, err);

    return st == VB_OK && n->in[i]->shape.dim[0] != cols_of(x)
               ? op_misfit(n, "gain or bias are not as long as the last dimension", err)
               : st;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = want_rows(n, 0, err);

    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    if (st == VB_OK)
        st = want_col(n, 1, &n->shape, err);
    return st == VB_OK ? want_col(n, 2, &n->shape, err) : st;
}

struct row {
    float mean, inv; /* 1 / sqrt(variance + eps) */
};

static struct row look(const float *x, size_t n, double eps)
{
    float sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    const float mean = sum / (float)n;

    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return (struct row){ mean, 1.0f / sqrtf(squares / (float)n + (float)eps) };
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const size_t cols = cols_of(&out->shape), rows = gr_elems(out->shape, 0) / VB_MAX(cols, 1u);
    const float *x = in[0].data, *gain = in[1].data, *bias = in[2].data;
    float *y = out->data;

    for (size_t i = 0; i < rows; i++, x += cols, y += cols) {
        const struct row k = look(x, cols, n->attr.f[EPS]);

        for (size_t c = 0; c < cols; c++)
            y[c] = (x[c] - k.mean) * k.inv * gain[c] + bias[c];
    }
}

static enum vb_st grad_infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = want_rows(n, 1, err);

    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    if (st == VB_OK)
        st = op_want(n, 0, GR_F32, n->shape.rank, err);
    if (st == VB_OK)
        st = want_col(n, 2, &n->shape, err);
    return st == VB_OK && !gr_shape_eq(n->in[0]->shape, n->shape)
               ? op_misfit(n, "shapes differ", err)
               : st;
}

/* With g = dy gain and h = (x - mean) inv:  dx = inv (g - mean(g) - h mean(g h)) */
static void grad_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const size_t cols = cols_of(&out->shape), rows = gr_elems(out->shape, 0) / VB_MAX(cols, 1u);
    const float *dy = in[0].data, *x = in[1].data, *gain = in[2].data;
    float *dx = out->data;

    for (size_t i = 0; i < rows; i++, dy += cols, x += cols, dx += cols) {
        const struct row k = look(x, cols, n->attr.f[EPS]);
        float g = 0, gh = 0;

        for (size_t c = 0; c < cols; c++) {
            g += dy[c] * gain[c];
            gh += dy[c] * gain[c] * (x[c] - k.mean) * k.inv;
        }
        g /= (float)cols;
        gh /= (float)cols;
        for (size_t c = 0; c < cols; c++)
            dx[c] = k.inv * (dy[c] * gain[c] - g - (x[c] - k.mean) * k.inv * gh);
    }
}

const struct gr_type op_layer_norm_grad = { .name = "layer_norm_grad",
                                            .nin = 3,
                                            .reals = reals,
                                            .inplace_of = -1,
                                            .infer = grad_infer,
                                            .run = grad_run };

/* d gain = sum over rows of dy h */
static enum vb_st gain_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            struct gr_node **out, struct vb_err *err)
{
    struct gr_node *one = NULL, *zero = NULL, *h = NULL, *x = NULL;
    AUTO_FREE float *ones = calloc(n->in[1]->shape.dim[0], sizeof(float));
    enum vb_st st = ones == NULL ? VB_NOMEM : VB_OK;

    for (uint64_t i = 0; st == VB_OK && i < n->in[1]->shape.dim[0]; i++)
        ones[i] = 1;
    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, n->in[1]->shape, ones, &one, err);
    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, n->in[1]->shape, NULL, &zero, err);
    if (st == VB_OK)
        st = gr_add(g, &op_layer_norm, NULL, (struct gr_node *[]){ n->in[0], one, zero }, &n->attr,
                    &h, err);
    if (st == VB_OK)
        st = gr_add(g, &op_mul, NULL, (struct gr_node *[]){ dout, h }, NULL, &x, err);
    return st == VB_OK ? bc_sum_to(g, x, n->in[1], out, err) : st;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    if (need[0])
        st = gr_add(g, &op_layer_norm_grad, NULL, (struct gr_node *[]){ dout, n->in[0], n->in[1] },
                    &n->attr, &din_out[0], err);
    if (st == VB_OK && need[1])
        st = gain_grad(g, n, dout, &din_out[1], err);
    return st == VB_OK && need[2] ? bc_sum_to(g, dout, n->in[2], &din_out[2], err) : st;
}

const struct gr_type op_layer_norm = { .name = "layer_norm",
                                       .nin = 3,
                                       .reals = reals,
                                       .inplace_of = -1,
                                       .infer = infer,
                                       .grad = grad,
                                       .run = run };
