/* transpose(x; perm0..5) -> dimension i of the result is dimension perm i of x. */
#include "ops/check.h"
#include "ops/nd.h"
#include "ops/ops.h"

static const char *const ints[] = { "perm0", "perm1", "perm2", "perm3", "perm4", "perm5", NULL };

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    uint32_t seen = 0;

    n->dtype = n->in[0]->dtype;
    n->shape.rank = x.rank;
    for (uint32_t i = 0; i < x.rank; i++) {
        const int64_t from = n->attr.i[i];

        if (from < 0 || from >= x.rank || (seen >> from & 1) != 0)
            return op_misfit(n, "perm is no order of its dimensions", err);
        seen |= 1u << from;
        n->shape.dim[i] = x.dim[from];
    }
    if (x.rank > 0 && x.dim[0] == GR_BATCH && n->attr.i[0] != 0)
        return op_misfit(n, "the batch would not be the first dimension of the result", err);
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    struct nd l = nd_over(&out->shape);
    size_t of_x[GR_RANK_MAX], step[GR_RANK_MAX];

    nd_steps(&in[0].shape, of_x);
    for (uint32_t i = 0; i < out->shape.rank; i++)
        step[i] = of_x[n->attr.i[i]];
    nd_add(&l, &out->shape);
    nd_add_steps(&l, step);
    nd_copy(&l, out->data, in[0].data, gr_dtype_bytes(out->dtype));
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    struct gr_attr a = { .i = { 0 } };

    for (uint32_t i = 0; i < n->shape.rank; i++)
        a.i[n->attr.i[i]] = i;
    return gr_add(g, &op_transpose, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_transpose = { .name = "transpose",
                                      .nin = 1,
                                      .ints = ints,
                                      .inplace_of = -1,
                                      .infer = infer,
                                      .grad = grad,
                                      .run = run };
