/*
 * broadcast.h - ops of two tensors element by element, whose shapes need not be equal: counted from the last
 * dimension, each is equal, or one of them is 1 or missing (as in numpy).
 */
#ifndef OPS_BROADCAST_H
#define OPS_BROADCAST_H

#include "graph/graph.h"

/* The shape of the result. VB_INVAL: they do not fit; err has both. */
enum vb_st bc_infer(struct gr_node *n, enum gr_dtype dtype, struct vb_err *err);

/* One row: n elements, sa and sb are 0 (the same element again and again) or 1. */
typedef void bc_row(void *out, const void *a, const void *b, size_t n, size_t sa, size_t sb);
void bc_run(const struct gr_tensor *in, struct gr_tensor *out, bc_row *row);

/* The gradient of in[i] where that of the result is x: summed over what was repeated. */
enum vb_st bc_sum_to(struct graph *g, struct gr_node *x, struct gr_node *like, struct gr_node **out,
                     struct vb_err *err);

#endif
