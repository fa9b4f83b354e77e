/*
 * check.h - what the shape rules share.
 */
#ifndef OPS_CHECK_H
#define OPS_CHECK_H

#include "graph/graph.h"

/* VB_INVAL, and err "matmul: <why>, [batch, 784] x [256, 128]" with the shapes of all inputs. */
enum vb_st op_misfit(const struct gr_node *n, const char *why, struct vb_err *err);

/* VB_INVAL unless input i has this dtype and rank. */
enum vb_st op_want(const struct gr_node *n, uint32_t i, enum gr_dtype dtype, uint32_t rank,
                   struct vb_err *err);

#endif
