/*
 * select(cond bool, a, b) -> a where cond, else b; a and b have one type, and all three broadcast to each other as in
 * broadcast.h. cast(x; type) -> x as another type: floats are cut to whole numbers and held within the type (a NaN is 0),
 * whole numbers that are too large wrap around, bool is "not 0".
 */
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { TYPE };
static const char *const cast_ints[] = { "type", NULL };

static enum vb_st select_infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 0, GR_BOOL, n->in[0]->shape.rank, err);

    if (st == VB_OK)
        st = op_same(n, 1, OP_ANY, err);
    return st == VB_OK ? bc_infer(n, n->in[1]->dtype, err) : st;
}

/* The loops whose steps are common are written out, so that each can use vectors. */
#define SELECT(name, type)                                                                         \
    static void select_##name(void *const *at, const size_t *step, size_t n)                       \
    {                                                                                              \
        const uint8_t *cond = at[1];                                                               \
        const type *a = at[2], *b = at[3];                                                         \
        const size_t so = step[0], sc = step[1], sa = step[2], sb = step[3];                       \
        type *o = at[0];                                                                           \
                                                                                                   \
        if (so == 1 && sc == 1 && sa == 1 && sb == 1)                                              \
            for (size_t i = 0; i < n; i++) {                                                       \
                const type x = a[i], y = b[i];                                                     \
                o[i] = cond[i] != 0 ? x : y;                                                       \
            }                                                                                      \
        else if (so == 1 && sc == 1 && sa == 1 && sb == 0)                                         \
            for (size_t i = 0; i < n; i++) {                                                       \
                const type x = a[i], y = b[0];                                                     \
                o[i] = cond[i] != 0 ? x : y;                                                       \
            }                                                                                      \
        else if (so == 1 && sc == 1 && sa == 0 && sb == 1)                                         \
            for (size_t i = 0; i < n; i++) {                                                       \
                const type x = a[0], y = b[i];                                                     \
                o[i] = cond[i] != 0 ? x : y;                                                       \
            }                                                                                      \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                o[i * so] = cond[i * sc] != 0 ? a[i * sa] : b[i * sb];                             \
    }
SELECT(1, uint8_t)
SELECT(4, uint32_t)
SELECT(8, uint64_t)

static void select_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const size_t bytes = gr_dtype_bytes(out->dtype);

    bc_run(n, in, out, bytes == 1 ? select_1 : bytes == 4 ? select_4 : select_8);
}

static enum vb_st select_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *zero = NULL, *x = NULL;
    enum vb_st st = op_zero(g, GR_F32, &zero, err);

    for (int i = 1; i < 3 && st == VB_OK; i++) {
        if (!need[i])
            continue;
        st = gr_add(g, &op_select, NULL,
                    (struct gr_node *[]){ n->in[0], i == 1 ? dout : zero, i == 1 ? zero : dout },
                    NULL, &x, err);
        if (st == VB_OK)
            st = bc_sum_to(g, x, n->in[i], &din_out[i], err);
    }
    return st;
}

const struct gr_type op_select = { .name = "select",
                                   .nin = 3,
                                   .inplace_of = -1,
                                   .infer = select_infer,
                                   .grad = select_grad,
                                   .run = select_run };

static enum vb_st cast_infer(struct gr_node *n, struct vb_err *err)
{
    if (n->attr.i[TYPE] < 0 || n->attr.i[TYPE] >= GR_DTYPES)
        return op_misfit(n, "there is no such type", err);
    n->dtype = (enum gr_dtype)n->attr.i[TYPE];
    n->shape = n->in[0]->shape;
    return VB_OK;
}

/* 2^31 and 2^63 are floats; the largest numbers of the types are not. */
static int32_t whole_i32(float x)
{
    return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int32_t)x;
}

static int64_t whole_i64(float x)
{
    return x != x ? 0 : x >= 0x1p63f ? INT64_MAX : x < -0x1p63f ? INT64_MIN : (int64_t)x;
}

#define CAST(from, to, from_type, to_type, expr)                                                   \
    static void from##_to_##to(void *out, const void *in, size_t n)                                \
    {                                                                                              \
        const from_type *px = in;                                                                  \
        to_type *o = out;                                                                          \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const from_type x = px[i];                                                             \
            o[i] = expr;                                                                           \
        }                                                                                          \
    }
CAST(f32, i32, float, int32_t, whole_i32(x))
CAST(f32, i64, float, int64_t, whole_i64(x))
CAST(f32, bool, float, uint8_t, x != 0)
CAST(i32, f32, int32_t, float, (float)x)
CAST(i32, i64, int32_t, int64_t, x)
CAST(i32, bool, int32_t, uint8_t, x != 0)
CAST(i64, f32, int64_t, float, (float)x)
CAST(i64, i32, int64_t, int32_t, (int32_t)(uint32_t)(uint64_t)x)
CAST(i64, bool, int64_t, uint8_t, x != 0)
CAST(bool, f32, uint8_t, float, x != 0)
CAST(bool, i32, uint8_t, int32_t, x != 0)
CAST(bool, i64, uint8_t, int64_t, x != 0)

static void cast_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    static void (*const fn[GR_DTYPES][GR_DTYPES])(void *, const void *, size_t) = {
        [GR_F32] = { NULL, f32_to_i32, f32_to_i64, f32_to_bool },
        [GR_I32] = { i32_to_f32, NULL, i32_to_i64, i32_to_bool },
        [GR_I64] = { i64_to_f32, i64_to_i32, NULL, i64_to_bool },
        [GR_BOOL] = { bool_to_f32, bool_to_i32, bool_to_i64, NULL },
    };
    const size_t k = gr_elems(out->shape, 0);

    if (in[0].dtype != out->dtype)
        fn[in[0].dtype][out->dtype](out->data, in[0].data, k);
    else if (k > 0)
        memcpy(out->data, in[0].data, k * gr_dtype_bytes(out->dtype));
}

static enum vb_st cast_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    din_out[0] = n->in[0]->dtype == GR_F32 && n->dtype == GR_F32 ? dout : NULL;
    return VB_OK;
}

const struct gr_type op_cast = { .name = "cast",
                                 .nin = 1,
                                 .ints = cast_ints,
                                 .inplace_of = -1,
                                 .infer = cast_infer,
                                 .grad = cast_grad,
                                 .run = cast_run };
