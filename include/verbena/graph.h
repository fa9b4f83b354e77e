/*
 * graph.h - building a dataflow graph: nodes are ops, edges are tensors (immutable values with a type and a shape),
 * variables are named state that outlives a run. session.h runs it, ops.h has a function for each op.
 *
 * Functions that make nodes return NULL when they cannot, also when an input is NULL; the first reason is kept and
 * vb_graph_status says it. So a whole graph is built first, and checked once:
 *
 *     struct vb_graph *g = vb_graph_new();
 *     struct vb_node *x = vb_placeholder(g, "x", VB_F32, VB_SHAPE(VB_BATCH, 784));
 *     struct vb_node *w = vb_variable(g, "w", VB_SHAPE(784, 10), NULL);
 *     struct vb_node *y = vb_matmul(g, x, w);
 *     if (vb_graph_status(g, &why) != VB_OK) ...
 *
 * Nodes belong to their graph. Thread: one at a time for each graph.
 */
#ifndef VERBENA_GRAPH_H
#define VERBENA_GRAPH_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vb_graph;
struct vb_node;

enum vb_dtype { VB_F32, VB_I32, VB_I64, VB_BOOL }; /* bool: a byte, 0 or 1 */

enum { VB_RANK_MAX = 6 };
#define VB_BATCH UINT64_MAX /* the first dimension of what is fed, known only in a run */

/* rank 0: a scalar. Row-major: the last dimension is contiguous. */
struct vb_shape {
    uint32_t rank;
    uint64_t dim[VB_RANK_MAX];
};
#define VB_SHAPE(...)                                                                              \
    ((struct vb_shape){ sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), { __VA_ARGS__ } })
#define VB_SCALAR ((struct vb_shape){ 0, { 0 } })

/* NULL: no memory. gives: vb_graph_free, after all its sessions are closed. */
VB_EXPORT struct vb_graph *vb_graph_new(void);
VB_EXPORT void vb_graph_free(struct vb_graph *g); /* takes NULL */

/* VB_OK, or why the first node could not be made (why_out may be NULL; one line that stays the graph's). */
VB_EXPORT enum vb_st vb_graph_status(const struct vb_graph *g, const char **why_out);

/* Where nodes made from now on run: "/job:ps/task:0", "/job:worker/task:1/cpu:0"; parts may be left out, NULL or ""
 * leaves all to the system. */
VB_EXPORT void vb_graph_device(struct vb_graph *g, const char *device);

/* ---- leaves; a name is unique in the graph ---- */

/* A value that each run is given. Only its first dimension may be VB_BATCH. */
VB_EXPORT struct vb_node *vb_placeholder(struct vb_graph *g, const char *name, enum vb_dtype type,
                                         struct vb_shape shape);
/* State of floats. initial: its value before the first run, copied; NULL: zeros. */
VB_EXPORT struct vb_node *vb_variable(struct vb_graph *g, const char *name, struct vb_shape shape,
                                      const float *initial);
/* data is copied. */
VB_EXPORT struct vb_node *vb_constant(struct vb_graph *g, enum vb_dtype type, struct vb_shape shape,
                                      const void *data);

/* ---- ops ---- */

/* A setting of an op, by the names of docs/ops.md: i where it is a whole number, else f. */
struct vb_attr {
    const char *name;
    int64_t i;
    double f;
};
enum { VB_IN_MAX = 8 };

/* Any op by its name. node_name NULL: made from op and number. */
VB_EXPORT struct vb_node *vb_op(struct vb_graph *g, const char *op, const char *node_name,
                                struct vb_node *const *in, unsigned nin, const struct vb_attr *attr,
                                unsigned nattr);

/* n runs after `before`, whatever it reads; both stay NULL-safe. */
VB_EXPORT void vb_after(struct vb_graph *g, struct vb_node *n, struct vb_node *before);

/* Nodes for d(loss)/d(x[i]) into grad_out[i]; loss is a scalar, x are variables or any other nodes. False: one has no
 * gradient, and vb_graph_status says why. */
VB_EXPORT bool vb_gradients(struct vb_graph *g, struct vb_node *loss, struct vb_node *const *x,
                            unsigned nx, struct vb_node **grad_out);

/* ---- looking at it ---- */

VB_EXPORT struct vb_node *vb_find(const struct vb_graph *g, const char *name); /* NULL: none */
VB_EXPORT const char *vb_node_name(const struct vb_node *n);
VB_EXPORT enum vb_dtype vb_node_dtype(const struct vb_node *n);
VB_EXPORT struct vb_shape vb_node_shape(const struct vb_node *n);

#ifdef __cplusplus
}
#endif

#endif
