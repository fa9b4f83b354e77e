/*
 * matmul(a, b; ta, tb) -> op(a) op(b); op transposes the last two dimensions where it is set.
 *   [m, k] x [k, n]            one product; the batch may be the rows of the result, or the inner size (which sums over it)
 *   [.., k] x [k, n]           the leading dimensions of a are rows
 *   [.., m, k] x [.., k, n]    a product for each of the leading dimensions, which are equal
 * flat is for gradients: all but the last dimension of both are rows, and the result is a^T b.
 *
 * Gradients of c = op(a) op(b): with d = dc, op(a)' = d op(b)^T and op(b)' = op(a)^T d; where an
 * input is stored transposed its gradient is the transpose of that, i.e. the factors swap.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

#include <limits.h>
#include <string.h>

enum { TA, TB, FLAT };
static const char *const ints[] = { "ta", "tb", "flat", NULL };

/* Which of the three forms above; of the same rank and leading dimensions. */
enum form { ONE, ROWS, EACH, FLATTENED, NEITHER };

static bool same_lead(const struct gr_shape *a, const struct gr_shape *b, uint32_t n)
{
    return memcmp(a->dim, b->dim, n * sizeof(a->dim[0])) == 0;
}

static enum form form_of(const struct gr_node *n)
{
    const struct gr_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;

    if (a->rank < 2 || b->rank < 2)
        return NEITHER;
    if (n->attr.i[FLAT] != 0)
        return a->rank == b->rank && same_lead(a, b, a->rank - 1) ? FLATTENED : NEITHER;
    if (a->rank == 2 && b->rank == 2)
        return ONE;
    if (b->rank == 2 && n->attr.i[TA] == 0)
        return ROWS;
    return a->rank == b->rank && same_lead(a, b, a->rank - 2) ? EACH : NEITHER;
}

/* BLAS counts rows in 31 bits: leading dimensions together, of which a run may still know more. */
static bool too_large(const struct gr_shape *s)
{
    const struct gr_shape rows = {
        .rank = s->rank - 1, .dim = { s->dim[0], s->dim[1], s->dim[2], s->dim[3], s->dim[4] }
    };

    return gr_elems(rows, 1) > INT_MAX ||
           (s->dim[s->rank - 1] != GR_BATCH && s->dim[s->rank - 1] > INT_MAX);
}

static enum vb_st inner_differs(const struct gr_node *n, struct vb_err *err)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;

    return op_misfit(n,
                     ta && tb ? "inner sizes differ (both transposed)"
                     : ta     ? "inner sizes differ (first transposed)"
                     : tb     ? "inner sizes differ (second transposed)"
                              : "inner sizes differ",
                     err);
}

static enum vb_st infer_form(struct gr_node *n, enum form form, struct vb_err *err)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;
    const struct gr_shape a = n->in[0]->shape, b = n->in[1]->shape;

    if (form == FLATTENED) {
        n->shape = (struct gr_shape){ .rank = 2, .dim = { a.dim[a.rank - 1], b.dim[b.rank - 1] } };
        return VB_OK;
    }
    if (a.dim[a.rank - (ta ? 2 : 1)] != b.dim[b.rank - (tb ? 1 : 2)])
        return inner_differs(n, err);
    n->shape = a;
    if (form != ROWS)
        n->shape.dim[a.rank - 2] = a.dim[a.rank - (ta ? 1 : 2)];
    n->shape.dim[a.rank - 1] = b.dim[b.rank - (tb ? 2 : 1)];
    return n->shape.dim[a.rank - 1] == GR_BATCH
               ? op_misfit(n, "the batch would not be the first dimension of the result", err)
               : VB_OK;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (uint32_t i = 0; i < 2 && st == VB_OK; i++)
        st = op_want(n, i, GR_F32, VB_MAX(n->in[i]->shape.rank, 2u), err);
    if (st != VB_OK)
        return st;
    const enum form form = form_of(n);

    if (form == NEITHER)
        return op_misfit(n, "leading dimensions do not go together", err);
    n->dtype = GR_F32;
    st = infer_form(n, form, err);
    if (st == VB_OK && (too_large(&n->in[0]->shape) || too_large(&n->in[1]->shape)))
        return op_misfit(n, "there are more than 2147483647 rows or columns", err);
    return st;
}

static enum vb_st product(struct graph *g, struct gr_node *a, struct gr_node *b, bool ta, bool tb,
                          struct gr_node **out, struct vb_err *err)
{
    const struct gr_attr attr = { .i = { [TA] = ta, [TB] = tb } };

    return gr_add(g, &op_matmul, NULL, (struct gr_node *[]){ a, b }, &attr, out, err);
}

static enum vb_st flat(struct graph *g, struct gr_node *a, struct gr_node *b, struct gr_node **out,
                       struct vb_err *err)
{
    const struct gr_attr attr = { .i = { [FLAT] = 1 } };

    return gr_add(g, &op_matmul, NULL, (struct gr_node *[]){ a, b }, &attr, out, err);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0, rows = form_of(n) == ROWS;
    struct gr_node *a = n->in[0], *b = n->in[1];
    enum vb_st st = VB_OK;

    if (form_of(n) == FLATTENED) {
        vb_err_set(err, "'%s': matmul with flat has no gradient", n->name);
        return VB_INVAL;
    }
    if (need[0])
        st = ta ? product(g, b, dout, tb, true, &din_out[0], err)
                : product(g, dout, b, false, !tb, &din_out[0], err);
    if (st != VB_OK || !need[1])
        return st;
    if (rows)
        return tb ? flat(g, dout, a, &din_out[1], err) : flat(g, a, dout, &din_out[1], err);
    return tb ? product(g, dout, a, true, ta, &din_out[1], err)
              : product(g, a, dout, !ta, false, &din_out[1], err);
}

static uint64_t last(const struct gr_tensor *t, uint32_t i)
{
    return t->shape.dim[t->shape.rank - i];
}

/* How many of the leading dimensions there are together, but for the last `but`. */
static uint64_t leading(const struct gr_tensor *t, uint32_t but)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i + but < t->shape.rank; i++)
        n *= t->shape.dim[i];
    return n;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const bool ta = n->attr.i[TA] != 0, tb = n->attr.i[TB] != 0;
    const uint64_t inner = last(&in[0], ta ? 2 : 1);
    const float *a = in[0].data, *b = in[1].data;
    float *c = out->data;

    if (too_large(&in[0].shape) || too_large(&in[1].shape)) {
        op_fail(n, r, "there are more than 2147483647 rows");
        return;
    }
    switch (form_of(n)) {
    case FLATTENED:
        kn_gemm(c, a, b, true, false, last(&in[0], 1), last(&in[1], 1), leading(&in[0], 1));
        break;
    case ROWS:
        kn_gemm(c, a, b, false, tb, leading(&in[0], 1), last(out, 1), inner);
        break;
    default:
        for (uint64_t i = 0, k = leading(out, 2); i < k; i++) {
            kn_gemm(c, a, b, ta, tb, last(out, 2), last(out, 1), inner);
            a += last(&in[0], 1) * last(&in[0], 2);
            b += last(&in[1], 1) * last(&in[1], 2);
            c += last(out, 1) * last(out, 2);
        }
    }
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
