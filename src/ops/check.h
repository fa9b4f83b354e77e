/*
 * check.h - what the ops share.
 */
#ifndef OPS_CHECK_H
#define OPS_CHECK_H

#include "graph/graph.h"

/* VB_INVAL, and err "matmul: <why>, [batch, 784] x [256, 128]" with the shapes of all inputs. */
enum vb_st op_misfit(const struct gr_node *n, const char *why, struct vb_err *err);

/* VB_INVAL unless input i has this dtype and rank. */
enum vb_st op_want(const struct gr_node *n, uint32_t i, enum gr_dtype dtype, uint32_t rank,
                   struct vb_err *err);

/* VB_INVAL unless inputs from `from` on have one type, of these: bits 1 << GR_F32 and so on. */
enum { OP_NUMBERS = 1 << GR_F32 | 1 << GR_I32 | 1 << GR_I64, OP_ANY = OP_NUMBERS | 1 << GR_BOOL };
enum vb_st op_same(const struct gr_node *n, uint32_t from, uint32_t types, struct vb_err *err);

/* What many gradients are made of: a node of type t on a and b. */
enum vb_st op_two(struct graph *g, const struct gr_type *t, struct gr_node *a, struct gr_node *b,
                  struct gr_node **out, struct vb_err *err);
/* x * factor + offset */
enum vb_st op_scaled(struct graph *g, struct gr_node *x, double factor, double offset,
                     struct gr_node **out, struct vb_err *err);
/* The constant 0 of this type, of rank 0. */
enum vb_st op_zero(struct graph *g, enum gr_dtype dtype, struct gr_node **out, struct vb_err *err);

/* false: index[0..k) is not all in [0, rows); the run has failed, and says where. */
bool op_inside(const struct gr_node *n, const int32_t *index, size_t k, uint64_t rows,
               struct gr_run *r);
/* The run has failed: "'conv1': <why>". */
void op_fail(const struct gr_node *n, struct gr_run *r, const char *why);
/* The output is the input: copied unless it has taken its place. */
void op_pass(const struct gr_tensor *in, struct gr_tensor *out);

#endif
