/*
 * softmax_cross_entropy(logits [rows, classes], labels i32 [rows]) -> scalar, the sum over rows of
 * -log softmax(logits)[label]. A label that is not in [0, classes) makes the run fail.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, 2, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_I32, 1, err);
    if (st != VB_OK)
        return st;
    if (n->in[0]->shape.dim[0] != n->in[1]->shape.dim[0])
        return op_misfit(n, "rows and labels differ", err);
    n->dtype = GR_F32;
    n->shape.rank = 0;
    return VB_OK;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    if (!need[0])
        return VB_OK;
    return gr_add(g, &op_softmax_cross_entropy_grad, NULL,
                  (struct gr_node *[]){ n->in[0], n->in[1], dout }, NULL, &din_out[0], err);
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    if (op_inside(n, in[1].data, in[0].shape.dim[0], in[0].shape.dim[1], r))
        kn_softmax_xent(out->data, in[0].data, in[1].data, in[0].shape.dim[0], in[0].shape.dim[1]);
}

const struct gr_type op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .nin = 2,
    .inplace_of = -1,
    .infer = infer,
    .grad = grad,
    .run = run,
};
