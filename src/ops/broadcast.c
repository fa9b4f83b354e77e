/* sum_to(x, like) -> x summed over what broadcasting like to the shape of x repeats; of like only the shape counts. */
#include "ops/broadcast.h"

#include "ops/check.h"
#include "ops/ops.h"

#include <string.h>

/* Dimension i of the result of so many, counted from the first: 1 where the shape has none. */
static uint64_t dim_at(const struct gr_shape *s, uint32_t i, uint32_t rank)
{
    return i + s->rank < rank ? 1 : s->dim[i + s->rank - rank];
}

enum vb_st bc_infer(struct gr_node *n, enum gr_dtype dtype, struct vb_err *err)
{
    const struct gr_shape a = n->in[0]->shape, b = n->in[1]->shape;

    n->dtype = dtype;
    n->shape.rank = VB_MAX(a.rank, b.rank);
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        const uint64_t x = dim_at(&a, i, n->shape.rank), y = dim_at(&b, i, n->shape.rank);

        if (x != y && x != 1 && y != 1)
            return op_misfit(n, "shapes do not fit", err);
        n->shape.dim[i] = x == 1 ? y : x;
        if (n->shape.dim[i] == GR_BATCH && i > 0)
            return op_misfit(n, "the batch would not be the first dimension of the result", err);
    }
    return VB_OK;
}

/* Elements from one index to the next of each dimension of the result; 0: it is repeated. */
static void strides(const struct gr_shape *s, uint32_t rank, const uint64_t *dim, size_t *out)
{
    size_t step = 1;

    for (uint32_t i = rank; i-- > 0;) {
        const uint64_t own = dim_at(s, i, rank);

        out[i] = own == 1 && dim[i] != 1 ? 0 : step;
        step *= own;
    }
}

struct walk {
    uint32_t rank;
    uint64_t index[GR_RANK_MAX];
};

/* The next row: all dimensions but the last. false: there is none. */
static bool next_row(struct walk *w, const uint64_t *dim)
{
    for (uint32_t i = w->rank - 1; i-- > 0;) {
        if (++w->index[i] < dim[i])
            return true;
        w->index[i] = 0;
    }
    return false;
}

static size_t offset(const struct walk *w, const size_t *stride)
{
    size_t at = 0;

    for (uint32_t i = 0; i + 1 < w->rank; i++)
        at += w->index[i] * stride[i];
    return at;
}

void bc_run(const struct gr_tensor *in, struct gr_tensor *out, bc_row *row)
{
    const uint32_t rank = out->shape.rank;
    const size_t n = gr_elems(out->shape, 0), to = gr_dtype_bytes(out->dtype),
                 fa = gr_dtype_bytes(in[0].dtype), fb = gr_dtype_bytes(in[1].dtype);
    const char *a = in[0].data, *b = in[1].data;
    size_t sa[GR_RANK_MAX], sb[GR_RANK_MAX], at = 0;
    struct walk w = { .rank = rank };

    if (n == 0)
        return;
    if (rank == 0 || (gr_shape_eq(in[0].shape, in[1].shape))) {
        row(out->data, a, b, n, 1, 1);
        return;
    }
    strides(&in[0].shape, rank, out->shape.dim, sa);
    strides(&in[1].shape, rank, out->shape.dim, sb);
    do {
        row((char *)out->data + at * to, a + offset(&w, sa) * fa, b + offset(&w, sb) * fb,
            out->shape.dim[rank - 1], sa[rank - 1], sb[rank - 1]);
        at += out->shape.dim[rank - 1];
    } while (next_row(&w, out->shape.dim));
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape like = n->in[1]->shape, x = n->in[0]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    for (uint32_t i = 0; st == VB_OK && i < x.rank; i++) {
        const uint64_t own = dim_at(&like, i, x.rank);

        if (own != 1 && own != x.dim[i])
            st = op_misfit(n, "the second cannot be repeated to the first", err);
    }
    if (st == VB_OK && like.rank > x.rank)
        st = op_misfit(n, "the second cannot be repeated to the first", err);
    n->dtype = GR_F32;
    n->shape = like;
    return st;
}

/* In the order of x, so the bits are the same each time. */
static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const uint32_t rank = in[0].shape.rank;
    const uint64_t *dim = in[0].shape.dim;
    const float *x = in[0].data;
    float *y = out->data;
    size_t stride[GR_RANK_MAX] = { 0 };
    struct walk w = { .rank = rank };

    memset(y, 0, gr_elems(out->shape, 0) * sizeof(*y));
    if (gr_elems(in[0].shape, 0) == 0)
        return;
    if (rank == 0) {
        y[0] = x[0];
        return;
    }
    strides(&out->shape, rank, dim, stride);
    do {
        float *to = y + offset(&w, stride);

        for (uint64_t i = 0; i < dim[rank - 1]; i++)
            to[i * stride[rank - 1]] += x[i];
        x += dim[rank - 1];
    } while (next_row(&w, dim));
}

const struct gr_type op_sum_to = {
    .name = "sum_to",
    .nin = 2,
    .inplace_of = -1,
    .infer = infer,
    .run = run,
};

enum vb_st bc_sum_to(struct graph *g, struct gr_node *x, struct gr_node *like, struct gr_node **out,
                     struct vb_err *err)
{
    if (gr_shape_eq(x->shape, like->shape)) {
        *out = x;
        return VB_OK;
    }
    return gr_add(g, &op_sum_to, NULL, (struct gr_node *[]){ x, like }, NULL, out, err);
}
