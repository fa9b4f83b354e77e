/*
 * sigmoid_cross_entropy(logits, targets), of equal shapes -> the sum over elements of -(t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))),
 * computed as max(x, 0) - t x + log(1 + exp(-|x|)), added in order, in double. Gradients: sigmoid(x) - t, and -x.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_same(n, 0, 1 << GR_F32, err);

    n->dtype = GR_F32;
    return st == VB_OK && !gr_shape_eq(n->in[0]->shape, n->in[1]->shape)
               ? op_misfit(n, "shapes differ", err)
               : st;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const float *x = in[0].data, *t = in[1].data;
    double sum = 0;

    for (size_t i = 0, k = gr_elems(in[0].shape, 0); i < k; i++) {
        const double v = (double)x[i];

        sum += (v < 0 ? 0 : v) - v * (double)t[i] + log1p(exp(-fabs(v)));
    }
    *(float *)out->data = (float)sum;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *d = NULL;
    enum vb_st st = VB_OK;

    if (need[0])
        st = gr_add(g, &op_sigmoid, NULL, &n->in[0], NULL, &d, err);
    if (st == VB_OK && need[0])
        st = op_two(g, &op_sub, d, n->in[1], &d, err);
    if (st == VB_OK && need[0])
        st = op_two(g, &op_mul, d, dout, &din_out[0], err);
    if (st == VB_OK && need[1])
        st = op_scaled(g, n->in[0], -1, 0, &d, err);
    return st == VB_OK && need[1] ? op_two(g, &op_mul, d, dout, &din_out[1], err) : st;
}

const struct gr_type op_sigmoid_cross_entropy = { .name = "sigmoid_cross_entropy",
                                                  .nin = 2,
                                                  .inplace_of = -1,
                                                  .infer = infer,
                                                  .grad = grad,
                                                  .run = run };
