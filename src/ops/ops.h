/*
 * ops.h - the ops: one file each, listed in ops.c. All float, row-major, dense.
 *
 * A matrix is [rows, cols]; the batch, where there is one, is its first dimension. Gradients are
 * sums over samples. What each infers, computes and passes back is said at the top of its file.
 */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "graph/graph.h"

extern const struct gr_type op_add, op_bias_add, op_col_sum, op_matmul, op_relu, op_relu_grad,
    op_softmax_cross_entropy, op_softmax_cross_entropy_grad;

extern const struct gr_type *const op_all[]; /* in order of names, ends with NULL */

const struct gr_type *op_find(const char *name); /* NULL: none */

#endif
