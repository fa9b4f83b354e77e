/* softmax_cross_entropy_grad(logits, labels, dloss) -> dloss * (softmax(logits) - one-hot(labels)).
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, 2, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_I32, 1, err);
    if (st == VB_OK)
        st = op_want(n, 2, GR_F32, 0, err);
    if (st != VB_OK)
        return st;
    if (n->in[0]->shape.dim[0] != n->in[1]->shape.dim[0])
        return op_misfit(n, "rows and labels differ", err);
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    if (op_inside(n, in[1].data, in[0].shape.dim[0], in[0].shape.dim[1], r))
        kn_softmax_xent_grad(out->data, in[0].data, in[1].data, *(const float *)in[2].data,
                             in[0].shape.dim[0], in[0].shape.dim[1]);
}

const struct gr_type op_softmax_cross_entropy_grad = {
    .name = "softmax_cross_entropy_grad",
    .nin = 3,
    .inplace_of = 0,
    .infer = infer,
    .run = run,
};
