#include "ops/check.h"

#include <inttypes.h>
#include <stdio.h>

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
