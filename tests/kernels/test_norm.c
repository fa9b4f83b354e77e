/* Sums of squares: every table against loops written here, and no cut or order changes a bit. */
#include "tables.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_MAX = 4200, G_MAX = 6 };
static const size_t sizes[] = {
    0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 513, 4099
};
static float gradient[G_MAX][N_MAX], w[N_MAX], m[N_MAX], v[N_MAX];
static const float *at_one[G_MAX]; /* each gradient from an odd place on */

static void fill(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (vb_random_f32(5, stream, i) - 0.5f) *
               exp2f((float)(vb_random_u64(6, stream, i) % 40) - 20.0f);
}

static void prepare(void)
{
    for (size_t i = 0; i < G_MAX; i++) {
        fill(gradient[i], N_MAX, i);
        at_one[i] = gradient[i] + 1 + i % 3;
    }
    fill(w, N_MAX, 10);
    fill(m, N_MAX, 11);
    fill(v, N_MAX, 12);
    for (size_t i = 0; i < N_MAX; i++)
        v[i] = fabsf(v[i]);
}

/* The tree over halves as kn.h words it; x has KN_SQ_GROUP floats or fewer. */
static double group(const float *x, size_t n)
{
    double node[KN_SQ_GROUP] = { 0 };

    for (size_t i = 0; i < n; i++)
        node[i] = (double)x[i] * (double)x[i];
    for (size_t half = KN_SQ_GROUP / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            node[i] += node[i + half];
    return node[0];
}

static float scaled_sum(size_t ng, size_t i, float scale)
{
    const float *const *g = at_one;
    float sum = g[0][i];

    if (ng > 1)
        sum += g[1][i];
    if (ng == 3)
        sum += g[2][i];
    if (ng > 3)
        sum += g[2][i] + g[3][i];
    if (ng == 5)
        sum += g[4][i];
    if (ng == 6)
        sum += g[4][i] + g[5][i];
    return scale * sum;
}

static void same(const struct kn_ops *k, const double *got, const float *x, size_t n, double guard)
{
    size_t groups = 0;

    for (size_t at = 0; at < n; at += KN_SQ_GROUP, groups++)
        cr_assert_eq(got[groups], group(x + at, VB_MIN(n - at, (size_t)KN_SQ_GROUP)),
                     "%s: group %zu of %zu elements", k->name, groups, n);
    cr_assert_eq(got[groups], guard, "%s writes beyond its groups", k->name);
}

Test(norm, squares_of_the_scaled_sum_come_in_groups)
{
    const struct kn_ops *table[TABLES_MAX];
    double got[N_MAX / KN_SQ_GROUP + 1];
    float x[N_MAX];

    prepare();
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++)
            for (size_t ng = 1; ng <= G_MAX; ng++) {
                const struct kn_grads g = { .n = ng, .f32 = at_one };
                const size_t n = sizes[i], at = n < 4000 ? 48 : 0;

                for (size_t j = 0; j < n; j++)
                    x[j] = scaled_sum(ng, at + j, 1.0f / 48.0f);
                for (size_t j = 0; j < VB_ARRAY_LEN(got); j++)
                    got[j] = -1.0;
                table[k]->sq(got, &g, 1.0f / 48.0f, at, n);
                same(table[k], got, x, n, -1.0);
            }
}

Test(norm, lambs_squares_are_of_the_step_that_it_will_make)
{
    const struct kn_opt o = { .kind = KN_LAMB,
                              .rate = 1.0f,
                              .beta1 = 0.75f,
                              .beta2 = 0.5f,
                              .eps = 0.5f,
                              .weight_decay = 0.25f,
                              .clip_value = 2.0f };
    const struct kn_ops *table[TABLES_MAX];
    double w_got[N_MAX / KN_SQ_GROUP + 1], u_got[N_MAX / KN_SQ_GROUP + 1];
    float zero[N_MAX], m_new[N_MAX], v_new[N_MAX], u[N_MAX];

    prepare();
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++) {
            const size_t n = sizes[i], groups = (n + KN_SQ_GROUP - 1) / KN_SQ_GROUP;
            const struct kn_grads g = { .n = 1 + i % G_MAX, .f32 = at_one };
            const struct kn_step s = kn_opt_step(&o, 3, 8);

            w_got[groups] = u_got[groups] = -1.0;
            table[k]->lamb_sq(w_got, u_got, w, m, v, &g, &o, &s, 0, n);
            same(table[k], w_got, w, n, -1.0);
            /* from weights 0, a rate of 1 without decay leaves -u / (its decay part) */
            struct kn_opt bare = o;

            bare.weight_decay = 0.0f;
            memset(zero, 0, sizeof(zero));
            memcpy(m_new, m, sizeof(m));
            memcpy(v_new, v, sizeof(v));
            kn_ref.apply(zero, m_new, v_new, at_one, g.n, &bare, &s, n);
            for (size_t j = 0; j < n; j++)
                u[j] = -zero[j] + 0.25f * w[j];
            same(table[k], u_got, u, n, -1.0);
        }
}

Test(norm, no_cut_and_no_order_changes_a_bit)
{
    const struct kn_ops *table[TABLES_MAX];
    const struct kn_grads whole = { .n = 3, .f32 = at_one };
    struct kn_exact first = { { 0 } };

    prepare();
    kn_sq_norm(&first, &kn_ref, &whole, 0.3f, N_MAX - 8);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct kn_exact part[2] = { { { 0 } }, { { 0 } } }, sum = { { 0 } };

            for (size_t at = 0, len; at < N_MAX - 8; at += len) {
                const float *g[3] = { at_one[0] + at, at_one[1] + at, at_one[2] + at };
                const struct kn_grads piece = { .n = 3, .f32 = g };

                len = KN_SQ_GROUP * (1 + vb_random_u64(1, seed, at) % 40);
                len = VB_MIN(len, N_MAX - 8 - at);
                kn_sq_norm(&part[vb_random_u64(2, seed, at) % 2], table[k], &piece, 0.3f, len);
            }
            kn_exact_merge(&sum, &part[seed % 2]);
            kn_exact_merge(&sum, &part[1 - seed % 2]);
            cr_assert(memcmp(&sum, &first, sizeof(sum)) == 0, "%s, seed %zu", table[k]->name,
                      (size_t)seed);
        }
}

Test(norm, the_sum_is_right_from_the_least_to_the_largest_floats)
{
    for (int e = -298; e <= 254; e++) {
        const double x[3] = { ldexp(1.0, e), ldexp(1.0, e), ldexp(1.5, e) };
        struct kn_exact sum = { { 0 } };

        if (e == -298)
            kn_exact_add(&sum, x, 2);
        else
            kn_exact_add(&sum, x, 3);
        cr_assert_eq(kn_exact_value(&sum), ldexp(e == -298 ? 2.0 : 3.5, e), "2^%d", e);
        for (unsigned i = 0; i < 10; i++)
            kn_exact_merge(&sum, &sum);
        cr_assert_eq(kn_exact_value(&sum), ldexp(e == -298 ? 2.0 : 3.5, e + 10), "2^%d", e);
    }
}

Test(norm, a_small_term_beside_a_huge_one_is_not_lost)
{
    const double huge = 0x1p200, tiny = 0x1.8p-290;
    struct kn_exact a = { { 0 } }, b = { { 0 } };

    for (size_t i = 0; i < 5000; i++)
        kn_exact_add(&a, &tiny, 1);
    kn_exact_add(&a, &huge, 1);
    kn_exact_add(&b, &huge, 1);
    cr_assert_eq(kn_exact_value(&a), huge);
    cr_assert(memcmp(&a, &b, sizeof(a)) != 0);
    for (size_t i = 0; i < KN_EXACT_LIMBS; i++)
        a.limb[i] -= b.limb[i];
    cr_assert_eq(kn_exact_value(&a), 5000 * tiny);
}

Test(norm, what_is_no_number_is_remembered)
{
    const double odd[] = {
        (double)INFINITY, (double)NAN, -1.0, -(double)INFINITY, 0x1p-400, 0x1p900
    };
    struct kn_exact sum, any;

    for (size_t i = 0; i < VB_ARRAY_LEN(odd); i++) {
        memset(&sum, 0, sizeof(sum));
        memset(&any, 0, sizeof(any));
        kn_exact_add(&sum, &odd[i], 1);
        kn_exact_merge(&any, &sum);
        cr_assert(i == 0 ? isinf(kn_exact_value(&any)) : isnan(kn_exact_value(&any)), "%g", odd[i]);
    }
    memset(&any, 0xff, sizeof(any)); /* from a hostile peer */
    any.odd = 0xfffffff0;
    memset(&sum, 0, sizeof(sum));
    kn_exact_merge(&sum, &any);
    cr_assert(isfinite(kn_exact_value(&sum)));
    kn_exact_merge(&sum, &any);
    cr_assert(isinf(kn_exact_value(&sum)));
}
