/* relu_grad(dy, y) -> dy where y > 0, else 0; y is the output of relu. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_node *dy = n->in[0], *y = n->in[1];
    enum vb_st st = op_want(n, 0, GR_F32, dy->shape.rank, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, y->shape.rank, err);
    if (st != VB_OK)
        return st;
    if (!gr_shape_eq(dy->shape, y->shape))
        return op_misfit(n, "shapes differ", err);
    n->dtype = GR_F32;
    n->shape = dy->shape;
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    kn_best()->relu_grad(out->data, in[0].data, in[1].data, gr_elems(out->shape, 0));
}

const struct gr_type op_relu_grad = {
    .name = "relu_grad",
    .nin = 2,
    .inplace_of = 0,
    .infer = infer,
    .run = run,
};
