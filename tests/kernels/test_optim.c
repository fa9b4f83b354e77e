/* Whole runs of the optimizers: as PyTorch's, or as the papers' formulas in double; schedules. */
#include "golden_optim.h"
#include "tables.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* PyTorch groups some products otherwise and may contract: a rounding or two in each step, of numbers
 * that are not larger than what the weight moves by. */
static bool near(float got, float want)
{
    return fabsf(got - want) <= 8 * 0x1p-24f * fmaxf(1.0f, fabsf(want));
}

static void golden(const struct kn_ops *k, const struct kn_opt *o, float w[GOLDEN_N])
{
    float m[GOLDEN_N] = { 0 }, v[GOLDEN_N] = { 0 };

    for (size_t i = 0; i < GOLDEN_N; i++)
        w[i] = ((float)i - 5.5f) / 4.0f;
    for (uint64_t t = 1; t <= GOLDEN_STEPS; t++) {
        const float *const g[1] = { golden_gradient[t - 1] };
        const struct kn_grads grads = { .n = 1, .f32 = g };
        struct kn_exact squares = { { 0 } };
        struct kn_step s = kn_opt_step(o, t, 1);

        kn_sq_norm(&squares, k, &grads, s.scale, GOLDEN_N);
        s.norm = kn_opt_norm(o, &squares);
        k->apply(w, m, v, g, 1, o, &s, GOLDEN_N);
    }
}

Test(optim, runs_end_where_those_of_pytorch_end)
{
    const struct kn_ops *table[TABLES_MAX];
    float w[GOLDEN_N];

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t r = 0; r < VB_ARRAY_LEN(golden_run); r++) {
            golden(table[k], &golden_run[r].o, w);
            for (size_t i = 0; i < GOLDEN_N; i++)
                cr_expect(near(w[i], golden_run[r].w[i]),
                          "%s, %s: w[%zu] is %.9g, PyTorch has %.9g", table[k]->name,
                          golden_run[r].name, i, (double)w[i], (double)golden_run[r].w[i]);
        }
}

/* McMahan et al. 2013, algorithm 1: w is made from z and n before it is used. */
Test(optim, ftrl_follows_its_algorithm_in_double)
{
    const struct kn_opt o = {
        .kind = KN_FTRL, .rate = 0.5f, .beta = 1.0f, .l1 = 0.75f, .l2 = 0.25f
    };
    float w[GOLDEN_N] = { 0 }, m[GOLDEN_N] = { 0 }, v[GOLDEN_N] = { 0 };
    double z[GOLDEN_N] = { 0 }, n[GOLDEN_N] = { 0 };
    size_t zeros = 0;

    for (uint64_t t = 1; t <= GOLDEN_STEPS; t++) {
        const float *const g[1] = { golden_gradient[t - 1] };
        const struct kn_step s = kn_opt_step(&o, t, 1);

        for (size_t i = 0; i < GOLDEN_N; i++) {
            const double gi = (double)g[0][i], sign = z[i] < 0 ? -1 : 1;
            const double wi =
                fabs(z[i]) <= 0.75 ? 0 : -(z[i] - sign * 0.75) / ((1.0 + sqrt(n[i])) / 0.5 + 0.25);

            cr_expect(near(w[i], (float)wi), "step %zu: w[%zu] %g, not %g", (size_t)t, i,
                      (double)w[i], wi);
            zeros += w[i] == 0.0f;
            z[i] += gi - (sqrt(n[i] + gi * gi) - sqrt(n[i])) / 0.5 * wi;
            n[i] += gi * gi;
        }
        kn_best()->apply(w, m, v, g, 1, &o, &s, GOLDEN_N);
    }
    cr_expect(zeros > GOLDEN_N, "l1 makes no zeros");
}

/* You et al. 2020, algorithm 2, in double. */
struct lamb {
    double w[GOLDEN_N], m[GOLDEN_N], v[GOLDEN_N];
};

static void lamb_step(struct lamb *l, const float *g, uint64_t t)
{
    double u[GOLDEN_N], ww = 0, uu = 0;

    for (size_t i = 0; i < GOLDEN_N; i++) {
        l->m[i] = 0.9 * l->m[i] + 0.1 * (double)g[i];
        l->v[i] = 0.99 * l->v[i] + 0.01 * (double)g[i] * (double)g[i];
        u[i] = l->m[i] / (1 - pow(0.9, (double)t)) /
                   (sqrt(l->v[i] / (1 - pow(0.99, (double)t))) + 1e-6) +
               0.1 * l->w[i];
        ww += l->w[i] * l->w[i];
        uu += u[i] * u[i];
    }
    for (size_t i = 0; i < GOLDEN_N; i++)
        l->w[i] -= 0.05 * sqrt(ww) / sqrt(uu) * u[i];
}

Test(optim, lamb_in_two_phases_over_pieces_follows_its_algorithm_in_double)
{
    const struct kn_opt o = { .kind = KN_LAMB,
                              .rate = 0.05f,
                              .beta1 = 0.9f,
                              .beta2 = 0.99f,
                              .eps = 1e-6f,
                              .weight_decay = 0.1f };
    float w[GOLDEN_N], m[GOLDEN_N] = { 0 }, v[GOLDEN_N] = { 0 };
    struct lamb want = { { 0 } };

    for (size_t i = 0; i < GOLDEN_N; i++)
        want.w[i] = (double)(w[i] = ((float)i - 5.5f) / 4.0f);
    for (uint64_t t = 1; t <= GOLDEN_STEPS; t++) {
        const float *const g[1] = { golden_gradient[t - 1] }, *const rest[1] = { g[0] + 5 };
        const struct kn_grads grads = { .n = 1, .f32 = g }, tail = { .n = 1, .f32 = rest };
        struct kn_exact ww = { { 0 } }, uu = { { 0 } };
        struct kn_step s = kn_opt_step(&o, t, 1);

        kn_lamb_norms(&ww, &uu, kn_best(), w, m, v, &grads, &o, &s, 5);
        kn_lamb_norms(&ww, &uu, kn_best(), w + 5, m + 5, v + 5, &tail, &o, &s, GOLDEN_N - 5);
        s.trust = kn_opt_trust(&ww, &uu);
        kn_best()->apply(w, m, v, g, 1, &o, &s, GOLDEN_N);
        lamb_step(&want, g[0], t);
    }
    for (size_t i = 0; i < GOLDEN_N; i++)
        cr_expect(near(w[i], (float)want.w[i]), "w[%zu] is %g, not %g", i, (double)w[i], want.w[i]);
}

Test(optim, trust_is_one_where_a_norm_is_zero)
{
    const double four = 4.0, nan = (double)NAN;
    struct kn_exact none = { { 0 } }, some = { { 0 } }, odd = { { 0 } };

    kn_exact_add(&some, &four, 1);
    kn_exact_add(&odd, &nan, 1);
    cr_expect_eq(kn_opt_trust(&none, &some), 1.0f);
    cr_expect_eq(kn_opt_trust(&some, &none), 1.0f);
    cr_expect_eq(kn_opt_trust(&some, &some), 1.0f);
    cr_expect(isnan(kn_opt_trust(&some, &odd)));
}

Test(optim, a_norm_within_the_limit_is_left_alone)
{
    const struct kn_opt off = { 0 }, five = { .clip_norm = 5.0f }, one = { .clip_norm = 1.0f };
    const double four = 4.0, inf = (double)INFINITY;
    struct kn_exact sum = { { 0 } };

    cr_expect_eq(kn_opt_norm(&five, &sum), 1.0f);
    kn_exact_add(&sum, &four, 1);
    cr_expect_eq(kn_opt_norm(&off, &sum), 1.0f);
    cr_expect_eq(kn_opt_norm(&five, &sum), 1.0f);
    cr_expect_eq(kn_opt_norm(&one, &sum), (float)(1.0 / (2.0 + 1e-6)));
    kn_exact_add(&sum, &inf, 1);
    cr_expect_eq(kn_opt_norm(&one, &sum), 0.0f);
}

static double factor(struct kn_rate r, uint64_t t)
{
    return kn_rate_factor(&r, t);
}

Test(optim, schedules_begin_and_end_as_written)
{
    const struct kn_rate none = { 0 }, ramp = { .warmup = 4 };
    const struct kn_rate step = { .kind = KN_RATE_STEP, .warmup = 2, .every = 3, .gamma = 0.5 };
    const struct kn_rate wave = { .kind = KN_RATE_COSINE, .every = 10, .floor = 0.25 };
    const struct kn_rate root = { .kind = KN_RATE_RSQRT, .warmup = 4 };
    const struct kn_rate bare = { .kind = KN_RATE_RSQRT }, flat = { .kind = KN_RATE_COSINE };
    static const double steps[] = { 0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25 };

    cr_expect(factor(none, 1) == 1.0 && factor(none, UINT64_MAX) == 1.0);
    cr_expect(factor(ramp, 1) == 0.25 && factor(ramp, 4) == 1.0 && factor(ramp, 5) == 1.0);
    for (uint64_t t = 1; t <= VB_ARRAY_LEN(steps); t++)
        cr_expect_eq(factor(step, t), steps[t - 1], "step %zu", (size_t)t);
    cr_expect_eq(factor(wave, 1), 1.0);
    cr_expect(fabs(factor(wave, 6) - 0.625) < 1e-15);
    cr_expect(factor(wave, 11) == 0.25 && factor(wave, 1000) == 0.25);
    cr_expect(factor(root, 2) == 0.5 && factor(root, 4) == 1.0 && factor(root, 16) == 0.5);
    cr_expect(factor(bare, 1) == 1.0 && factor(bare, 4) == 0.5);
    cr_expect(factor(flat, 1) == 1.0 && factor(flat, 2) == 0.0);
}

Test(optim, a_scheduled_rate_reaches_every_constant_of_the_step)
{
    const struct kn_opt o = { .kind = KN_ADAMW,
                              .rate = 0.5f,
                              .beta1 = 0.5f,
                              .beta2 = 0.75f,
                              .weight_decay = 0.5f,
                              .schedule = { .warmup = 4 } };
    const struct kn_step s = kn_opt_step(&o, 2, 4);

    cr_expect(s.scale == 0.25f && s.norm == 1.0f && s.trust == 1.0f);
    cr_expect_eq(s.rate, 0.25f);
    cr_expect_eq(s.keep, 0.875f);
    cr_expect_eq(s.rate_t, (float)(0.25 / 0.75));
    cr_expect_eq(s.inv_c1, (float)(1.0 / 0.75));
}
