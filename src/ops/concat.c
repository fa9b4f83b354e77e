/* concat(x...; axis) -> one after another along one dimension, all others equal. Its gradient is slices. */
#include "ops/check.h"
#include "ops/ops.h"

#include <string.h>

static const char *const ints[] = { "axis", NULL };
enum { BEGIN, SIZE = GR_RANK_MAX }; /* of slice */

/* Each input has `outer` pieces; a step along the axis is `inner` bytes. */
struct block {
    size_t outer, inner;
};

static struct block block_of(const struct gr_tensor *t, uint32_t axis)
{
    struct block b = { 1, gr_dtype_bytes(t->dtype) };

    for (uint32_t i = 0; i < axis; i++)
        b.outer *= t->shape.dim[i];
    for (uint32_t i = axis + 1; i < t->shape.rank; i++)
        b.inner *= t->shape.dim[i];
    return b;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const int64_t axis = n->attr.i[0];
    struct gr_shape sum = n->in[0]->shape;

    if (axis < 0 || axis >= sum.rank || sum.dim[axis] == GR_BATCH)
        return op_misfit(n, "no such axis, or it is the batch", err);
    n->dtype = n->in[0]->dtype;
    for (uint32_t k = 1; k < n->nin; k++) {
        const enum vb_st st = op_want(n, k, n->dtype, sum.rank, err);

        if (st != VB_OK)
            return st;
        if (n->in[k]->shape.dim[axis] == GR_BATCH)
            return op_misfit(n, "the axis is a batch", err);
        for (uint32_t i = 0; i < sum.rank; i++)
            if (i != axis && n->in[k]->shape.dim[i] != n->in[0]->shape.dim[i])
                return op_misfit(n, "other dimensions than the axis differ", err);
        sum.dim[axis] += n->in[k]->shape.dim[axis];
    }
    n->shape = sum;
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const uint32_t axis = (uint32_t)n->attr.i[0];
    const struct block b = block_of(out, axis);
    char *to = out->data;

    for (size_t o = 0; o < b.outer; o++)
        for (uint32_t k = 0; k < n->nin; k++) {
            const size_t bytes = in[k].shape.dim[axis] * b.inner;

            memcpy(to, (const char *)in[k].data + o * bytes, bytes);
            to += bytes;
        }
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const int64_t axis = n->attr.i[0];
    enum vb_st st = VB_OK;
    struct gr_attr a = { .i = { 0 } };

    for (uint32_t i = 0; i < n->shape.rank; i++)
        a.i[SIZE + i] = -1;
    for (uint32_t k = 0; k < n->nin && st == VB_OK; k++) {
        a.i[SIZE + axis] = (int64_t)n->in[k]->shape.dim[axis];
        if (need[k])
            st = gr_add(g, &op_slice, NULL, &dout, &a, &din_out[k], err);
        a.i[BEGIN + axis] += a.i[SIZE + axis];
    }
    return st;
}

const struct gr_type op_concat = { .name = "concat",
                                   .nin = 1,
                                   .nin_max = GR_IN_MAX,
                                   .ints = ints,
                                   .inplace_of = -1,
                                   .infer = infer,
                                   .grad = grad,
                                   .run = run };
