#include "ops/check.h"

#include "ops/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum vb_st op_misfit(const struct gr_node *n, const char *why, struct vb_err *err)
{
    char shapes[GR_IN_MAX * (GR_SHAPE_TEXT + 3)] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < n->nin; i++) {
        char one[GR_SHAPE_TEXT];

        gr_shape_str(n->in[i]->shape, one, sizeof(one));
        at += (size_t)snprintf(shapes + at, sizeof(shapes) - at, "%s%s", i > 0 ? " x " : "", one);
    }
    vb_err_set(err, "%s: %s, %s", n->type->name, why, shapes);
    return VB_INVAL;
}

enum vb_st op_want(const struct gr_node *n, uint32_t i, enum gr_dtype dtype, uint32_t rank,
                   struct vb_err *err)
{
    char why[96];

    if (n->in[i]->dtype != dtype)
        snprintf(why, sizeof(why), "input %" PRIu32 " is %s where %s is needed", i,
                 gr_dtype_name(n->in[i]->dtype), gr_dtype_name(dtype));
    else if (n->in[i]->shape.rank != rank)
        snprintf(why, sizeof(why),
                 "input %" PRIu32 " has rank %" PRIu32 " where %" PRIu32 " is needed", i,
                 n->in[i]->shape.rank, rank);
    else
        return VB_OK;
    return op_misfit(n, why, err);
}

enum vb_st op_same(const struct gr_node *n, uint32_t from, uint32_t types, struct vb_err *err)
{
    const enum gr_dtype t = n->in[from]->dtype;
    char why[96];

    if ((types >> t & 1) == 0) {
        snprintf(why, sizeof(why), "input %" PRIu32 " is %s, which it does not take", from,
                 gr_dtype_name(t));
        return op_misfit(n, why, err);
    }
    for (uint32_t i = from + 1; i < n->nin; i++)
        if (n->in[i]->dtype != t) {
            snprintf(why, sizeof(why), "input %" PRIu32 " is %s where %s is needed", i,
                     gr_dtype_name(n->in[i]->dtype), gr_dtype_name(t));
            return op_misfit(n, why, err);
        }
    return VB_OK;
}

enum vb_st op_two(struct graph *g, const struct gr_type *t, struct gr_node *a, struct gr_node *b,
                  struct gr_node **out, struct vb_err *err)
{
    return gr_add(g, t, NULL, (struct gr_node *[]){ a, b }, NULL, out, err);
}

enum vb_st op_scaled(struct graph *g, struct gr_node *x, double factor, double offset,
                     struct gr_node **out, struct vb_err *err)
{
    const struct gr_attr a = { .f = { factor, offset } };

    return gr_add(g, &op_scale, NULL, &x, &a, out, err);
}

enum vb_st op_zero(struct graph *g, enum gr_dtype dtype, struct gr_node **out, struct vb_err *err)
{
    return gr_add_constant(g, NULL, dtype, (struct gr_shape){ 0 }, NULL, out, err);
}

bool op_inside(const struct gr_node *n, const int32_t *index, size_t k, uint64_t rows,
               struct gr_run *r)
{
    for (size_t i = 0; i < k; i++)
        if (index[i] < 0 || (uint64_t)index[i] >= rows) {
            if (r->err != NULL)
                vb_err_set(r->err, "'%s': index %zu is %" PRId32 ", not in [0, %" PRIu64 ")",
                           n->name, i, index[i], rows);
            r->failed = true;
            return false;
        }
    return true;
}

void op_fail(const struct gr_node *n, struct gr_run *r, const char *why)
{
    if (r->err != NULL)
        vb_err_set(r->err, "'%s': %s", n->name, why);
    r->failed = true;
}

void op_pass(const struct gr_tensor *in, struct gr_tensor *out)
{
    const size_t bytes = gr_elems(out->shape, 0) * gr_dtype_bytes(out->dtype);

    if (out->data != in->data && bytes > 0)
        memcpy(out->data, in->data, bytes);
}
