/*
 * select(cond bool, a, b) -> a where cond, else b; a and b broadcast to each other as in broadcast.h, and cond must have
 * the shape of the result. cast(x; type) -> x as another type: floats are cut to whole numbers, bool is "not 0".
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
    struct gr_node pair = { .type = n->type, .nin = 2, .in = { n->in[1], n->in[2] } };
    enum vb_st st = op_want(n, 0, GR_BOOL, n->in[0]->shape.rank, err);

    for (uint32_t i = 1; st == VB_OK && i < 3; i++)
        st = op_want(n, i, GR_F32, n->in[i]->shape.rank, err);
    if (st == VB_OK)
        st = bc_infer(&pair, GR_F32, err);
    if (st != VB_OK)
        return st;
    n->dtype = GR_F32;
    /* a scalar on one side or both takes the shape of cond */
    n->shape = pair.shape.rank == 0 ? n->in[0]->shape : pair.shape;
    return gr_shape_eq(n->in[0]->shape, n->shape)
               ? VB_OK
               : op_misfit(n, "the condition has not the shape of the result", err);
}

/* Both sides, one after the other: the second time only where cond is not set. */
static void take_row(void *out, const void *pa, const void *pb, size_t n, size_t sa, size_t sb)
{
    const unsigned char *cond = pa;
    const float *x = pb;
    float *o = out;

    for (size_t i = 0; i < n; i++)
        o[i] = cond[i * sa] != 0 ? x[i * sb] : o[i];
}

static void copy_row(void *out, const void *pa, const void *pb, size_t n, size_t sa, size_t sb)
{
    const float *x = pb;
    float *o = out;

    for (size_t i = 0; i < n; i++)
        o[i] = x[i * sb];
}

static void select_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    struct gr_tensor pair[2] = { in[0], in[2] };

    bc_run(pair, out, copy_row);
    pair[1] = in[1];
    bc_run(pair, out, take_row);
}

static enum vb_st select_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                              const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    const float none = 0;
    struct gr_node *zero = NULL, *x = NULL;
    enum vb_st st = gr_add_constant(g, NULL, GR_F32, (struct gr_shape){ 0 }, &none, &zero, err);

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

static double number_at(const struct gr_tensor *t, size_t i)
{
    switch (t->dtype) {
    case GR_F32:
        return (double)((const float *)t->data)[i];
    case GR_I32:
        return ((const int32_t *)t->data)[i];
    case GR_I64:
        return (double)((const int64_t *)t->data)[i];
    default:
        return ((const unsigned char *)t->data)[i] != 0;
    }
}

/* The nearest that the type has: NaN becomes 0. */
static double within(double x, double lo, double hi)
{
    return isnan(x) ? 0 : fmin(fmax(trunc(x), lo), hi);
}

static void cast_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const size_t k = gr_elems(out->shape, 0);

    if (in[0].dtype == out->dtype) {
        memcpy(out->data, in[0].data, k * gr_dtype_bytes(out->dtype));
        return;
    }
    for (size_t i = 0; i < k; i++) {
        const double x = number_at(&in[0], i);

        if (out->dtype == GR_F32)
            ((float *)out->data)[i] = (float)x;
        else if (out->dtype == GR_I32)
            ((int32_t *)out->data)[i] = (int32_t)within(x, INT32_MIN, INT32_MAX);
        else if (out->dtype == GR_I64)
            ((int64_t *)out->data)[i] = (int64_t)within(x, -0x1p63, 0x1p63 - 1024);
        else
            ((unsigned char *)out->data)[i] = x != 0;
    }
}

const struct gr_type op_cast = { .name = "cast",
                                 .nin = 1,
                                 .ints = cast_ints,
                                 .inplace_of = -1,
                                 .infer = cast_infer,
                                 .run = cast_run };
