/* relu(x) -> max(x, 0), any shape. Gradient from the output, so x may be gone by then. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return op_want(n, 0, GR_F32, n->shape.rank, err);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    return gr_add(g, &op_relu_grad, NULL, (struct gr_node *[]){ dout, n }, NULL, &din_out[0], err);
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    kn_best()->relu(out->data, in[0].data, gr_elems(out->shape, 0));
}

const struct gr_type op_relu = {
    .name = "relu",
    .nin = 1,
    .inplace_of = 0,
    .infer = infer,
    .grad = grad,
    .run = run,
};
