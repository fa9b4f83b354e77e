/*
 * nd.h - loops over tensors of many dimensions, row by row. A loop has dimensions, and for each tensor how many of its
 * elements lie from one index to the next: 0 repeats the same. What can be one dimension is made one, so most loops are one
 * row, which the compiler turns into vectors.
 */
#ifndef OPS_ND_H
#define OPS_ND_H

#include "graph/graph.h"

enum { ND_TENSORS = 4, ND_RANK = GR_RANK_MAX + 1 };

struct nd {
    uint32_t tensors, rank;
    uint64_t dim[ND_RANK];
    size_t step[ND_RANK][ND_TENSORS];
};

/* A loop over these dimensions, all known, of no tensor yet. */
struct nd nd_over(const struct gr_shape *s);
/* One more tensor, dense, repeated where its shape has 1 or no dimension, counted from the last. */
void nd_add(struct nd *l, const struct gr_shape *s);
/* One more tensor, with steps of its own. */
void nd_add_steps(struct nd *l, const size_t *step);
/* Steps of a dense tensor. */
void nd_steps(const struct gr_shape *s, size_t *step_out);

/* One row: n elements of each tensor, step[t] apart. The first tensor is the result. */
typedef void nd_row(void *const *at, const size_t *step, size_t n);

/* Calls row for all rows; none when a dimension is 0. A row goes along the last dimension, or a longer one; each index
 * grows from first to last. bytes: of an element of each tensor. */
void nd_each(const struct nd *l, void *const *data, const size_t *bytes, nd_row *row);
/* out[...] = in[...], elements of 1, 4 or 8 bytes; l has these two tensors. */
void nd_copy(const struct nd *l, void *out, const void *in, size_t bytes);

/* Dimension i of rank, counted from the first: 1 where the shape has none. */
static inline uint64_t nd_dim(const struct gr_shape *s, uint32_t i, uint32_t rank)
{
    return i + s->rank < rank ? 1 : s->dim[i + s->rank - rank];
}

#endif
