/*
 * equal, not_equal, less, less_equal, greater, greater_equal (a, b) of one type, any; logical_and, logical_or (a, b) and
 * logical_not (x) of bool. To bool, element by element with broadcasting. No gradients.
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_same(n, 0, OP_ANY, err);

    return st == VB_OK ? bc_infer(n, GR_BOOL, err) : st;
}

static enum vb_st infer_bool(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = op_same(n, 0, 1 << GR_BOOL, err);

    return st == VB_OK ? bc_infer(n, GR_BOOL, err) : st;
}

#define ROW(name, type, expr)                                                                      \
    static void name##_row(void *const *at, const size_t *step, size_t n)                          \
    {                                                                                              \
        BC_ROW(uint8_t, type, expr)                                                                \
    }
#define OP(op, infer_fn)                                                                           \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 2, .inplace_of = -1, .infer = infer_fn, .run = op##_run                \
    };
#define COMPARE(op, expr)                                                                          \
    ROW(op##_f32, float, expr)                                                                     \
    ROW(op##_i32, int32_t, expr)                                                                   \
    ROW(op##_i64, int64_t, expr)                                                                   \
    ROW(op##_bool, uint8_t, expr)                                                                  \
    static void op##_run(const struct gr_node *n, const struct gr_tensor *in,                      \
                         struct gr_tensor *out, struct gr_run *r)                                  \
    {                                                                                              \
        static nd_row *const row[] = { [GR_F32] = op##_f32_row,                                    \
                                       [GR_I32] = op##_i32_row,                                    \
                                       [GR_I64] = op##_i64_row,                                    \
                                       [GR_BOOL] = op##_bool_row };                                \
        bc_run(n, in, out, row[in[0].dtype]);                                                      \
    }                                                                                              \
    OP(op, infer)
#define LOGICAL(op, expr)                                                                          \
    ROW(op, uint8_t, expr)                                                                         \
    static void op##_run(const struct gr_node *n, const struct gr_tensor *in,                      \
                         struct gr_tensor *out, struct gr_run *r)                                  \
    {                                                                                              \
        bc_run(n, in, out, op##_row);                                                              \
    }                                                                                              \
    OP(op, infer_bool)

COMPARE(equal, x == y)
COMPARE(not_equal, x != y)
COMPARE(less, x < y)
COMPARE(less_equal, x <= y)
COMPARE(greater, x > y)
COMPARE(greater_equal, x >= y)
LOGICAL(logical_and, (x & y) != 0)
LOGICAL(logical_or, (x | y) != 0)

static void not_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                    struct gr_run *r)
{
    const uint8_t *x = in[0].data;
    uint8_t *y = out->data;

    for (size_t i = 0, k = gr_elems(out->shape, 0); i < k; i++)
        y[i] = x[i] == 0;
}

const struct gr_type op_logical_not = {
    .name = "logical_not", .nin = 1, .inplace_of = 0, .infer = infer_bool, .run = not_run
};
