/*
 * add, sub, mul, maximum, minimum (a, b) of numbers, all of one type (whole numbers wrap around), div, pow (a, b) of floats.
 * Element by element with broadcasting. A NaN on either side is the maximum and the minimum.
 *
 * Gradients: where a and b are equal, maximum and minimum give it to a. pow gives b nothing where a <= 0, and a nothing where
 * b is 0.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

#include <math.h>

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_same(n, 0, OP_NUMBERS, err);

    return st == VB_OK ? bc_infer(n, n->in[0]->dtype, err) : st;
}

static enum vb_st infer_floats(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_same(n, 0, 1 << GR_F32, err);

    return st == VB_OK ? bc_infer(n, GR_F32, err) : st;
}

#define ROW(name, type, expr)                                                                      \
    static void name##_row(void *const *at, const size_t *step, size_t n)                          \
    {                                                                                              \
        BC_ROW(type, type, expr)                                                                   \
    }
#define RUN(name)                                                                                  \
    static void name##_run(const struct gr_node *n, const struct gr_tensor *in,                    \
                           struct gr_tensor *out, struct gr_run *r)                                \
    {                                                                                              \
        bc_run(n, in, out,                                                                         \
               out->dtype == GR_F32   ? name##_f32_row                                             \
               : out->dtype == GR_I32 ? name##_i32_row                                             \
                                      : name##_i64_row);                                           \
    }
/* whole: of unsigned numbers, which may overflow */
#define NUMBERS(name, expr, whole)                                                                 \
    ROW(name##_f32, float, expr)                                                                   \
    ROW(name##_i32, int32_t, whole(uint32_t))                                                      \
    ROW(name##_i64, int64_t, whole(uint64_t))
#define SUM(type) (type) x + (type)y
#define DIFFERENCE(type) (type) x - (type)y
#define PRODUCT(type) (type) x *(type)y
#define LARGER(type) x >= y ? x : y
#define SMALLER(type) x <= y ? x : y

NUMBERS(add, x + y, SUM)
NUMBERS(sub, x - y, DIFFERENCE)
NUMBERS(mul, x *y, PRODUCT)
NUMBERS(maximum, x >= y || x != x ? x : y, LARGER)
NUMBERS(minimum, x <= y || x != x ? x : y, SMALLER)
ROW(div, float, x / y)
ROW(pow, float, powf(x, y))
RUN(sub)
RUN(mul)
RUN(maximum)
RUN(minimum)

/* In place, of equal shapes: what adds gradients up. */
static void add_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    if (out->dtype == GR_F32 && out->data == in[0].data && out->data != in[1].data &&
        gr_shape_eq(in[0].shape, in[1].shape))
        kn_best()->add(out->data, in[1].data, gr_elems(out->shape, 0));
    else
        bc_run(n, in, out,
               out->dtype == GR_F32   ? add_f32_row
               : out->dtype == GR_I32 ? add_i32_row
                                      : add_i64_row);
}

static void div_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    bc_run(n, in, out, div_row);
}

static void pow_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    bc_run(n, in, out, pow_row);
}

/* ---- gradients ---- */

/* din = sum_to(t(a, b), in[i]) */
static enum vb_st part(struct graph *g, struct gr_node *n, int i, const struct gr_type *t,
                       struct gr_node *a, struct gr_node *b, struct gr_node **din_out,
                       struct vb_err *err)
{
    struct gr_node *x = NULL;
    const enum vb_st st = op_two(g, t, a, b, &x, err);

    return st == VB_OK ? bc_sum_to(g, x, n->in[i], &din_out[i], err) : st;
}

static enum vb_st negative(struct graph *g, struct gr_node **x, struct vb_err *err)
{
    return gr_add(g, &op_neg, NULL, x, NULL, x, err);
}

static enum vb_st add_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++)
        if (need[i])
            st = bc_sum_to(g, dout, n->in[i], &din_out[i], err);
    return st;
}

static enum vb_st sub_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const enum vb_st st = add_grad(g, n, dout, need, din_out, err);

    return st == VB_OK && need[1] ? negative(g, &din_out[1], err) : st;
}

static enum vb_st mul_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++)
        if (need[i])
            st = part(g, n, i, &op_mul, dout, n->in[1 - i], din_out, err);
    return st;
}

/* y = a / b: dy / b, and -(dy y) / b */
static enum vb_st div_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *x = NULL;
    enum vb_st st = VB_OK;

    if (need[0])
        st = part(g, n, 0, &op_div, dout, n->in[1], din_out, err);
    if (st == VB_OK && need[1])
        st = op_two(g, &op_mul, dout, n, &x, err);
    if (st == VB_OK && need[1])
        st = part(g, n, 1, &op_div, x, n->in[1], din_out, err);
    return st == VB_OK && need[1] ? negative(g, &din_out[1], err) : st;
}

/* x where t(a, 0), else 0 */
static enum vb_st where(struct graph *g, const struct gr_type *t, struct gr_node *a,
                        struct gr_node *x, struct gr_node **out, struct vb_err *err)
{
    struct gr_node *zero = NULL, *is = NULL;
    enum vb_st st = op_zero(g, GR_F32, &zero, err);

    if (st == VB_OK)
        st = op_two(g, t, a, zero, &is, err);
    return st == VB_OK
               ? gr_add(g, &op_select, NULL, (struct gr_node *[]){ is, x, zero }, NULL, out, err)
               : st;
}

/* y = a^b: dy b a^(b - 1), and dy y log a */
static enum vb_st pow_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *a = n->in[0], *b = n->in[1], *x = NULL;
    enum vb_st st = VB_OK;

    if (need[0]) {
        st = op_scaled(g, b, 1, -1, &x, err);
        if (st == VB_OK)
            st = op_two(g, &op_pow, a, x, &x, err);
        if (st == VB_OK)
            st = op_two(g, &op_mul, b, x, &x, err);
        if (st == VB_OK)
            st = where(g, &op_not_equal, b, x, &x, err);
        if (st == VB_OK)
            st = part(g, n, 0, &op_mul, dout, x, din_out, err);
    }
    if (st == VB_OK && need[1]) {
        st = gr_add(g, &op_log, NULL, &a, NULL, &x, err);
        if (st == VB_OK)
            st = where(g, &op_greater, a, x, &x, err);
        if (st == VB_OK)
            st = op_two(g, &op_mul, n, x, &x, err);
        if (st == VB_OK)
            st = part(g, n, 1, &op_mul, dout, x, din_out, err);
    }
    return st;
}

/* dout where in[0] was chosen, or (i = 1) where it was not */
static enum vb_st chosen(struct graph *g, struct gr_node *n, struct gr_node *dout, int i,
                         struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_type *t = n->type == &op_maximum ? &op_greater_equal : &op_less_equal;
    struct gr_node *is = NULL, *zero = NULL, *x = NULL;
    enum vb_st st = op_two(g, t, n->in[0], n->in[1], &is, err);

    if (st == VB_OK)
        st = op_zero(g, GR_F32, &zero, err);
    if (st == VB_OK)
        st = gr_add(g, &op_select, NULL,
                    (struct gr_node *[]){ is, i == 0 ? dout : zero, i == 0 ? zero : dout }, NULL,
                    &x, err);
    return st == VB_OK ? bc_sum_to(g, x, n->in[i], &din_out[i], err) : st;
}

static enum vb_st choice_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++)
        if (need[i])
            st = chosen(g, n, dout, i, din_out, err);
    return st;
}

#define BINARY(op, infer_fn, grad_fn)                                                              \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 2,                                                     \
                                     .inplace_of = 0,                                              \
                                     .infer = infer_fn,                                            \
                                     .grad = grad_fn,                                              \
                                     .run = op##_run }
BINARY(add, infer, add_grad);
BINARY(sub, infer, sub_grad);
BINARY(mul, infer, mul_grad);
BINARY(div, infer_floats, div_grad);
BINARY(pow, infer_floats, pow_grad);
BINARY(maximum, infer, choice_grad);
BINARY(minimum, infer, choice_grad);
