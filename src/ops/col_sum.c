/* col_sum(x [rows, n]) -> [n], rows added in order. No gradient: it is one. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_want(n, 0, GR_F32, 2, err);

    if (st != VB_OK)
        return st;
    n->dtype = GR_F32;
    n->shape = (struct gr_shape){ .rank = 1, .dim = { n->in[0]->shape.dim[1] } };
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    kn_best()->col_sum(out->data, in[0].data, in[0].shape.dim[0], in[0].shape.dim[1]);
}

const struct gr_type op_col_sum = {
    .name = "col_sum",
    .nin = 1,
    .inplace_of = -1,
    .infer = infer,
    .run = run,
};
