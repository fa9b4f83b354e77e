/* reshape(x; rank, dim0..5) -> the same elements in another shape; -1 as dim0 is the batch, else one may be -1: what is left. */
#include "ops/check.h"
#include "ops/ops.h"

enum { RANK, DIM };
static const char *const ints[] = { "rank", "dim0", "dim1", "dim2", "dim3", "dim4", "dim5", NULL };

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const int64_t *dim = &n->attr.i[DIM];
    const bool batch = x.rank > 0 && x.dim[0] == GR_BATCH;
    uint64_t left = gr_elems(x, 1), free_at = GR_RANK_MAX;

    if (n->attr.i[RANK] < 0 || n->attr.i[RANK] > GR_RANK_MAX)
        return op_misfit(n, "the rank is not 0 to 6", err);
    n->dtype = n->in[0]->dtype;
    n->shape.rank = (uint32_t)n->attr.i[RANK];
    if (batch && (n->shape.rank == 0 || dim[0] != -1))
        return op_misfit(n, "the first dimension of the result must be the batch (-1)", err);
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        n->shape.dim[i] = (uint64_t)dim[i];
        if (batch && i == 0)
            n->shape.dim[i] = GR_BATCH;
        else if (dim[i] == -1 && free_at == GR_RANK_MAX)
            free_at = i;
        else if (dim[i] <= 0 || left % (uint64_t)dim[i] != 0)
            return op_misfit(n, "the elements do not fill the new shape", err);
        else
            left /= (uint64_t)dim[i];
    }
    if (free_at < GR_RANK_MAX)
        n->shape.dim[free_at] = left;
    else if (left != 1)
        return op_misfit(n, "the elements do not fill the new shape", err);
    return VB_OK;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    op_pass(&in[0], out);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    struct gr_attr a = { .i = { [RANK] = x.rank } };

    for (uint32_t i = 0; i < x.rank; i++)
        a.i[DIM + i] = x.dim[i] == GR_BATCH ? -1 : (int64_t)x.dim[i];
    return gr_add(g, &op_reshape, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_reshape = { .name = "reshape",
                                    .nin = 1,
                                    .ints = ints,
                                    .inplace_of = -1,
                                    .infer = infer,
                                    .grad = grad,
                                    .run = run };
