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

#include "kernels/optim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KN_SUM_MAX = 1024 }; /* most gradients in one sum */

/* What a gradient is made of. Sums are in float whatever it is. */
enum kn_type { KN_F32, KN_F16, KN_BF16 };

struct kn_grads {
    enum kn_type type;
    size_t n; /* 1 to KN_SUM_MAX arrays */
    union {
        const float *const *f32;
        const uint16_t *const *half; /* KN_F16, KN_BF16 */
    };
};

/* Floats in one sum of squares: what variables and chunks are aligned to. */
enum { KN_SQ_GROUP = 16 };

struct kn_ops {
    const char *name; /* "ref", "avx2", "avx512" */

    /*
     * The one sum and the optimizer in one pass: every gradient is read once, every parameter and
     * state read and written once. g[0..ng) are added as a binary tree over neighbours: (g0 + g1) +
     * (g2 + g3) ...; where a level is odd its last node passes up unchanged. ng >= 1. m, v: state
     * arrays of n (NULL where the optimizer has none). Formulas: optim.h. false: a sum was infinite or
     * a NaN, so some gradient had one or all together were too large; what it made of the parameters stands.
     */
    bool (*apply)(float *restrict w, float *restrict m, float *restrict v, const float *const *g,
                  size_t ng, const struct kn_opt *o, const struct kn_step *s, size_t n);
    /* The same for gradients of any type: 16-bit ones are widened block by block, then added. */
    bool (*apply_any)(float *restrict w, float *restrict m, float *restrict v,
                      const struct kn_grads *g, const struct kn_opt *o, const struct kn_step *s,
                      size_t n);

    /*
     * Sums of squares of elements [at, at + n): one double per KN_SQ_GROUP of them from `at` on (the
     * last group may be short), (x0^2 + x8^2) + (x4^2 + x12^2) ... as a tree over halves. sq: of
     * scale * (tree sum). lamb_sq: of w and of lamb's u as optim.h has it; changes no state. For the
     * sum over all groups: kn_sq_norm, kn_lamb_norms.
     */
    void (*sq)(double *restrict out, const struct kn_grads *g, float scale, size_t at, size_t n);
    void (*lamb_sq)(double *restrict w_out, double *restrict u_out, const float *restrict w,
                    const float *restrict m, const float *restrict v, const struct kn_grads *g,
                    const struct kn_opt *o, const struct kn_step *s, size_t at, size_t n);

    /* No infinity and no NaN in x[0..n). */
    bool (*all_finite)(const void *x, enum kn_type type, size_t n);
    /* To and from 16 bits (KN_F16, KN_BF16): nearest, ties to even; overflow gives infinity; a NaN
     * stays a NaN with its sign. widen is exact. */
    void (*narrow)(uint16_t *restrict y, const float *restrict x, enum kn_type type, size_t n);
    void (*widen)(float *restrict y, const uint16_t *restrict x, enum kn_type type, size_t n);

    /* y[i] = g[i] + c * ((g[i] * g[i]) * (w[i] - old[i])): delay compensation (Zheng et al. 2017) */
    void (*compensate)(float *restrict y, const float *g, const float *w, const float *old, float c,
                       size_t n);
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

extern const struct kn_ops kn_ref; /* the definition: plain C, no vector flags */
/* The same source built for AVX2 and F16C, and for AVX-512 (F, BW, DQ, VL) too; not on every CPU. */
extern const struct kn_ops kn_avx2, kn_avx512;
/* Whether this CPU has what a table is built for. */
bool kn_can_run(const struct kn_ops *k);

/* The best table for this CPU. VB_KERNELS=ref|avx2|avx512 forces one (an impossible one is ignored). */
const struct kn_ops *kn_best(void);

/*
 * sum += squares of the n scaled sums of g: what the global norm is made of. The sum is exact over groups
 * of KN_SQ_GROUP elements, each a double rounded in a fixed order. So when pieces begin at multiples
 * of KN_SQ_GROUP of the line (chunks and variables do), the total has the same bits for any cut into
 * chunks, lanes and ps, merged in any order.
 */
void kn_sq_norm(struct kn_exact *sum, const struct kn_ops *k, const struct kn_grads *g, float scale,
                size_t n);
/* w_sum += squares of w, u_sum += squares of lamb's u, for a piece of one variable; the same holds. */
void kn_lamb_norms(struct kn_exact *w_sum, struct kn_exact *u_sum, const struct kn_ops *k,
                   const float *w, const float *m, const float *v, const struct kn_grads *g,
                   const struct kn_opt *o, const struct kn_step *s, size_t n);

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
