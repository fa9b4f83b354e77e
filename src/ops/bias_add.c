/* bias_add(x [.., n], b [n]) -> x + b in every row; rank 2 at least. Gradients: dout, and its column sums. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, VB_MAX(x.rank, 2u), err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, 1, err);
    if (st != VB_OK)
        return st;
    if (x.dim[x.rank - 1] != n->in[1]->shape.dim[0])
        return op_misfit(n, "columns and bias differ", err);
    n->dtype = GR_F32;
    n->shape = x;
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
    const size_t cols = in[1].shape.dim[0];

    kn_best()->bias_add(out->data, in[0].data, in[1].data,
                        gr_elems(out->shape, 0) / VB_MAX(cols, 1u), cols);
}

const struct gr_type op_bias_add = {
    .name = "bias_add",
    .nin = 2,
    .inplace_of = 0,
    .infer = infer,
    .grad = grad,
    .run = run,
};
