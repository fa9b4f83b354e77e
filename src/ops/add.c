/* add(a, b) -> a + b, with broadcasting. Gradient: dout to both, summed over what was repeated. */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

#include <string.h>

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, n->in[1]->shape.rank, err);
    return st == VB_OK ? bc_infer(n, GR_F32, err) : st;
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++)
        if (need[i])
            st = bc_sum_to(g, dout, n->in[i], &din_out[i], err);
    return st;
}

static void row(void *out, const void *pa, const void *pb, size_t n, size_t sa, size_t sb)
{
    const float *a = pa, *b = pb;
    float *o = out;

    for (size_t i = 0; i < n; i++)
        o[i] = a[i * sa] + b[i * sb];
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const size_t elems = gr_elems(out->shape, 0);

    if (!gr_shape_eq(in[0].shape, in[1].shape)) {
        bc_run(in, out, row);
        return;
    }
    if (out->data != in[0].data && elems > 0)
        memcpy(out->data, in[0].data, elems * sizeof(float));
    kn_best()->add(out->data, in[1].data, elems);
}

const struct gr_type op_add = {
    .name = "add",
    .nin = 2,
    .inplace_of = 0,
    .infer = infer,
    .grad = grad,
    .run = run,
};
