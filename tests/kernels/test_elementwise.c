/* The small kernels: every table against one line of C each, over awkward sizes and alignments. */
#include "tables.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_MAX = 4200 };
static const size_t sizes[] = { 0, 1, 3, 7, 8, 9, 31, 32, 33, 64, 65, 511, 513, 1025, 4096, 4097 };
static float x[N_MAX], y[N_MAX], got[N_MAX], want[N_MAX];
static uint8_t bytes[N_MAX];

static void fill(void)
{
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, 1e-42f, -1e-42f };

    for (size_t i = 0; i < N_MAX; i++) {
        x[i] = vb_random_f32(1, 1, i) - 0.5f;
        y[i] = vb_random_f32(1, 2, i) - 0.5f;
        bytes[i] = (uint8_t)vb_random_u64(1, 3, i);
        if (i % 11 == 3)
            x[i] = special[i % VB_ARRAY_LEN(special)];
    }
}

#define EACH_CASE(k, at, n)                                                                        \
    for (size_t t_ = (fill(), 0); t_ < tables(table); t_++)                                        \
        for (size_t i_ = 0; i_ < VB_ARRAY_LEN(sizes); i_++)                                        \
            for (size_t at = 0, n = sizes[i_]; at < 9; at++)                                       \
                if ((k = table[t_]) != NULL)

static void same(const struct kn_ops *k, size_t at, size_t n)
{
    cr_assert(memcmp(got, want, sizeof(got)) == 0, "%s: %zu at %zu", k->name, n, at);
}

Test(elementwise, add_adds)
{
    const struct kn_ops *table[TABLES_MAX], *k;

    EACH_CASE(k, at, n)
    {
        memcpy(got, y, sizeof(y));
        memcpy(want, y, sizeof(y));
        k->add(got + at, x + 3, n);
        for (size_t i = 0; i < n; i++)
            want[at + i] = y[at + i] + x[3 + i];
        same(k, at, n);
    }
}

Test(elementwise, delay_is_compensated)
{
    const struct kn_ops *table[TABLES_MAX], *k;

    EACH_CASE(k, at, n)
    {
        memcpy(got, y, sizeof(y));
        memcpy(want, y, sizeof(y));
        k->compensate(got + at, y + 1, y + 2, y + 4, 0.3f, n);
        for (size_t i = 0; i < n; i++) {
            const volatile float d = y[2 + i] - y[4 + i], gg = y[1 + i] * y[1 + i], p = gg * d,
                                 c = 0.3f * p;

            want[at + i] = y[1 + i] + c;
        }
        same(k, at, n);
    }
}

Test(elementwise, relu_and_its_gradient_also_work_in_place)
{
    const struct kn_ops *table[TABLES_MAX], *k;

    EACH_CASE(k, at, n)
    {
        memcpy(got, y, sizeof(y));
        memcpy(want, y, sizeof(y));
        k->relu(got + at, x + 3, n);
        for (size_t i = 0; i < n; i++)
            want[at + i] = x[3 + i] > 0.0f ? x[3 + i] : 0.0f;
        same(k, at, n);

        memcpy(got, x, sizeof(x));
        memcpy(want, x, sizeof(x));
        k->relu(got + at, got + at, n);
        for (size_t i = at; i < at + n; i++)
            want[i] = x[i] > 0.0f ? x[i] : 0.0f;
        same(k, at, n);

        memcpy(got, y, sizeof(y));
        memcpy(want, y, sizeof(y));
        k->relu_grad(got + at, got + at, x + at, n);
        for (size_t i = at; i < at + n; i++)
            want[i] = x[i] > 0.0f ? y[i] : 0.0f;
        same(k, at, n);
    }
}

Test(elementwise, bytes_become_normalised_floats)
{
    const struct kn_ops *table[TABLES_MAX], *k;

    EACH_CASE(k, at, n)
    {
        memcpy(got, y, sizeof(y));
        memcpy(want, y, sizeof(y));
        k->from_u8(got + at, bytes + (at * 3) % 7, 1.0f / 89.964f, 0.8102f, n);
        for (size_t i = 0; i < n; i++)
            want[at + i] = (float)bytes[(at * 3) % 7 + i] * (1.0f / 89.964f) - 0.8102f;
        same(k, at, n);
    }
}

Test(elementwise, bias_is_added_to_every_row_also_in_place)
{
    const struct kn_ops *table[TABLES_MAX];
    static const size_t cols_of[] = { 1, 3, 8, 9, 10, 33, 128 };

    fill();
    for (size_t t = 0; t < tables(table); t++)
        for (size_t i = 0; i < VB_ARRAY_LEN(cols_of); i++)
            for (size_t rows = 0; rows < 6; rows++) {
                const size_t cols = cols_of[i];

                memcpy(got, x, sizeof(x));
                memcpy(want, x, sizeof(x));
                for (size_t j = 0; j < rows * cols; j++)
                    want[1 + j] = x[1 + j] + y[j % cols];
                table[t]->bias_add(got + 1, got + 1, y, rows, cols);
                same(table[t], rows, cols);
                table[t]->bias_add(got + 1, x + 1, y, rows, cols);
                same(table[t], rows, cols);
            }
}

Test(elementwise, column_sums_add_rows_in_order)
{
    const struct kn_ops *table[TABLES_MAX];
    static const size_t cols_of[] = { 1, 3, 8, 9, 10, 33, 128 };

    fill();
    for (size_t t = 0; t < tables(table); t++)
        for (size_t i = 0; i < VB_ARRAY_LEN(cols_of); i++)
            for (size_t rows = 0; rows < 30; rows++) {
                const size_t cols = cols_of[i];

                memcpy(got, y, sizeof(y));
                memcpy(want, y, sizeof(y));
                for (size_t c = 0; c < cols; c++) {
                    float sum = rows > 0 ? y[c] : 0.0f;

                    for (size_t r = 1; r < rows; r++)
                        sum += y[r * cols + c];
                    want[1 + c] = sum;
                }
                table[t]->col_sum(got + 1, y, rows, cols);
                same(table[t], rows, cols);
            }
}

Test(elementwise, the_chosen_table_is_one_this_cpu_can_run)
{
    const struct kn_ops *table[TABLES_MAX];
    const size_t n = tables(table);

    cr_assert_eq(kn_best(), table[n - 1]);
    cr_assert_eq(kn_best(), table[n - 1]);
}

Test(elementwise, environment_forces_the_reference)
{
    setenv("VB_KERNELS", "ref", 1);
    cr_assert_eq(kn_best(), &kn_ref);
}
