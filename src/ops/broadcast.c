#include "ops/broadcast.h"

#include "ops/check.h"
#include "ops/ops.h"

enum vb_st bc_infer(struct gr_node *n, enum gr_dtype dtype, struct vb_err *err)
{
    n->dtype = dtype;
    n->shape = n->in[0]->shape;
    for (uint32_t k = 1; k < n->nin; k++) {
        const struct gr_shape a = n->shape, b = n->in[k]->shape;

        n->shape.rank = VB_MAX(a.rank, b.rank);
        for (uint32_t i = 0; i < n->shape.rank; i++) {
            const uint64_t x = nd_dim(&a, i, n->shape.rank), y = nd_dim(&b, i, n->shape.rank);

            if (x != y && x != 1 && y != 1)
                return op_misfit(n, "shapes do not fit", err);
            n->shape.dim[i] = x == 1 ? y : x;
        }
    }
    for (uint32_t i = 1; i < n->shape.rank; i++)
        if (n->shape.dim[i] == GR_BATCH)
            return op_misfit(n, "the batch would not be the first dimension of the result", err);
    return VB_OK;
}

void bc_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out, nd_row *row)
{
    struct nd l = nd_over(&out->shape);
    void *data[ND_TENSORS] = { out->data };
    size_t bytes[ND_TENSORS] = { gr_dtype_bytes(out->dtype) };

    nd_add(&l, &out->shape);
    for (uint32_t i = 0; i < n->nin; i++) {
        nd_add(&l, &in[i].shape);
        data[i + 1] = in[i].data;
        bytes[i + 1] = gr_dtype_bytes(in[i].dtype);
    }
    nd_each(&l, data, bytes, row);
}

enum vb_st bc_sum_to(struct graph *g, struct gr_node *x, struct gr_node *like, struct gr_node **out,
                     struct vb_err *err)
{
    if (gr_shape_eq(x->shape, like->shape)) {
        *out = x;
        return VB_OK;
    }
    return gr_add(g, &op_sum_to, NULL, (struct gr_node *[]){ x, like }, NULL, out, err);
}
