/*
 * ops.h - a function for each op of graph.h: docs/ops.md says what each computes, takes and passes back. All give NULL
 * when they cannot (vb_graph_status says why), also for inputs that are NULL.
 */
#ifndef VERBENA_OPS_H
#define VERBENA_OPS_H

#include "verbena/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define VB_OP1(name) \
    static inline struct vb_node *vb_##name(struct vb_graph *g, struct vb_node *x) \
    { return vb_op(g, #name, NULL, &x, 1, NULL, 0); }
#define VB_OP2(name) \
    static inline struct vb_node *vb_##name(struct vb_graph *g, struct vb_node *a, struct vb_node *b) \
    { struct vb_node *in[] = { a, b }; return vb_op(g, #name, NULL, in, 2, NULL, 0); }

/* element by element; binary ones repeat what is 1 or missing, as numpy does */
VB_OP1(neg) VB_OP1(abs) VB_OP1(sign) VB_OP1(exp) VB_OP1(log) VB_OP1(sqrt) VB_OP1(square) VB_OP1(tanh)
VB_OP1(sigmoid) VB_OP1(gelu) VB_OP1(relu) VB_OP1(floor) VB_OP1(identity)
VB_OP2(add) VB_OP2(sub) VB_OP2(mul) VB_OP2(div) VB_OP2(maximum) VB_OP2(minimum)
VB_OP2(equal) VB_OP2(not_equal) VB_OP2(less) VB_OP2(less_equal) VB_OP2(greater) VB_OP2(greater_equal)
VB_OP2(pow) VB_OP2(logical_and) VB_OP2(logical_or) VB_OP1(logical_not)

/* over the last dimension */
VB_OP1(softmax) VB_OP1(log_softmax)
/* logits [..., classes], labels i32 [...]: the sum over rows */
VB_OP2(softmax_cross_entropy)
VB_OP2(sigmoid_cross_entropy) /* logits, targets in [0, 1]: the sum over elements */
VB_OP2(squared_error) /* of equal shapes: the sum of (a - b)^2 */
VB_OP2(bias_add)      /* x [..., n], b [n] */
VB_OP2(gather)        /* table [n, ...], indices i32: rows of the table */
VB_OP2(pick)          /* x [..., n], places i32 [..., k]: x at these places of its last dimension */
VB_OP2(assert)        /* x, cond: x; a run in which not all of cond is true fails and names the node */
/* variables: written, and given as they are then */
VB_OP2(assign) VB_OP2(assign_add) VB_OP2(assign_sub)
#undef VB_OP1
#undef VB_OP2
    /* clang-format on */

    /* Products of matrices, each transposed where asked for; leading dimensions are rows, or products of their own. */
    static inline struct vb_node *vb_matmul_t(struct vb_graph *g, struct vb_node *a,
                                              struct vb_node *b, bool ta, bool tb)
{
    struct vb_node *in[] = { a, b };
    const struct vb_attr attr[] = { { "ta", ta, 0 }, { "tb", tb, 0 } };

    return vb_op(g, "matmul", NULL, in, 2, attr, 2);
}

static inline struct vb_node *vb_matmul(struct vb_graph *g, struct vb_node *a, struct vb_node *b)
{
    return vb_matmul_t(g, a, b, false, false);
}

/* q [..., n, d], k [..., m, d], v [..., m, e], leading dimensions equal: softmax(q k^T / sqrt(d)) v (Vaswani et al. 2017).
 * causal: the last row of q sees all of k, each before it one fewer. */
static inline struct vb_node *vb_attention(struct vb_graph *g, struct vb_node *q, struct vb_node *k,
                                           struct vb_node *v, bool causal)
{
    const struct vb_shape s = q != NULL ? vb_node_shape(q) : (struct vb_shape){ 0, { 0 } };
    const int64_t dim = s.rank > 0 ? (int64_t)s.dim[s.rank - 1] : 0;
    const struct vb_attr attr[] = { { "causal", causal, 0 }, { "dim", dim, 0 } };
    struct vb_node *score = vb_matmul_t(g, q, k, false, true);

    return vb_matmul(g, vb_op(g, "softmax", NULL, &score, 1, attr, 2), v);
}

/* Over the last dimension, then times gain and plus bias, each as long as it. */
static inline struct vb_node *vb_layer_norm(struct vb_graph *g, struct vb_node *x,
                                            struct vb_node *gain, struct vb_node *bias, double eps)
{
    struct vb_node *in[] = { x, gain, bias };
    const struct vb_attr attr[] = { { "eps", 0, eps } };

    return vb_op(g, "layer_norm", NULL, in, 3, attr, 1);
}

/* Over all rows of each column of x [..., n]; mean and variance [n]: given, or both NULL: those of x. */
static inline struct vb_node *vb_batch_norm(struct vb_graph *g, struct vb_node *x,
                                            struct vb_node *gain, struct vb_node *bias,
                                            struct vb_node *mean, struct vb_node *variance,
                                            double eps)
{
    struct vb_node *in[] = { x, gain, bias, mean, variance };
    const struct vb_attr attr[] = { { "eps", 0, eps } };

    return vb_op(g, "batch_norm", NULL, in, mean != NULL || variance != NULL ? 5 : 3, attr, 1);
}

/* Each element is 0 with the probability rate, else divided by 1 - rate; other ones in each run. */
static inline struct vb_node *vb_dropout(struct vb_graph *g, struct vb_node *x, double rate,
                                         int64_t seed)
{
    const struct vb_attr attr[] = { { "rate", 0, rate }, { "seed", seed, 0 } };

    return vb_op(g, "dropout", NULL, &x, 1, attr, 2);
}

/* op: "random_uniform" in [0, 1), "random_normal"; other numbers in each run. */
static inline struct vb_node *vb_random(struct vb_graph *g, const char *op, struct vb_shape shape,
                                        int64_t seed)
{
    static const char *const name[] = { "dim0", "dim1", "dim2", "dim3", "dim4", "dim5" };
    struct vb_attr attr[VB_RANK_MAX + 2] = { { "rank", shape.rank, 0 }, { "seed", seed, 0 } };

    for (unsigned i = 0; i < shape.rank && i < VB_RANK_MAX; i++)
        attr[i + 2] = (struct vb_attr){ name[i], (int64_t)shape.dim[i], 0 };
    return vb_op(g, op, NULL, NULL, 0, attr, 2 + shape.rank);
}

/* x * factor + offset */
static inline struct vb_node *vb_scale(struct vb_graph *g, struct vb_node *x, double factor,
                                       double offset)
{
    const struct vb_attr attr[] = { { "factor", 0, factor }, { "offset", 0, offset } };

    return vb_op(g, "scale", NULL, &x, 1, attr, 2);
}

static inline struct vb_node *vb_select(struct vb_graph *g, struct vb_node *cond, struct vb_node *a,
                                        struct vb_node *b)
{
    struct vb_node *in[] = { cond, a, b };

    return vb_op(g, "select", NULL, in, 3, NULL, 0);
}

static inline struct vb_node *vb_cast(struct vb_graph *g, struct vb_node *x, enum vb_dtype type)
{
    const struct vb_attr attr[] = { { "type", type, 0 } };

    return vb_op(g, "cast", NULL, &x, 1, attr, 1);
}

/* op: "reduce_sum", "reduce_mean", "reduce_max", "reduce_min". axes: bit i for dimension i, 0: all. */
static inline struct vb_node *vb_reduce(struct vb_graph *g, const char *op, struct vb_node *x,
                                        unsigned axes, bool keep)
{
    const struct vb_attr attr[] = { { "axes", axes, 0 }, { "keep", keep, 0 } };

    return vb_op(g, op, NULL, &x, 1, attr, 2);
}

/* i32: the place of the largest along this dimension, counted from the end when it is negative. */
static inline struct vb_node *vb_argmax(struct vb_graph *g, struct vb_node *x, int axis)
{
    const struct vb_attr attr[] = { { "axis", axis, 0 } };

    return vb_op(g, "argmax", NULL, &x, 1, attr, 1);
}

/* i32: the places of the k largest of the last dimension, largest first; vb_pick gives the values. */
static inline struct vb_node *vb_top_k(struct vb_graph *g, struct vb_node *x, int64_t k)
{
    const struct vb_attr attr[] = { { "k", k, 0 } };

    return vb_op(g, "top_k", NULL, &x, 1, attr, 1);
}

/* Over images [rows, height, width, channels]; zeros are the defaults. What lies around the image is before and after it,
 * in height and width, fewer than the window has; or what same needs: results of ceil(size / stride). */
struct vb_window {
    int64_t size[2];   /* of pools; a convolution's is that of its weights */
    int64_t stride[2]; /* 0: 1, of pools the size */
    bool same;
    int64_t before[2], after[2];
};

static inline struct vb_node *vb_windowed(struct vb_graph *g, const char *op,
                                          struct vb_node *const *in, unsigned nin,
                                          const struct vb_window *w)
{
    const struct vb_attr attr[] = {
        { "stride_h", w->stride[0], 0 }, { "stride_w", w->stride[1], 0 },
        { "same", w->same, 0 },          { "top", w->before[0], 0 },
        { "bottom", w->after[0], 0 },    { "left", w->before[1], 0 },
        { "right", w->after[1], 0 },     { "size_h", w->size[0], 0 },
        { "size_w", w->size[1], 0 }
    };

    return vb_op(g, op, NULL, in, nin, attr, nin == 1 ? 9 : 7);
}

/* weights [height, width, channels of x, channels of the result] */
static inline struct vb_node *vb_conv2d(struct vb_graph *g, struct vb_node *x,
                                        struct vb_node *weights, struct vb_window w)
{
    struct vb_node *in[] = { x, weights };

    return vb_windowed(g, "conv2d", in, 2, &w);
}

static inline struct vb_node *vb_max_pool2d(struct vb_graph *g, struct vb_node *x,
                                            struct vb_window w)
{
    return vb_windowed(g, "max_pool2d", &x, 1, &w);
}

/* Of what lies inside the image. */
static inline struct vb_node *vb_avg_pool2d(struct vb_graph *g, struct vb_node *x,
                                            struct vb_window w)
{
    return vb_windowed(g, "avg_pool2d", &x, 1, &w);
}

/* x; each run writes a line with name, shape and the first `most` values (0: 8) on stderr. name NULL: made. */
static inline struct vb_node *vb_print(struct vb_graph *g, const char *name, struct vb_node *x,
                                       int64_t most)
{
    const struct vb_attr attr[] = { { "most", most, 0 } };

    return vb_op(g, "print", name, &x, 1, attr, 1);
}

static inline struct vb_node *vb_one_hot(struct vb_graph *g, struct vb_node *indices, int64_t depth)
{
    const struct vb_attr attr[] = { { "depth", depth, 0 } };

    return vb_op(g, "one_hot", NULL, &indices, 1, attr, 1);
}

/* Along one dimension; n up to VB_IN_MAX. */
static inline struct vb_node *vb_concat(struct vb_graph *g, struct vb_node *const *x, unsigned n,
                                        unsigned axis)
{
    const struct vb_attr attr[] = { { "axis", axis, 0 } };

    return vb_op(g, "concat", NULL, x, n, attr, 1);
}

/* dim: rank numbers; the first is -1 where it is the batch, else one may be -1: what is left. */
static inline struct vb_node *vb_reshape(struct vb_graph *g, struct vb_node *x, unsigned rank,
                                         const int64_t *dim)
{
    static const char *const name[] = { "dim0", "dim1", "dim2", "dim3", "dim4", "dim5" };
    struct vb_attr attr[VB_RANK_MAX + 1] = { { "rank", rank, 0 } };

    for (unsigned i = 0; i < rank && i < VB_RANK_MAX; i++)
        attr[i + 1] = (struct vb_attr){ name[i], dim[i], 0 };
    return vb_op(g, "reshape", NULL, &x, 1, attr, 1 + (rank < VB_RANK_MAX ? rank : VB_RANK_MAX));
}

/* Dimension i of the result is perm[i] of x. */
static inline struct vb_node *vb_transpose(struct vb_graph *g, struct vb_node *x,
                                           const int64_t *perm)
{
    static const char *const name[] = { "perm0", "perm1", "perm2", "perm3", "perm4", "perm5" };
    const unsigned rank = x != NULL ? vb_node_shape(x).rank : 0;
    struct vb_attr attr[VB_RANK_MAX];

    for (unsigned i = 0; i < rank; i++)
        attr[i] = (struct vb_attr){ name[i], perm[i], 0 };
    return vb_op(g, "transpose", NULL, &x, 1, attr, rank);
}

/* size -1: the rest of that dimension; of the batch begin 0 and size -1. */
static inline struct vb_node *vb_slice(struct vb_graph *g, struct vb_node *x, const int64_t *begin,
                                       const int64_t *size)
{
    static const char *const name[] = { "begin0", "begin1", "begin2", "begin3", "begin4", "begin5",
                                        "size0",  "size1",  "size2",  "size3",  "size4",  "size5" };
    const unsigned rank = x != NULL ? vb_node_shape(x).rank : 0;
    struct vb_attr attr[2 * VB_RANK_MAX];

    for (unsigned i = 0; i < rank; i++) {
        attr[i] = (struct vb_attr){ name[i], begin[i], 0 };
        attr[rank + i] = (struct vb_attr){ name[VB_RANK_MAX + i], size[i], 0 };
    }
    return vb_op(g, "slice", NULL, &x, 1, attr, 2 * rank);
}

/* before[i] and after[i] elements of value around dimension i; the batch none. */
static inline struct vb_node *vb_pad(struct vb_graph *g, struct vb_node *x, const int64_t *before,
                                     const int64_t *after, double value)
{
    static const char *const name[] = { "before0", "before1", "before2", "before3",
                                        "before4", "before5", "after0",  "after1",
                                        "after2",  "after3",  "after4",  "after5" };
    const unsigned rank = x != NULL ? vb_node_shape(x).rank : 0;
    struct vb_attr attr[2 * VB_RANK_MAX + 1] = { { "value", 0, value } };

    for (unsigned i = 0; i < rank; i++) {
        attr[2 * i + 1] = (struct vb_attr){ name[i], before[i], 0 };
        attr[2 * i + 2] = (struct vb_attr){ name[VB_RANK_MAX + i], after[i], 0 };
    }
    return vb_op(g, "pad", NULL, &x, 1, attr, 2 * rank + 1);
}

/* What an optimizer of a job is called without apply_, and its settings; schedule: 0 constant, 1 step, 2 cosine, 3 rsqrt. */
struct vb_optimizer {
    const char *op; /* "apply_adam" */
    double rate, beta1, beta2, eps, weight_decay, clip, gamma, floor, beta, l1, l2;
    int64_t schedule, warmup, every;
};

/* A step of the variable; its state: further variables like it, 0 to 2 of them, zero at first (docs/ops.md). gradient: a sum over
 * so many samples; step from 1; both scalars, as is rate, which may be NULL. Gives the variable as it is then. */
static inline struct vb_node *vb_apply(struct vb_graph *g, const struct vb_optimizer *o,
                                       struct vb_node *variable, struct vb_node *const *state,
                                       unsigned nstate, struct vb_node *gradient,
                                       struct vb_node *samples, struct vb_node *step,
                                       struct vb_node *rate)
{
    const struct vb_attr attr[] = { { "rate", 0, o->rate },
                                    { "beta1", 0, o->beta1 },
                                    { "beta2", 0, o->beta2 },
                                    { "eps", 0, o->eps },
                                    { "weight_decay", 0, o->weight_decay },
                                    { "clip", 0, o->clip },
                                    { "gamma", 0, o->gamma },
                                    { "floor", 0, o->floor },
                                    { "beta", 0, o->beta },
                                    { "l1", 0, o->l1 },
                                    { "l2", 0, o->l2 },
                                    { "schedule", o->schedule, 0 },
                                    { "warmup", o->warmup, 0 },
                                    { "every", o->every, 0 } };
    struct vb_node *in[VB_IN_MAX] = { variable };
    unsigned n = 1;

    for (unsigned i = 0; i < nstate && i < 2; i++)
        in[n++] = state[i];
    in[n++] = gradient;
    in[n++] = samples;
    in[n++] = step;
    in[n] = rate;
    return vb_op(g, o->op, NULL, in, rate != NULL ? n + 1 : n, attr, 14);
}

/* A moving average: variable += share * (x - variable). */
static inline struct vb_node *vb_moving(struct vb_graph *g, struct vb_node *variable,
                                        struct vb_node *x, double share)
{
    return vb_assign_add(g, variable, vb_scale(g, vb_sub(g, x, variable), share, 0));
}

#ifdef __cplusplus
}
#endif

#endif
