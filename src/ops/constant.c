/* constant() -> scalar: attr.value. */
#include "ops/ops.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape.rank = 0;
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out)
{
    *(float *)out->data = n->attr.value;
}

const struct gr_type op_constant = {
    .name = "constant",
    .nin = 0,
    .inplace_of = -1,
    .infer = infer,
    .run = run,
};
