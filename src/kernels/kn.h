/*
 * kn.h - kernels: pure functions over arrays, through a table chosen once for this CPU.
 *
 * Outputs first, then inputs, then sizes. Any size including 0, any alignment of 4 bytes. No
 * allocation, no logging, no globals. Arrays do not overlap unless said. Every entry of every table
 * gives the same bits as `kn_ref` (built with -ffp-contract=off; sums in the order written here).
 * Thread: any.
 */
#ifndef KERNELS_KN_H
#define KERNELS_KN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KN_SUM_MAX = 1024 }; /* most gradients in one sum */

enum kn_opt_kind { KN_SGD, KN_MOMENTUM, KN_ADAM };

/*
 * One optimizer step. With g = scale * (tree sum of the gradients):
 *   sgd       w -= rate * g
 *   momentum  m = beta1 * m + g;  w -= rate * m                       (Polyak 1964; no dampening)
 *   adam      m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * (g * g)
 *             w -= rate_t * m / (sqrt(v) * inv_c2 + eps)           (Kingma & Ba 2015, algorithm 1)
 *             where rate_t = rate / (1 - beta1^t), inv_c2 = 1 / sqrt(1 - beta2^t), t from 1
 * All in float, each operation rounded once, in the order written (left to right).
 */
struct kn_opt {
    enum kn_opt_kind kind;
    float rate, beta1, beta2, eps;
};

/* Floats of optimizer state per parameter: 0, 1 (m), 2 (m then v, each n long). */
size_t kn_opt_state(enum kn_opt_kind kind);

/* What differs from step to step; made by kn_opt_step in double, then rounded once to float. */
struct kn_step {
    float scale;          /* 1 / samples; 0 when there are none */
    float rate_t, inv_c2; /* adam */
};
struct kn_step kn_opt_step(const struct kn_opt *o, uint64_t t, uint64_t samples);

struct kn_ops {
    const char *name; /* "ref", "avx2" */

    /*
     * The one sum and the optimizer in one pass: every gradient is read once, every parameter and
     * state read and written once. g[0..ng) are added as a binary tree over neighbours: (g0 + g1) +
     * (g2 + g3) ...; where a level is odd its last node passes up unchanged. ng >= 1. m, v: state
     * arrays of n (NULL where the optimizer has none).
     */
    void (*apply)(float *restrict w, float *restrict m, float *restrict v, const float *const *g,
                  size_t ng, const struct kn_opt *o, const struct kn_step *s, size_t n);

    /* y[i] += x[i] */
    void (*add)(float *restrict y, const float *restrict x, size_t n);
    /* y[r][c] = x[r][c] + b[c]; y may be x. */
    void (*bias_add)(float *y, const float *x, const float *restrict b, size_t rows, size_t cols);
    /* y[c] = sum over r of x[r][c], rows added in index order, from row 0 on (no rows: zeros). */
    void (*col_sum)(float *restrict y, const float *restrict x, size_t rows, size_t cols);
    /* y[i] = x[i] > 0 ? x[i] : 0; y may be x. */
    void (*relu)(float *y, const float *x, size_t n);
    /* dx[i] = y[i] > 0 ? dy[i] : 0, y the output of relu; dx may be dy. */
    void (*relu_grad)(float *dx, const float *dy, const float *restrict y, size_t n);
    /* y[i] = (x[i] * scale - shift), x bytes: normalisation of pixels. */
    void (*from_u8)(float *restrict y, const uint8_t *restrict x, float scale, float shift,
                    size_t n);
};

extern const struct kn_ops kn_ref;  /* the definition: plain C, no vector flags */
extern const struct kn_ops kn_avx2; /* the same source built for AVX2; only where the CPU has it */

/* The best table for this CPU. VB_KERNELS=ref|avx2 forces one (an impossible one is ignored). */
const struct kn_ops *kn_best(void);

/*
 * loss[0] = sum over rows of -log softmax(x[r])[label[r]]; the sum over rows is in index order, in
 * double, rounded once. Labels are checked by the caller: 0 <= label < cols.
 */
void kn_softmax_xent(float *loss, const float *x, const int32_t *label, size_t rows, size_t cols);
/* dx[r][c] = dloss * (softmax(x[r])[c] - (c == label[r])); dx may be x. */
void kn_softmax_xent_grad(float *dx, const float *x, const int32_t *label, float dloss, size_t rows,
                          size_t cols);
/* How many rows have their (first) largest element at label; a row with a NaN has not. */
size_t kn_count_correct(const float *x, const int32_t *label, size_t rows, size_t cols);

/* c[m][n] = op(a) * op(b), row-major and dense; ta: a is stored [k][m]; tb: b is stored [n][k].
 * BLAS (OpenBLAS). m, n, k are at most INT_MAX; zero is fine (k == 0: c is zeroed). */
void kn_gemm(float *c, const float *a, const float *b, bool ta, bool tb, size_t m, size_t n,
             size_t k);
/* Threads that kn_gemm may use in this process. */
void kn_gemm_threads(unsigned n);
/*
 * OpenBLAS 0.3.21 does not know newer CPUs and then runs its oldest kernels (2-4x slower). When
 * OPENBLAS_CORETYPE is not set and the library fell back to a core without AVX2 though the CPU has
 * it: the name of the right core type, else NULL. It is read when the library loads, so the caller
 * sets the variable and executes itself again.
 */
const char *kn_gemm_better_core(void);

#endif
