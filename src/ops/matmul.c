/*
 * matmul(a, b) -> op(a) op(b), matrices; op transposes where attr says so. The batch may be
 * the rows of the result, or the inner size (which sums over samples).
 *
 * Gradients of c = op(a) op(b): with d = dc, op(a)' = d op(b)^T and op(b)' = op(a)^T d; where an
 * input is stored transposed its gradient is the transpose of that, i.e. the factors swap.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

#include <limits.h>

enum { TA, TB };
static const char *const ints[] = { "ta", "tb", NULL };

static bool too_large(struct gr_shape s)
{
    for (uint32_t i = 0; i < s.rank; i++)
        if (s.dim[i] != GR_BATCH && s.dim[i] > INT_MAX) /* what BLAS counts with */
            return true;
    return false;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;
    const struct gr_shape a = n->in[0]->shape, b = n->in[1]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, 2, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_F32, 2, err);
    if (st != VB_OK)
        return st;
    if (a.dim[ta ? 0 : 1] != b.dim[tb ? 1 : 0])
        return op_misfit(n,
                         ta && tb ? "inner sizes differ (both transposed)"
                         : ta     ? "inner sizes differ (first transposed)"
                         : tb     ? "inner sizes differ (second transposed)"
                                  : "inner sizes differ",
                         err);
    n->dtype = GR_F32;
    n->shape = (struct gr_shape){ .rank = 2, .dim = { a.dim[ta ? 1 : 0], b.dim[tb ? 0 : 1] } };
    if (n->shape.dim[1] == GR_BATCH)
        return op_misfit(n, "the batch would not be the first dimension of the result", err);
    if (too_large(a) || too_large(b))
        return op_misfit(n, "a dimension is beyond 2147483647", err);
    return VB_OK;
}

static enum vb_st product(struct graph *g, struct gr_node *a, struct gr_node *b, bool ta, bool tb,
                          struct gr_node **out, struct vb_err *err)
{
    const struct gr_attr attr = { .i = { [TA] = ta, [TB] = tb } };

    return gr_add(g, &op_matmul, NULL, (struct gr_node *[]){ a, b }, &attr, out, err);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;
    struct gr_node *a = n->in[0], *b = n->in[1];
    enum vb_st st = VB_OK;

    if (need[0])
        st = ta ? product(g, b, dout, tb, true, &din_out[0], err)
                : product(g, dout, b, false, !tb, &din_out[0], err);
    if (st == VB_OK && need[1])
        st = tb ? product(g, dout, a, true, ta, &din_out[1], err)
                : product(g, a, dout, !ta, false, &din_out[1], err);
    return st;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;

    kn_gemm(out->data, in[0].data, in[1].data, ta, tb, out->shape.dim[0], out->shape.dim[1],
            in[0].shape.dim[ta ? 0 : 1]);
}

const struct gr_type op_matmul = {
    .name = "matmul",
    .nin = 2,
    .ints = ints,
    .inplace_of = -1,
    .infer = infer,
    .grad = grad,
    .run = run,
};
