/*
 * squared_error(a, b) -> the sum of (a - b)^2 over all elements, of equal shapes; added in order, in double. Gradient: 2 (a - b)
 * times what comes from above, and its negative.
 */
#include "ops/check.h"
#include "ops/ops.h"

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
    enum { LANES = 8 };
    const size_t k = gr_elems(in[0].shape, 0);
    const float *a = in[0].data, *b = in[1].data;
    double lane[LANES] = { 0 };
    size_t i = 0;

    for (; i + LANES <= k; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            const double d = (double)a[i + j] - (double)b[i + j];
            lane[j] += d * d;
        }
    for (; i < k; i++) {
        const double d = (double)a[i] - (double)b[i];
        lane[0] += d * d;
    }
    for (size_t j = 1; j < LANES; j++)
        lane[0] += lane[j];
    *(float *)out->data = (float)lane[0];
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++) {
        struct gr_node *d = NULL;

        if (!need[i])
            continue;
        st = op_two(g, &op_sub, n->in[i], n->in[1 - i], &d, err);
        if (st == VB_OK)
            st = op_scaled(g, d, 2, 0, &d, err);
        if (st == VB_OK)
            st = op_two(g, &op_mul, d, dout, &din_out[i], err);
    }
    return st;
}

const struct gr_type op_squared_error = {
    .name = "squared_error", .nin = 2, .inplace_of = -1, .infer = infer, .grad = grad, .run = run
};
