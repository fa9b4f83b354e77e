/*
 * broadcast.h - ops of several tensors element by element, whose shapes need not be equal: counted from the last
 * dimension, each is equal, or 1, or missing (as in numpy).
 */
#ifndef OPS_BROADCAST_H
#define OPS_BROADCAST_H

#include "ops/nd.h"

/* The shape of the result, of all inputs. VB_INVAL: they do not fit; err has all. */
enum vb_st bc_infer(struct gr_node *n, enum gr_dtype dtype, struct vb_err *err);

/* row: the result, then the inputs; steps are mostly 0 or 1. */
void bc_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
            nd_row *row);

/* The gradient of `like`, which was repeated to the shape of x: x summed over that. */
enum vb_st bc_sum_to(struct graph *g, struct gr_node *x, struct gr_node *like, struct gr_node **out,
                     struct vb_err *err);

/* out[i] = expr of x and y, elements of two inputs of one type: the body of a row. */
#define BC_ROW(to, type, expr)                                                                     \
    const type *a = at[1], *b = at[2];                                                             \
    to *o = at[0];                                                                                 \
    const size_t so = step[0], sa = step[1], sb = step[2];                                         \
                                                                                                   \
    if (so == 1 && sa == 1 && sb == 1)                                                             \
        for (size_t i = 0; i < n; i++) {                                                           \
            const type x = a[i], y = b[i];                                                         \
            o[i] = (to)(expr);                                                                     \
        }                                                                                          \
    else if (so == 1 && sa == 1 && sb == 0)                                                        \
        for (size_t i = 0; i < n; i++) {                                                           \
            const type x = a[i], y = b[0];                                                         \
            o[i] = (to)(expr);                                                                     \
        }                                                                                          \
    else if (so == 1 && sa == 0 && sb == 1)                                                        \
        for (size_t i = 0; i < n; i++) {                                                           \
            const type x = a[0], y = b[i];                                                         \
            o[i] = (to)(expr);                                                                     \
        }                                                                                          \
    else                                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            const type x = a[i * sa], y = b[i * sb];                                               \
            o[i * so] = (to)(expr);                                                                \
        }

#endif
