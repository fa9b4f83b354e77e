/* col_sum(x [.., n]) -> [n], of rank 2 at least, rows added in order. No gradient: it is one. */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, VB_MAX(x.rank, 2u), err);

    if (st != VB_OK)
        return st;
    n->dtype = GR_F32;
    n->shape = (struct gr_shape){ .rank = 1, .dim = { x.dim[x.rank - 1] } };
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const size_t cols = out->shape.dim[0];

    kn_best()->col_sum(out->data, in[0].data, gr_elems(in[0].shape, 0) / VB_MAX(cols, 1u), cols);
}

const struct gr_type op_col_sum = {
    .name = "col_sum",
    .nin = 1,
    .inplace_of = -1,
    .infer = infer,
    .run = run,
};
