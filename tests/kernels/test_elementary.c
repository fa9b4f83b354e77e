/* How far elementary.h is from the exact value, over all floats (every 1009th), and what it makes of the ends. */
#include "kernels/elementary.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdio.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double normal(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}
static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

/* Units in the last place of a float of this size. */
static double unit(double x)
{
    const double a = fabs(x);

    return a < (double)FLT_MIN ? 0x1p-149 : ldexp(1, ilogb(a) - 23);
}

/* The largest error of fn in units, results below least left out. */
static double worst(float (*fn)(float), double (*exact)(double), double least, float *where)
{
    double most = 0;

    for (uint64_t b = 0; b <= UINT32_MAX; b += 1009) {
        const uint32_t bits = (uint32_t)b;
        float x;

        memcpy(&x, &bits, sizeof(x));
        const double want = exact((double)x);

        if (isnan(x) || fabs(want) < least || fabs(want) > (double)FLT_MAX)
            continue;
        const double off = fabs((double)fn(x) - want) / unit(want);

        if (!(off <= most)) {
            most = off;
            *where = x;
        }
    }
    return most;
}

Test(elementary, is_as_near_as_it_says)
{
    static const struct {
        const char *name;
        float (*fn)(float);
        double (*exact)(double);
        double least, units;
    } f[] = { { "exp", kn_exp, exp, 0, 1.5 },
              { "sigmoid", kn_sigmoid, sigmoid, FLT_MIN, 3 },
              { "tanh", kn_tanh, tanh, 0, 2 } };

    for (size_t i = 0; i < sizeof(f) / sizeof(*f); i++) {
        float at = 0;
        const double off = worst(f[i].fn, f[i].exact, f[i].least, &at);

        printf("%s: %.2f units at %g\n", f[i].name, off, (double)at);
        cr_expect_leq(off, f[i].units, "%s: %g units at %g", f[i].name, off, (double)at);
    }
}

/* Of the normal distribution the absolute error counts, and the tail by its own size. */
Test(elementary, the_normal_distribution_keeps_its_tail)
{
    double most = 0, most_density = 0, most_tail = 0;

    for (int i = -400000; i <= 400000; i++) {
        const float x = (float)i * 1e-4f;
        const double want = normal_cdf((double)x), d = normal((double)x);

        most = fmax(most, fabs((double)kn_normal_cdf(x) - want));
        most_density = fmax(most_density, fabs((double)kn_normal(x) - d));
        if (x > -8 && x < 0)
            most_tail = fmax(most_tail, fabs((double)kn_normal_cdf(x) - want) / want);
    }
    printf("normal: %g, density %g, tail %g\n", most, most_density, most_tail);
    cr_expect_leq(most, 1.2e-7);
    cr_expect_leq(most_density, 1e-7);
    cr_expect_leq(most_tail, 4e-5);
}

Test(elementary, has_its_ends)
{
    cr_assert(kn_exp(INFINITY) == INFINITY && kn_exp(-INFINITY) == 0 && kn_exp(0) == 1);
    cr_assert(kn_exp(FLT_MAX) == INFINITY && kn_exp(-FLT_MAX) == 0);
    cr_assert(kn_tanh(INFINITY) == 1 && kn_tanh(-INFINITY) == -1 && kn_tanh(0) == 0);
    cr_assert(kn_sigmoid(INFINITY) == 1 && kn_sigmoid(-INFINITY) == 0 && kn_sigmoid(0) == 0.5f);
    cr_assert(kn_normal_cdf(INFINITY) == 1 && kn_normal_cdf(-INFINITY) == 0 &&
              kn_normal_cdf(0) == 0.5f);
    cr_assert(isnan(kn_exp(NAN)) && isnan(kn_tanh(NAN)) && isnan(kn_sigmoid(NAN)) &&
              isnan(kn_normal_cdf(NAN)) && isnan(kn_normal(NAN)));
}
