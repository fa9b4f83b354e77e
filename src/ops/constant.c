/* constant() -> scalar: attr.f[0]. */
#include "ops/ops.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape.rank = 0;
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    *(float *)out->data = (float)n->attr.f[0];
}

const struct gr_type op_constant = {
    .name = "constant",
    .inplace_of = -1,
    .infer = infer,
    .run = run,
};
