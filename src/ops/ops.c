#include "ops/ops.h"

#include <string.h>

const struct gr_type *const op_all[] = {
    &op_abs,
    &op_add,
    &op_argmax,
    &op_assign,
    &op_assign_add,
    &op_assign_sub,
    &op_bias_add,
    &op_cast,
    &op_col_sum,
    &op_concat,
    &op_div,
    &op_equal,
    &op_exp,
    &op_floor,
    &op_gather,
    &op_gather_grad,
    &op_gelu,
    &op_gelu_grad,
    &op_greater,
    &op_greater_equal,
    &op_identity,
    &op_less,
    &op_less_equal,
    &op_log,
    &op_log_softmax,
    &op_log_softmax_grad,
    &op_matmul,
    &op_maximum,
    &op_minimum,
    &op_mul,
    &op_neg,
    &op_not_equal,
    &op_one_hot,
    &op_reduce_max,
    &op_reduce_mean,
    &op_reduce_sum,
    &op_relu,
    &op_relu_grad,
    &op_reshape,
    &op_scale,
    &op_select,
    &op_sigmoid,
    &op_sigmoid_grad,
    &op_sign,
    &op_slice,
    &op_slice_grad,
    &op_softmax,
    &op_softmax_cross_entropy,
    &op_softmax_cross_entropy_grad,
    &op_softmax_grad,
    &op_spread,
    &op_sqrt,
    &op_square,
    &op_sub,
    &op_sum_to,
    &op_tanh,
    &op_tanh_grad,
    &op_transpose,
    NULL,
};

const struct gr_type *op_find(const char *name)
{
    for (const struct gr_type *const *t = op_all; *t != NULL; t++)
        if (strcmp((*t)->name, name) == 0)
            return *t;
    return NULL;
}
