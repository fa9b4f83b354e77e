/*
 * sub, mul, div, maximum, minimum (a, b) of floats; equal, not_equal, less, less_equal, greater, greater_equal (a, b) of
 * floats, to bool. Element by element with broadcasting. Where a and b are equal, maximum and minimum give their gradient
 * to a.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

static enum vb_st want_floats(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_F32, n->in[0]->shape.rank, err);

    return st == VB_OK ? op_want(n, 1, GR_F32, n->in[1]->shape.rank, err) : st;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = want_floats(n, err);

    return st == VB_OK ? bc_infer(n, GR_F32, err) : st;
}

static enum vb_st infer_bool(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = want_floats(n, err);

    return st == VB_OK ? bc_infer(n, GR_BOOL, err) : st;
}

/* One loop for each kind of row, so that each can use vectors. */
#define ROW(name, type, expr)                                                                      \
    static void name##_row(void *out, const void *pa, const void *pb, size_t n, size_t sa,         \
                           size_t sb)                                                              \
    {                                                                                              \
        const float *a = pa, *b = pb;                                                              \
        type *o = out;                                                                             \
                                                                                                   \
        if (sa == 1 && sb == 1)                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                const float x = a[i], y = b[i];                                                    \
                o[i] = (type)(expr);                                                               \
            }                                                                                      \
        else                                                                                       \
            for (size_t i = 0; i < n; i++) {                                                       \
                const float x = a[i * sa], y = b[i * sb];                                          \
                o[i] = (type)(expr);                                                               \
            }                                                                                      \
    }                                                                                              \
    static void name##_run(const struct gr_node *n, const struct gr_tensor *in,                    \
                           struct gr_tensor *out, struct gr_run *r)                                \
    {                                                                                              \
        bc_run(in, out, name##_row);                                                               \
    }

ROW(sub, float, x - y)
ROW(mul, float, x *y)
ROW(div, float, x / y)
ROW(maximum, float, x >= y ? x : y)
ROW(minimum, float, x <= y ? x : y)
ROW(equal, unsigned char, x == y)
ROW(not_equal, unsigned char, x != y)
ROW(less, unsigned char, x < y)
ROW(less_equal, unsigned char, x <= y)
ROW(greater, unsigned char, x > y)
ROW(greater_equal, unsigned char, x >= y)

static enum vb_st two(struct graph *g, const struct gr_type *t, struct gr_node *a,
                      struct gr_node *b, struct gr_node **out, struct vb_err *err)
{
    return gr_add(g, t, NULL, (struct gr_node *[]){ a, b }, NULL, out, err);
}

/* din = sum_to(t(a, b), in[i]) */
static enum vb_st part(struct graph *g, struct gr_node *n, int i, const struct gr_type *t,
                       struct gr_node *a, struct gr_node *b, struct gr_node **din_out,
                       struct vb_err *err)
{
    struct gr_node *x = NULL;
    const enum vb_st st = two(g, t, a, b, &x, err);

    return st == VB_OK ? bc_sum_to(g, x, n->in[i], &din_out[i], err) : st;
}

static enum vb_st negative(struct graph *g, struct gr_node **x, struct vb_err *err)
{
    return gr_add(g, &op_neg, NULL, x, NULL, x, err);
}

static enum vb_st sub_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    if (need[0])
        st = bc_sum_to(g, dout, n->in[0], &din_out[0], err);
    if (st == VB_OK && need[1])
        st = bc_sum_to(g, dout, n->in[1], &din_out[1], err);
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
        st = two(g, &op_mul, dout, n, &x, err);
    if (st == VB_OK && need[1])
        st = part(g, n, 1, &op_div, x, n->in[1], din_out, err);
    return st == VB_OK && need[1] ? negative(g, &din_out[1], err) : st;
}

/* dout where in[0] was chosen, or (i = 1) where it was not */
static enum vb_st chosen(struct graph *g, struct gr_node *n, struct gr_node *dout, int i,
                         struct gr_node **din_out, struct vb_err *err)
{
    const struct gr_type *t = n->type == &op_maximum ? &op_greater_equal : &op_less_equal;
    const float none = 0;
    struct gr_node *is = NULL, *zero = NULL, *x = NULL;
    enum vb_st st = two(g, t, n->in[0], n->in[1], &is, err);

    if (st == VB_OK)
        st = gr_add_constant(g, NULL, GR_F32, (struct gr_shape){ 0 }, &none, &zero, err);
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

#define BINARY(op, infer_fn, grad_fn, place)                                                       \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 2,                                                     \
                                     .inplace_of = place,                                          \
                                     .infer = infer_fn,                                            \
                                     .grad = grad_fn,                                              \
                                     .run = op##_run }
BINARY(sub, infer, sub_grad, 0);
BINARY(mul, infer, mul_grad, 0);
BINARY(div, infer, div_grad, 0);
BINARY(maximum, infer, choice_grad, 0);
BINARY(minimum, infer, choice_grad, 0);
BINARY(equal, infer_bool, NULL, -1);
BINARY(not_equal, infer_bool, NULL, -1);
BINARY(less, infer_bool, NULL, -1);
BINARY(less_equal, infer_bool, NULL, -1);
BINARY(greater, infer_bool, NULL, -1);
BINARY(greater_equal, infer_bool, NULL, -1);
