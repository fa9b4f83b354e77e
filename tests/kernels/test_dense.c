/* Products and the classifier's loss against plain loops in double. */
#include "kernels/kn.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D_MAX = 70 };

static void fill(float *x, size_t n, uint64_t stream, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (vb_random_f32(5, stream, i) - 0.5f) * size;
}

static void check_gemm(bool ta, bool tb, size_t m, size_t n, size_t k)
{
    static float a[D_MAX * D_MAX], b[D_MAX * D_MAX], c[D_MAX * D_MAX + 1];

    fill(a, m * k, 1, 2.0f);
    fill(b, k * n, 2, 2.0f);
    for (size_t i = 0; i <= m * n; i++)
        c[i] = NAN; /* what was there must not matter */
    kn_gemm(c, a, b, ta, tb, m, n, k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;

            for (size_t l = 0; l < k; l++)
                sum += (double)(ta ? a[l * m + i] : a[i * k + l]) *
                       (double)(tb ? b[j * k + l] : b[l * n + j]);
            /* k products below 1, each rounded once and added with one rounding of a sum below k */
            cr_assert_float_eq(c[i * n + j], sum, 1.2e-7 * (double)(k * k + 1),
                               "%zu x %zu x %zu, transposed %d %d, at %zu %zu", m, n, k, ta, tb, i,
                               j);
        }
    cr_assert(isnan(c[m * n]), "wrote past the end");
}

Test(gemm, all_transpose_combinations_and_zero_sizes)
{
    static const size_t dims[] = { 0, 1, 2, 5, 8, 33, 70 };

    kn_gemm_threads(1);
    for (size_t i = 0; i < VB_ARRAY_LEN(dims); i++)
        for (size_t j = 0; j < VB_ARRAY_LEN(dims); j++)
            for (size_t l = 0; l < VB_ARRAY_LEN(dims); l++)
                for (int t = 0; t < 4; t++)
                    check_gemm((t & 1) != 0, (t & 2) != 0, dims[i], dims[j], dims[l]);
}

Test(gemm, a_core_that_the_user_named_is_kept)
{
    const char *better = (unsetenv("OPENBLAS_CORETYPE"), kn_gemm_better_core());

    cr_assert(better == NULL || strcmp(better, "SkylakeX") == 0 || strcmp(better, "Haswell") == 0);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    cr_assert_null(kn_gemm_better_core());
}

Test(softmax, loss_and_gradient_agree_with_double)
{
    enum { ROWS = 9 };
    static const size_t cols_of[] = { 1, 2, 10, 33 };
    static float x[ROWS * 33], dx[ROWS * 33];
    int32_t label[ROWS];

    for (size_t i = 0; i < VB_ARRAY_LEN(cols_of); i++) {
        const size_t cols = cols_of[i];
        double total = 0.0;
        float loss;

        fill(x, ROWS * cols, 3, 60.0f);
        for (size_t r = 0; r < ROWS; r++)
            label[r] = (int32_t)(r * 7 % cols);
        kn_softmax_xent_grad(dx, x, label, 0.5f, ROWS, cols);
        for (size_t r = 0; r < ROWS; r++) {
            double sum = 0.0;

            for (size_t c = 0; c < cols; c++)
                sum += exp((double)x[r * cols + c]);
            total -= log(exp((double)x[r * cols + (size_t)label[r]]) / sum);
            for (size_t c = 0; c < cols; c++) {
                const double p = exp((double)x[r * cols + c]) / sum;

                cr_assert_float_eq(dx[r * cols + c], 0.5 * (p - ((int32_t)c == label[r])), 1e-7);
            }
        }
        kn_softmax_xent(&loss, x, label, ROWS, cols);
        cr_assert_float_eq(loss, total, 1e-7 * (1.0 + total));
        kn_softmax_xent_grad(x, x, label, 0.5f, ROWS, cols);
        cr_assert(memcmp(x, dx, ROWS * cols * sizeof(*x)) == 0, "not the same in place");
    }
}

Test(softmax, large_logits_do_not_overflow_and_nan_shows)
{
    float x[6] = { 3e38f, -3e38f, 0.0f, -1e30f, -1e30f, -1e30f }, dx[6], loss;
    const int32_t label[2] = { 0, 2 };

    kn_softmax_xent(&loss, x, label, 2, 3);
    cr_assert_float_eq(loss, log(3.0), 1e-6);
    kn_softmax_xent_grad(dx, x, label, 1.0f, 2, 3);
    cr_assert_eq(dx[0], 0.0f);
    x[4] = NAN;
    kn_softmax_xent(&loss, x, label, 2, 3);
    cr_assert(isnan(loss));
    kn_softmax_xent(&loss, x, label, 0, 3);
    cr_assert_eq(loss, 0.0f);
}

Test(count_correct, takes_the_first_largest_and_never_a_nan)
{
    const float x[5][3] = { { 1, 2, 3 }, { 3, 3, 1 }, { 3, 3, 1 }, { NAN, 1, 0 }, { 5, NAN, 0 } };
    const int32_t label[5] = { 2, 0, 1, 0, 0 };

    cr_assert_eq(kn_count_correct(&x[0][0], label, 5, 3), 2);
    cr_assert_eq(kn_count_correct(&x[0][0], label, 0, 3), 0);
}
