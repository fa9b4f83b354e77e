/*
 * harness.h - runs a graph twice: by the ops in float, and by a plain interpreter in double, which
 * is what the ops are compared with and what finite differences are taken of.
 */
#ifndef TESTS_OPS_HARNESS_H
#define TESTS_OPS_HARNESS_H

#include "graph/graph.h"

enum { H_NODES = 128, H_ELEMS = 1024 };

struct bench {
    struct graph *g;
    uint64_t batch;
    struct vb_err err;
    float f[H_NODES][H_ELEMS];
    double d[H_NODES][H_ELEMS];
    int32_t label[H_NODES][H_ELEMS];
};

struct bench *bench_new(uint64_t batch);
void bench_free(struct bench *b);

/* Leaves filled with values in [-1, 1) that keep away from 0 (labels: in [0, classes)). */
struct gr_node *bench_var(struct bench *b, const char *name, struct gr_shape shape);
struct gr_node *bench_input(struct bench *b, const char *name, struct gr_shape shape);
struct gr_node *bench_labels(struct bench *b, const char *name, uint64_t rows, uint64_t classes);

/* Adds a node and asserts that it fits; unused inputs NULL. */
struct gr_node *bench_op(struct bench *b, const struct gr_type *type, struct gr_node *in0,
                         struct gr_node *in1);
struct gr_node *bench_matmul(struct bench *b, struct gr_node *a, struct gr_node *c, bool ta,
                             bool tb);

struct gr_tensor bench_tensor(struct bench *b, const struct gr_node *n);
uint64_t bench_elems(const struct bench *b, const struct gr_node *n);
void bench_run(struct bench *b);                                /* every op, in float, into f */
double bench_eval(struct bench *b, const struct gr_node *loss); /* up to loss, in double, into d */

/*
 * Differentiates loss, runs, and asserts that every variable's gradient agrees with central
 * differences. Tolerance: differences are of doubles with step 1e-5: truncation about 1e-10 (third
 * derivatives of these losses are of order 1), cancellation about 1e-16 * loss / 1e-5 < 1e-9. What
 * remains is the rounding of the float side: sums of at most a few hundred products of size 1, 6e-8
 * each, and as many layers again behind them: 1e-5 of the largest gradient covers it and any wrong
 * factor or index does not pass.
 */
void bench_check_gradients(struct bench *b, struct gr_node *loss, struct gr_node *const *var,
                           uint32_t nvars);

#endif
