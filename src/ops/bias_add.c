/* bias_add(x [rows, n], b [n]) -> x + b in every row. Gradients: dout, and its column sums. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, 2, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, 1, err);
    if (st != VB_OK)
        return st;
    if (n->in[0]->shape.dim[1] != n->in[1]->shape.dim[0])
        return op_misfit(n, "columns and bias differ", err);
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return VB_OK;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    if (need[0])
        din_out[0] = dout;
    return need[1] ? gr_add(g, &op_col_sum, NULL, &dout, NULL, &din_out[1], err) : VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    kn_best()->bias_add(out->data, in[0].data, in[1].data, out->shape.dim[0], out->shape.dim[1]);
}

const struct gr_type op_bias_add = {
    .name = "bias_add",
    .nin = 2,
    .inplace_of = 0,
    .infer = infer,
    .grad = grad,
    .run = run,
};
