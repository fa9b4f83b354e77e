/*
 * neg, abs, exp, log, sqrt, square, tanh, sigmoid, gelu, floor (x) of floats, element by element; scale (x) -> x * factor +
 * offset. gelu is x Phi(x) with the error function, not its approximation by tanh (Hendrycks & Gimpel 2016). And what
 * their gradients need: tanh_grad(dy, y), sigmoid_grad(dy, y), gelu_grad(dy, x), sign(x).
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/elementary.h"

enum { FACTOR, OFFSET };
static const char *const scale_reals[] = { "factor", "offset", NULL };

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return op_want(n, 0, GR_F32, n->shape.rank, err);
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

#define RUN(name, expr)                                                                            \
    static void name##_run(const struct gr_node *n, const struct gr_tensor *in,                    \
                           struct gr_tensor *out, struct gr_run *r)                                \
    {                                                                                              \
        const float *a = in[0].data, *b = n->nin > 1 ? in[1].data : in[0].data;                    \
        float *o = out->data;                                                                      \
                                                                                                   \
        for (size_t i = 0, k = gr_elems(out->shape, 0); i < k; i++) {                              \
            const float x = a[i], y = b[i];                                                        \
            (void)y;                                                                               \
            o[i] = (expr);                                                                         \
        }                                                                                          \
    }

RUN(neg, -x)
RUN(abs, fabsf(x))
RUN(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f)
RUN(exp, kn_exp(x))
RUN(log, logf(x))
RUN(sqrt, sqrtf(x))
RUN(square, x *x)
RUN(tanh, kn_tanh(x))
RUN(sigmoid, kn_sigmoid(x))
RUN(gelu, x *kn_normal_cdf(x))
RUN(floor, floorf(x))
RUN(scale, x *(float)n->attr.f[FACTOR] + (float)n->attr.f[OFFSET])
/* x: the gradient from above, y: what the comment at the top says */
RUN(tanh_grad, x *(1.0f - y * y))
RUN(sigmoid_grad, x *y *(1.0f - y))
RUN(gelu_grad, x *(kn_normal_cdf(y) + y * kn_normal(y)))

#define GRAD(name)                                                                                 \
    static enum vb_st name##_back(struct graph *g, struct gr_node *n, struct gr_node *dout,        \
                                  const bool *need, struct gr_node **din_out, struct vb_err *err)
#define X n->in[0]
GRAD(neg)
{
    return gr_add(g, &op_neg, NULL, &dout, NULL, &din_out[0], err);
}
GRAD(exp)
{
    return op_two(g, &op_mul, dout, n, &din_out[0], err);
}
GRAD(log)
{
    return op_two(g, &op_div, dout, X, &din_out[0], err);
}
GRAD(tanh)
{
    return op_two(g, &op_tanh_grad, dout, n, &din_out[0], err);
}
GRAD(sigmoid)
{
    return op_two(g, &op_sigmoid_grad, dout, n, &din_out[0], err);
}
GRAD(gelu)
{
    return op_two(g, &op_gelu_grad, dout, X, &din_out[0], err);
}
GRAD(scale)
{
    return op_scaled(g, dout, n->attr.f[FACTOR], 0, &din_out[0], err);
}

GRAD(abs)
{
    struct gr_node *s = NULL;
    const enum vb_st st = gr_add(g, &op_sign, NULL, &X, NULL, &s, err);

    return st == VB_OK ? op_two(g, &op_mul, dout, s, &din_out[0], err) : st;
}

GRAD(sqrt)
{
    struct gr_node *half = NULL;
    const enum vb_st st = op_scaled(g, dout, 0.5, 0, &half, err);

    return st == VB_OK ? op_two(g, &op_div, half, n, &din_out[0], err) : st;
}

GRAD(square)
{
    struct gr_node *twice = NULL;
    const enum vb_st st = op_scaled(g, dout, 2, 0, &twice, err);

    return st == VB_OK ? op_two(g, &op_mul, twice, X, &din_out[0], err) : st;
}

#define UNARY(op, grad_fn)                                                                         \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 1, .inplace_of = 0, .infer = infer, .grad = grad_fn, .run = op##_run   \
    }
UNARY(neg, neg_back);
UNARY(abs, abs_back);
UNARY(sign, NULL);
UNARY(exp, exp_back);
UNARY(log, log_back);
UNARY(sqrt, sqrt_back);
UNARY(square, square_back);
UNARY(tanh, tanh_back);
UNARY(sigmoid, sigmoid_back);
UNARY(gelu, gelu_back);
UNARY(floor, NULL);

const struct gr_type op_scale = { .name = "scale",
                                  .nin = 1,
                                  .reals = scale_reals,
                                  .inplace_of = 0,
                                  .infer = infer,
                                  .grad = scale_back,
                                  .run = scale_run };

#define OF_GRADIENT(op)                                                                            \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 2, .inplace_of = 0, .infer = infer_two, .run = op##_run                \
    }
OF_GRADIENT(tanh_grad);
OF_GRADIENT(sigmoid_grad);
OF_GRADIENT(gelu_grad);
