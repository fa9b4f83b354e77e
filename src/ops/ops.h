/*
 * ops.h - the ops: one file each, listed in ops.c. Row-major, dense.
 *
 * A matrix is [rows, cols]; the batch, where there is one, is its first dimension. Gradients are
 * sums over samples. What each infers, computes and passes back is said at the top of its file.
 */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "graph/graph.h"

/* clang-format off */
extern const struct gr_type
    op_abs, op_add, op_apply_adagrad, op_apply_adam, op_apply_adamw, op_apply_ftrl, op_apply_lamb, op_apply_momentum, op_apply_nesterov, op_apply_rmsprop, op_apply_sgd,
    op_argmax, op_assert, op_assign, op_assign_add, op_assign_sub, op_avg_pool2d,
    op_avg_pool2d_grad, op_batch_norm, op_batch_norm_grad, op_bias_add,
    op_cast, op_col_sum, op_concat, op_conv2d, op_conv2d_grad_w, op_conv2d_grad_x, op_div, op_dropout, op_equal, op_exp, op_floor, op_gather,
    op_gather_grad, op_gelu, op_gelu_grad, op_greater, op_greater_equal, op_identity,
    op_layer_norm, op_layer_norm_grad, op_less, op_less_equal, op_log, op_log_softmax,
    op_log_softmax_grad, op_logical_and, op_logical_not, op_logical_or, op_matmul, op_max_pool2d, op_max_pool2d_grad, op_maximum,
    op_minimum, op_mul, op_neg, op_not_equal, op_one_hot, op_pad, op_pick, op_pick_grad, op_pow,
    op_print, op_random_normal, op_random_uniform, op_reduce_max, op_reduce_mean, op_reduce_min,
    op_reduce_sum, op_relu, op_relu_grad, op_reshape, op_scale, op_select, op_sigmoid,
    op_sigmoid_cross_entropy, op_sigmoid_grad, op_sign, op_slice, op_softmax, op_softmax_cross_entropy,
    op_softmax_cross_entropy_grad, op_softmax_grad, op_spread, op_sqrt, op_square,
    op_squared_error, op_sub, op_sum_to, op_tanh, op_tanh_grad, op_top_k, op_transpose;
/* clang-format on */

extern const struct gr_type *const op_all[]; /* in order of names, ends with NULL */

const struct gr_type *op_find(const char *name); /* NULL: none */

#endif
