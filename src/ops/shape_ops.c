/*
 * reshape(x; rank, dim0..5): the same elements in another shape; -1 as dim0 is the batch, else one dimension may be -1:
 * what is left. transpose(x; perm0..5): dimension i of the result is perm i of x. concat(x...; axis): along one dimension,
 * all others equal. slice(x; begin0..5, size0..5): a part; size -1: the rest, and of the batch all. slice_grad(dy, x): dy
 * where it was taken from, else 0.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <string.h>

enum { RESHAPE_RANK, RESHAPE_DIM };
static const char *const reshape_ints[] = { "rank", "dim0", "dim1", "dim2",
                                            "dim3", "dim4", "dim5", NULL };
static const char *const perm_ints[] = {
    "perm0", "perm1", "perm2", "perm3", "perm4", "perm5", NULL
};
static const char *const axis_ints[] = { "axis", NULL };
enum { BEGIN, SIZE = GR_RANK_MAX };
static const char *const slice_ints[] = { "begin0", "begin1", "begin2", "begin3", "begin4",
                                          "begin5", "size0",  "size1",  "size2",  "size3",
                                          "size4",  "size5",  NULL };

static bool has_batch(const struct gr_shape *s)
{
    return s->rank > 0 && s->dim[0] == GR_BATCH;
}

/* ---- reshape ---- */

static enum vb_st reshape_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const int64_t *dim = &n->attr.i[RESHAPE_DIM];
    const bool batch = has_batch(&x);
    uint64_t left = gr_elems(x, 1), free_at = GR_RANK_MAX;

    if (n->attr.i[RESHAPE_RANK] < 0 || n->attr.i[RESHAPE_RANK] > GR_RANK_MAX)
        return op_misfit(n, "the rank is not 0 to 6", err);
    n->dtype = n->in[0]->dtype;
    n->shape.rank = (uint32_t)n->attr.i[RESHAPE_RANK];
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

static void copy_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    if (out->data != in[0].data)
        memcpy(out->data, in[0].data, gr_elems(out->shape, 0) * gr_dtype_bytes(out->dtype));
}

static enum vb_st reshape_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                               const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    struct gr_attr a = { .i = { [RESHAPE_RANK] = x.rank } };

    for (uint32_t i = 0; i < x.rank; i++)
        a.i[RESHAPE_DIM + i] = x.dim[i] == GR_BATCH ? -1 : (int64_t)x.dim[i];
    return gr_add(g, &op_reshape, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_reshape = { .name = "reshape",
                                    .nin = 1,
                                    .ints = reshape_ints,
                                    .inplace_of = -1,
                                    .infer = reshape_infer,
                                    .grad = reshape_grad,
                                    .run = copy_run };

/* ---- transpose ---- */

static enum vb_st transpose_infer(struct gr_node *n, struct vb_err *err)
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
    if (has_batch(&x) && n->attr.i[0] != 0)
        return op_misfit(n, "the batch would not be the first dimension of the result", err);
    return VB_OK;
}

static void transpose_run(const struct gr_node *n, const struct gr_tensor *in,
                          struct gr_tensor *out, struct gr_run *r)
{
    const uint32_t rank = out->shape.rank;
    const size_t bytes = gr_dtype_bytes(out->dtype), total = gr_elems(out->shape, 0);
    size_t of_x[GR_RANK_MAX], stride[GR_RANK_MAX], at = 0, step = 1;
    uint64_t index[GR_RANK_MAX] = { 0 };
    const char *x = in[0].data;
    char *y = out->data;

    for (uint32_t i = rank; i-- > 0; step *= in[0].shape.dim[i])
        of_x[i] = step;
    for (uint32_t i = 0; i < rank; i++)
        stride[i] = of_x[n->attr.i[i]];
    for (size_t k = 0; k < total; k++) {
        memcpy(y + k * bytes, x + at * bytes, bytes);
        for (uint32_t i = rank; i-- > 0;) {
            at += stride[i];
            if (++index[i] < out->shape.dim[i])
                break;
            at -= stride[i] * out->shape.dim[i];
            index[i] = 0;
        }
    }
}

static enum vb_st transpose_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                                 const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    struct gr_attr a = { .i = { 0 } };

    for (uint32_t i = 0; i < n->shape.rank; i++)
        a.i[n->attr.i[i]] = i;
    return gr_add(g, &op_transpose, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_transpose = { .name = "transpose",
                                      .nin = 1,
                                      .ints = perm_ints,
                                      .inplace_of = -1,
                                      .infer = transpose_infer,
                                      .grad = transpose_grad,
                                      .run = transpose_run };

/* ---- a part of a tensor: rows of `inner` bytes, `mid` of them, `outer` times ---- */

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

/* ---- concat ---- */

static enum vb_st concat_infer(struct gr_node *n, struct vb_err *err)
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
        for (uint32_t i = 0; i < sum.rank; i++)
            if (i != axis && n->in[k]->shape.dim[i] != n->in[0]->shape.dim[i])
                return op_misfit(n, "other dimensions than the axis differ", err);
        sum.dim[axis] += n->in[k]->shape.dim[axis];
    }
    n->shape = sum;
    return VB_OK;
}

static void concat_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
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

static enum vb_st concat_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
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
                                   .ints = axis_ints,
                                   .inplace_of = -1,
                                   .infer = concat_infer,
                                   .grad = concat_grad,
                                   .run = concat_run };

/* ---- slice ---- */

static enum vb_st slice_shape(const struct gr_node *n, const struct gr_shape *x,
                              struct gr_shape *out, struct vb_err *err)
{
    out->rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t begin = n->attr.i[BEGIN + i], size = n->attr.i[SIZE + i];

        if (x->dim[i] == GR_BATCH) {
            if (begin != 0 || size != -1)
                return op_misfit(n, "the batch can only be taken whole (begin 0, size -1)", err);
            out->dim[i] = GR_BATCH;
            continue;
        }
        if (begin < 0 || (uint64_t)begin >= x->dim[i] || size == 0 || size < -1 ||
            (size > 0 && (uint64_t)size > x->dim[i] - (uint64_t)begin))
            return op_misfit(n, "the part is not inside", err);
        out->dim[i] = size == -1 ? x->dim[i] - (uint64_t)begin : (uint64_t)size;
    }
    return VB_OK;
}

static enum vb_st slice_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    return slice_shape(n, &n->in[0]->shape, &n->shape, err);
}

/* Calls copy for each row of the part: its place in the whole and in the part. */
static void each_row(const struct gr_node *n, const struct gr_shape *whole,
                     const struct gr_shape *part, size_t elem, char *in_whole, char *in_part,
                     void (*copy)(char *in_whole, char *in_part, size_t bytes))
{
    const uint32_t rank = part->rank;
    const size_t row = rank > 0 ? part->dim[rank - 1] * elem : elem;
    uint64_t index[GR_RANK_MAX] = { 0 };

    for (size_t k = 0, rows = gr_elems(*part, 0) * elem / VB_MAX(row, 1u); k < rows; k++) {
        size_t at = 0;

        for (uint32_t i = 0; i < rank; i++)
            at = at * whole->dim[i] + index[i] + (uint64_t)n->attr.i[BEGIN + i];
        copy(in_whole + at * elem, in_part + k * row, row);
        for (uint32_t i = rank > 0 ? rank - 1 : 0; i-- > 0;) {
            if (++index[i] < part->dim[i])
                break;
            index[i] = 0;
        }
    }
}

static void take(char *in_whole, char *in_part, size_t bytes)
{
    memcpy(in_part, in_whole, bytes);
}

static void give(char *in_whole, char *in_part, size_t bytes)
{
    memcpy(in_whole, in_part, bytes);
}

static void slice_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                      struct gr_run *r)
{
    each_row(n, &in[0].shape, &out->shape, gr_dtype_bytes(out->dtype), in[0].data, out->data, take);
}

static enum vb_st slice_grad_infer(struct gr_node *n, struct vb_err *err)
{
    struct gr_shape part;
    enum vb_st st = op_want(n, 0, GR_F32, n->in[1]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    if (st == VB_OK)
        st = slice_shape(n, &n->shape, &part, err);
    return st == VB_OK && !gr_shape_eq(part, n->in[0]->shape)
               ? op_misfit(n, "the part has another shape", err)
               : st;
}

static void slice_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                           struct gr_tensor *out, struct gr_run *r)
{
    memset(out->data, 0, gr_elems(out->shape, 0) * sizeof(float));
    each_row(n, &out->shape, &in[0].shape, sizeof(float), out->data, in[0].data, give);
}

const struct gr_type op_slice_grad = { .name = "slice_grad",
                                       .nin = 2,
                                       .ints = slice_ints,
                                       .inplace_of = -1,
                                       .infer = slice_grad_infer,
                                       .run = slice_grad_run };

static enum vb_st slice_back(struct graph *g, struct gr_node *n, struct gr_node *dout,
                             const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    return gr_add(g, &op_slice_grad, NULL, (struct gr_node *[]){ dout, n->in[0] }, &n->attr,
                  &din_out[0], err);
}

const struct gr_type op_slice = { .name = "slice",
                                  .nin = 1,
                                  .ints = slice_ints,
                                  .inplace_of = -1,
                                  .infer = slice_infer,
                                  .grad = slice_back,
                                  .run = slice_run };
