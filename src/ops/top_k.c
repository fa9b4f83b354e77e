/*
 * argmax(x; axis) -> i32, the place of the largest along that dimension, counted from the end when it is negative; of equal
 * ones the first. top_k(x; k) -> i32, the places of the k largest along the last dimension, largest first, of equal ones the
 * first first. A NaN is larger than any number. pick(x, places i32) -> x at these places of its last dimension; the others
 * are equal; a place that is not there makes the run fail. pick_grad(dy, places, x) adds dy up where it came from.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <string.h>

static const char *const axis_ints[] = { "axis", NULL };
static const char *const k_ints[] = { "k", NULL };

static uint64_t last(const struct gr_shape *s)
{
    return s->rank > 0 ? s->dim[s->rank - 1] : GR_BATCH;
}

/* Is a a better choice than b, which comes before it? */
static bool is_larger(float a, float b)
{
    return a > b || (a != a && b == b);
}

/* ---- argmax ---- */

/* The dimension that is meant; the rank: none. */
static uint32_t axis_of(const struct gr_node *n, uint32_t rank)
{
    const int64_t axis = n->attr.i[0];

    if (axis >= (int64_t)rank || axis < -(int64_t)rank)
        return rank;
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

static enum vb_st argmax_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);
    const uint32_t axis = axis_of(n, x.rank);

    if (st != VB_OK)
        return st;
    if (axis == x.rank || x.dim[axis] > INT32_MAX)
        return op_misfit(n, "no such axis, or it is the batch, or too long", err);
    n->dtype = GR_I32;
    for (uint32_t i = 0; i < x.rank; i++)
        if (i != axis)
            n->shape.dim[n->shape.rank++] = x.dim[i];
    return VB_OK;
}

static void argmax_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const uint32_t rank = in[0].shape.rank, axis = axis_of(n, rank);
    const size_t len = in[0].shape.dim[axis];
    const float *x = in[0].data;
    int32_t *y = out->data;
    size_t inner = 1;

    for (uint32_t i = axis + 1; i < rank; i++)
        inner *= in[0].shape.dim[i];
    for (size_t o = 0, k = gr_elems(out->shape, 0) / VB_MAX(inner, 1u); o < k; o++) {
        for (size_t i = 0; i < inner; i++) {
            size_t best = 0;

            for (size_t e = 1; e < len; e++)
                if (is_larger(x[e * inner + i], x[best * inner + i]))
                    best = e;
            y[i] = (int32_t)best;
        }
        x += len * inner;
        y += inner;
    }
}

const struct gr_type op_argmax = { .name = "argmax",
                                   .nin = 1,
                                   .ints = axis_ints,
                                   .inplace_of = -1,
                                   .infer = argmax_infer,
                                   .run = argmax_run };

/* ---- top_k ---- */

static enum vb_st top_k_infer(struct gr_node *n, struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape;
    const enum vb_st st = op_want(n, 0, GR_F32, x.rank, err);

    if (st != VB_OK)
        return st;
    if (last(&x) > INT32_MAX || n->attr.i[0] < 1 || (uint64_t)n->attr.i[0] > last(&x))
        return op_misfit(n, "k is not 1 to the last dimension", err);
    n->dtype = GR_I32;
    n->shape = x;
    n->shape.dim[x.rank - 1] = (uint64_t)n->attr.i[0];
    return VB_OK;
}

/* Does place a go before place b in the result? */
static bool goes_before(const float *x, int32_t a, int32_t b)
{
    return is_larger(x[a], x[b]) || (!is_larger(x[b], x[a]) && a < b);
}

/* heap[0] goes last of n; restores that where heap[i] may be out of place. */
static void sift(const float *x, int32_t *heap, size_t n, size_t i)
{
    for (size_t kid = 2 * i + 1; kid < n; kid = 2 * i + 1) {
        const int32_t own = heap[i];

        if (kid + 1 < n && goes_before(x, heap[kid], heap[kid + 1]))
            kid++;
        if (!goes_before(x, own, heap[kid]))
            return;
        heap[i] = heap[kid];
        heap[kid] = own;
        i = kid;
    }
}

static void top_k_row(const float *x, size_t n, int32_t *y, size_t k)
{
    for (size_t i = 0; i < k; i++)
        y[i] = (int32_t)i;
    for (size_t i = k / 2; i-- > 0;)
        sift(x, y, k, i);
    for (size_t i = k; i < n; i++)
        if (goes_before(x, (int32_t)i, y[0])) {
            y[0] = (int32_t)i;
            sift(x, y, k, 0);
        }
    for (size_t i = k; i-- > 1;) { /* what goes last to the end */
        const int32_t worst = y[0];

        y[0] = y[i];
        y[i] = worst;
        sift(x, y, i, 0);
    }
}

static void top_k_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                      struct gr_run *r)
{
    const size_t cols = last(&in[0].shape), k = (size_t)n->attr.i[0];
    const float *x = in[0].data;
    int32_t *y = out->data;

    for (size_t row = 0, rows = gr_elems(out->shape, 0) / k; row < rows; row++)
        top_k_row(x + row * cols, cols, y + row * k, k);
}

const struct gr_type op_top_k = { .name = "top_k",
                                  .nin = 1,
                                  .ints = k_ints,
                                  .inplace_of = -1,
                                  .infer = top_k_infer,
                                  .run = top_k_run };

/* ---- pick ---- */

/* Do x and the places go together? */
static enum vb_st check_places(const struct gr_node *n, uint32_t x, uint32_t places,
                               struct vb_err *err)
{
    struct gr_shape a = n->in[x]->shape, b = n->in[places]->shape;
    enum vb_st st = op_want(n, x, GR_F32, a.rank, err);

    if (st == VB_OK)
        st = op_want(n, places, GR_I32, a.rank, err);
    if (st != VB_OK)
        return st;
    if (last(&a) == GR_BATCH || last(&b) == GR_BATCH)
        return op_misfit(n, "there is no last dimension to pick from", err);
    a.dim[a.rank - 1] = b.dim[b.rank - 1];
    return gr_shape_eq(a, b) ? VB_OK : op_misfit(n, "other dimensions than the last differ", err);
}

static enum vb_st pick_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape = n->in[1]->shape;
    return check_places(n, 0, 1, err);
}

static void pick_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const size_t cols = last(&in[0].shape), k = last(&out->shape), all = gr_elems(out->shape, 0);
    const int32_t *place = in[1].data;
    const float *x = in[0].data;
    float *y = out->data;

    if (!op_inside(n, place, all, cols, r))
        return;
    for (size_t i = 0; i < all; i++)
        y[i] = x[i / k * cols + (size_t)place[i]];
}

static enum vb_st pick_back(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    if (!need[0])
        return VB_OK;
    return gr_add(g, &op_pick_grad, NULL, (struct gr_node *[]){ dout, n->in[1], n->in[0] }, NULL,
                  &din_out[0], err);
}

const struct gr_type op_pick = { .name = "pick",
                                 .nin = 2,
                                 .inplace_of = -1,
                                 .infer = pick_infer,
                                 .grad = pick_back,
                                 .run = pick_run };

static enum vb_st pick_grad_infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[2]->shape;
    if (st == VB_OK)
        st = check_places(n, 2, 1, err);
    return st == VB_OK && !gr_shape_eq(n->in[0]->shape, n->in[1]->shape)
               ? op_misfit(n, "the first two have not one shape", err)
               : st;
}

static void pick_grad_run(const struct gr_node *n, const struct gr_tensor *in,
                          struct gr_tensor *out, struct gr_run *r)
{
    const size_t cols = last(&out->shape), k = last(&in[0].shape), all = gr_elems(in[0].shape, 0);
    const int32_t *place = in[1].data;
    const float *dy = in[0].data;
    float *dx = out->data;

    memset(dx, 0, gr_elems(out->shape, 0) * sizeof(*dx));
    if (!op_inside(n, place, all, cols, r))
        return;
    for (size_t i = 0; i < all; i++)
        dx[i / k * cols + (size_t)place[i]] += dy[i];
}

const struct gr_type op_pick_grad = {
    .name = "pick_grad", .nin = 3, .inplace_of = -1, .infer = pick_grad_infer, .run = pick_grad_run
};
