/*
 * slice(x; begin0..5, size0..5) -> a part; size -1: the rest, and of the batch all. pad(x; before0..5, after0..5, value) -> x
 * with so many elements of `value` around it, a bool or whole number cut as C does. Each is the gradient of the other.
 */
#include "ops/check.h"
#include "ops/nd.h"
#include "ops/ops.h"

#include <string.h>

enum { BEGIN, SIZE = GR_RANK_MAX };
static const char *const slice_ints[] = { "begin0", "begin1", "begin2", "begin3", "begin4",
                                          "begin5", "size0",  "size1",  "size2",  "size3",
                                          "size4",  "size5",  NULL };
enum { BEFORE, AFTER = GR_RANK_MAX };
static const char *const pad_ints[] = { "before0", "before1", "before2", "before3", "before4",
                                        "before5", "after0",  "after1",  "after2",  "after3",
                                        "after4",  "after5",  NULL };
enum { VALUE };
static const char *const pad_reals[] = { "value", NULL };

/* Copies between a whole tensor and the part of it that begins at begin[i]. */
static void copy_part(const struct gr_tensor *whole, const struct gr_tensor *part,
                      const int64_t *begin, bool to_whole)
{
    const size_t bytes = gr_dtype_bytes(whole->dtype);
    struct nd l = nd_over(&part->shape);
    size_t step[GR_RANK_MAX], at = 0;
    char *w = whole->data;

    nd_steps(&whole->shape, step);
    for (uint32_t i = 0; i < part->shape.rank; i++)
        at += (size_t)begin[i] * step[i];
    if (to_whole)
        nd_add_steps(&l, step);
    nd_add(&l, &part->shape);
    if (!to_whole)
        nd_add_steps(&l, step);
    if (to_whole)
        nd_copy(&l, w + at * bytes, part->data, bytes);
    else
        nd_copy(&l, part->data, w + at * bytes, bytes);
}

/* ---- slice ---- */

static enum vb_st slice_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;

    n->dtype = n->in[0]->dtype;
    n->shape.rank = x.rank;
    for (uint32_t i = 0; i < x.rank; i++) {
        const int64_t begin = n->attr.i[BEGIN + i], size = n->attr.i[SIZE + i];

        if (x.dim[i] == GR_BATCH) {
            if (begin != 0 || size != -1)
                return op_misfit(n, "the batch can only be taken whole (begin 0, size -1)", err);
            n->shape.dim[i] = GR_BATCH;
            continue;
        }
        if (begin < 0 || (uint64_t)begin >= x.dim[i] || size == 0 || size < -1 ||
            (size > 0 && (uint64_t)size > x.dim[i] - (uint64_t)begin))
            return op_misfit(n, "the part is not inside", err);
        n->shape.dim[i] = size == -1 ? x.dim[i] - (uint64_t)begin : (uint64_t)size;
    }
    return VB_OK;
}

static void slice_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                      struct gr_run *r)
{
    copy_part(&in[0], out, &n->attr.i[BEGIN], false);
}

static enum vb_st slice_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                             const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    struct gr_attr a = { .i = { 0 } };

    for (uint32_t i = 0; i < x.rank; i++) {
        a.i[BEFORE + i] = n->attr.i[BEGIN + i];
        if (x.dim[i] != GR_BATCH)
            a.i[AFTER + i] = (int64_t)(x.dim[i] - n->shape.dim[i]) - n->attr.i[BEGIN + i];
    }
    return gr_add(g, &op_pad, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_slice = { .name = "slice",
                                  .nin = 1,
                                  .ints = slice_ints,
                                  .inplace_of = -1,
                                  .infer = slice_infer,
                                  .grad = slice_grad,
                                  .run = slice_run };

/* ---- pad ---- */

static enum vb_st pad_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        const int64_t before = n->attr.i[BEFORE + i], after = n->attr.i[AFTER + i];
        uint64_t *dim = &n->shape.dim[i];

        if (*dim == GR_BATCH) {
            if (before != 0 || after != 0)
                return op_misfit(n, "the batch cannot be padded", err);
            continue;
        }
        if (before < 0 || after < 0 || !vb_add(*dim, (uint64_t)before, dim) ||
            !vb_add(*dim, (uint64_t)after, dim) || *dim == GR_BATCH)
            return op_misfit(n, "before or after is negative or too large", err);
    }
    return VB_OK;
}

static void fill(struct gr_tensor *t, double value)
{
    const size_t k = gr_elems(t->shape, 0);

    for (size_t i = 0; i < k && t->dtype == GR_F32; i++)
        ((float *)t->data)[i] = (float)value;
    for (size_t i = 0; i < k && t->dtype == GR_I32; i++)
        ((int32_t *)t->data)[i] = (int32_t)value;
    for (size_t i = 0; i < k && t->dtype == GR_I64; i++)
        ((int64_t *)t->data)[i] = (int64_t)value;
    for (size_t i = 0; i < k && t->dtype == GR_BOOL; i++)
        ((uint8_t *)t->data)[i] = value != 0;
}

static void pad_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    fill(out, n->attr.f[VALUE]);
    copy_part(out, &in[0], &n->attr.i[BEFORE], true);
}

static enum vb_st pad_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    struct gr_attr a = { .i = { 0 } };

    for (uint32_t i = 0; i < x.rank; i++) {
        a.i[BEGIN + i] = n->attr.i[BEFORE + i];
        a.i[SIZE + i] = x.dim[i] == GR_BATCH ? -1 : (int64_t)x.dim[i];
    }
    return gr_add(g, &op_slice, NULL, &dout, &a, &din_out[0], err);
}

const struct gr_type op_pad = { .name = "pad",
                                .nin = 1,
                                .ints = pad_ints,
                                .reals = pad_reals,
                                .inplace_of = -1,
                                .infer = pad_infer,
                                .grad = pad_grad,
                                .run = pad_run };
