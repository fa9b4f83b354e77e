/*
 * gather(table [n, ...], indices i32) -> table[indices]: the shape of indices, then that of a row (an embedding);
 * gather_grad(dy, indices, table): the rows of dy added where they came from. one_hot(indices i32; depth) -> floats, the last
 * dimension is depth. An index that is not in [0, n) makes the run fail. argmax(x) -> i32, over the last dimension; of
 * equal ones the first.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <string.h>

static const char *const depth_ints[] = { "depth", NULL };

/* The run fails, and says where. */
static bool is_inside(const struct gr_node *n, const int32_t *index, size_t k, uint64_t rows,
                      struct gr_run *r)
{
    for (size_t i = 0; i < k; i++)
        if (index[i] < 0 || (uint64_t)index[i] >= rows) {
            if (r->err != NULL)
                vb_err_set(r->err, "'%s': index %zu is %" PRId32 ", not in [0, %" PRIu64 ")",
                           n->name, i, index[i], rows);
            r->failed = true;
            return false;
        }
    return true;
}

static enum vb_st gather_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape table = n->in[0]->shape, index = n->in[1]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, table.rank, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_I32, index.rank, err);
    if (st != VB_OK)
        return st;
    if (table.rank == 0 || table.dim[0] == GR_BATCH || index.rank + table.rank - 1 > GR_RANK_MAX)
        return op_misfit(n, "the table has no rows, or the result too many dimensions", err);
    n->dtype = GR_F32;
    n->shape = index;
    for (uint32_t i = 1; i < table.rank; i++)
        n->shape.dim[n->shape.rank++] = table.dim[i];
    return VB_OK;
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
    const size_t k = gr_elems(in[1].shape, 0), row = row_of(&in[0].shape);
    const int32_t *index = in[1].data;
    const float *table = in[0].data;
    float *y = out->data;

    if (!is_inside(n, index, k, in[0].shape.dim[0], r))
        return;
    for (size_t i = 0; i < k; i++)
        memcpy(y + i * row, table + (size_t)index[i] * row, row * sizeof(float));
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
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    if (st == VB_OK)
        st = op_want(n, 1, GR_I32, n->in[1]->shape.rank, err);
    n->dtype = GR_F32;
    n->shape = n->in[2]->shape;
    if (st == VB_OK &&
        gr_elems(n->in[0]->shape, 1) != gr_elems(n->in[1]->shape, 1) * row_of(&n->shape))
        st = op_misfit(n, "rows and indices differ", err);
    return st;
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
    if (!is_inside(n, index, k, out->shape.dim[0], r))
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
    if (st == VB_OK && (n->attr.i[0] <= 0 || n->shape.rank == GR_RANK_MAX))
        return op_misfit(n, "depth is not positive, or there are too many dimensions", err);
    n->shape.dim[n->shape.rank++] = (uint64_t)n->attr.i[0];
    return st;
}

static void one_hot_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                        struct gr_run *r)
{
    const size_t k = gr_elems(in[0].shape, 0), depth = (size_t)n->attr.i[0];
    const int32_t *index = in[0].data;
    float *y = out->data;

    memset(y, 0, k * depth * sizeof(*y));
    if (!is_inside(n, index, k, depth, r))
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

static enum vb_st argmax_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    if (st == VB_OK &&
        (x.rank == 0 || x.dim[x.rank - 1] == GR_BATCH || x.dim[x.rank - 1] > INT32_MAX))
        return op_misfit(n, "there is no last dimension to look along", err);
    n->dtype = GR_I32;
    n->shape = x;
    n->shape.rank -= st == VB_OK;
    return st;
}

static void argmax_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const size_t k = gr_elems(out->shape, 0), row = in[0].shape.dim[in[0].shape.rank - 1];
    const float *x = in[0].data;
    int32_t *y = out->data;

    for (size_t i = 0; i < k; i++, x += row) {
        y[i] = 0;
        for (size_t e = 1; e < row; e++)
            if (x[e] > x[y[i]])
                y[i] = (int32_t)e;
    }
}

const struct gr_type op_argmax = {
    .name = "argmax", .nin = 1, .inplace_of = -1, .infer = argmax_infer, .run = argmax_run
};
