/*
 * gather(table [n, ...], indices i32) -> table[indices], any type: the shape of indices, then that of a row (an embedding);
 * gather_grad(dy, indices, table): the rows of dy added where they came from. one_hot(indices i32; depth) -> floats, the last
 * dimension is depth. An index that is not in [0, n) makes the run fail.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <string.h>

static const char *const depth_ints[] = { "depth", NULL };

/* The shape of what is gathered. */
static enum vb_st rows_shape(const struct gr_node *n, const struct gr_shape *table,
                             struct gr_shape *out, struct vb_err *err)
{
    const struct gr_shape index = n->in[1]->shape;
    const enum vb_st st = op_want(n, 1, GR_I32, index.rank, err);

    if (st != VB_OK)
        return st;
    if (table->rank == 0 || table->dim[0] == GR_BATCH || index.rank + table->rank - 1 > GR_RANK_MAX)
        return op_misfit(n, "the table has no rows, or the result too many dimensions", err);
    *out = index;
    for (uint32_t i = 1; i < table->rank; i++)
        out->dim[out->rank++] = table->dim[i];
    return VB_OK;
}

static enum vb_st gather_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    return rows_shape(n, &n->in[0]->shape, &n->shape, err);
}

static size_t row_of(const struct gr_shape *table)
{
    size_t n = 1;

    for (uint32_t i = 1; i < table->rank; i++)
        n *= table->dim[i];
    return n;
}

static void gather_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const size_t k = gr_elems(in[1].shape, 0);
    const size_t row = row_of(&in[0].shape) * gr_dtype_bytes(out->dtype);
    const int32_t *index = in[1].data;
    const char *table = in[0].data;
    char *y = out->data;

    if (!op_inside(n, index, k, in[0].shape.dim[0], r))
        return;
    for (size_t i = 0; i < k; i++)
        memcpy(y + i * row, table + (size_t)index[i] * row, row);
}

static enum vb_st gather_back(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    if (!need[0])
        return VB_OK;
    return gr_add(g, &op_gather_grad, NULL, (struct gr_node *[]){ dout, n->in[1], n->in[0] }, NULL,
                  &din_out[0], err);
}

const struct gr_type op_gather = { .name = "gather",
                                   .nin = 2,
                                   .inplace_of = -1,
                                   .infer = gather_infer,
                                   .grad = gather_back,
                                   .run = gather_run };

static enum vb_st gather_grad_infer(struct gr_node *n, struct vb_err *err)
{
    struct gr_shape rows;
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[2]->shape;
    if (st == VB_OK)
        st = rows_shape(n, &n->shape, &rows, err);
    return st == VB_OK && !gr_shape_eq(rows, n->in[0]->shape)
               ? op_misfit(n, "the first has another shape than what was gathered", err)
               : st;
}

/* In the order of the indices, so the bits are the same each time. */
static void gather_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                            struct gr_tensor *out, struct gr_run *r)
{
    const size_t k = gr_elems(in[1].shape, 0), row = row_of(&out->shape);
    const int32_t *index = in[1].data;
    const float *dy = in[0].data;
    float *dt = out->data;

    memset(dt, 0, gr_elems(out->shape, 0) * sizeof(*dt));
    if (!op_inside(n, index, k, out->shape.dim[0], r))
        return;
    for (size_t i = 0; i < k; i++)
        for (size_t e = 0; e < row; e++)
            dt[(size_t)index[i] * row + e] += dy[i * row + e];
}

const struct gr_type op_gather_grad = { .name = "gather_grad",
                                        .nin = 3,
                                        .inplace_of = -1,
                                        .infer = gather_grad_infer,
                                        .run = gather_grad_run };

static enum vb_st one_hot_infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_want(n, 0, GR_I32, n->in[0]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    if (st != VB_OK)
        return st;
    if (n->attr.i[0] <= 0 || n->shape.rank == GR_RANK_MAX)
        return op_misfit(n, "depth is not positive, or there are too many dimensions", err);
    n->shape.dim[n->shape.rank++] = (uint64_t)n->attr.i[0];
    return VB_OK;
}

static void one_hot_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                        struct gr_run *r)
{
    const size_t k = gr_elems(in[0].shape, 0), depth = (size_t)n->attr.i[0];
    const int32_t *index = in[0].data;
    float *y = out->data;

    memset(y, 0, k * depth * sizeof(*y));
    if (!op_inside(n, index, k, depth, r))
        return;
    for (size_t i = 0; i < k; i++)
        y[i * depth + (size_t)index[i]] = 1;
}

const struct gr_type op_one_hot = { .name = "one_hot",
                                    .nin = 1,
                                    .ints = depth_ints,
                                    .inplace_of = -1,
                                    .infer = one_hot_infer,
                                    .run = one_hot_run };
