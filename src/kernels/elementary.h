/*
 * elementary.h - exp, tanh, sigmoid and the normal distribution of floats, written so that a loop over them becomes
 * vectors: no branches, no calls, no tables. Unlike the C library's they have the same bits on every machine. Errors are in
 * units of the last place against the exact value, and hold for all floats ▸ kernels elementary. A NaN stays one.
 *
 * Coefficients: least squares, reweighted until the largest error was least, of the function named beside them.
 */
#ifndef KERNELS_ELEMENTARY_H
#define KERNELS_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t kn_bits(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof(b));
    return b;
}

/* 2^k for -126 <= k <= 127 */
static inline float kn_pow2(uint32_t k)
{
    const uint32_t b = (k + 127u) << 23;
    float x;

    memcpy(&x, &b, sizeof(x));
    return x;
}

/*
 * 1.5 units. x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts of
 * which n times the first is exact (Cody & Waite 1980); then 2^n in two factors, so that it may be beyond a float.
 */
static inline float kn_exp(float x)
{
    const float magic = 0x1.8p23f; /* what is added to it is rounded to a whole number */

    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float shifted = x * 0x1.715476p+0f + magic, n = shifted - magic;
    const float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    /* (exp(r) - 1 - r) / r^2 */
    const float p =
        0.5f + r * (0.166665196f + r * (0.0416662060f + r * (0.00836888235f + r * 0.00139504788f)));
    const uint32_t k = kn_bits(shifted) - kn_bits(magic);
    const uint32_t half = (uint32_t)((int32_t)k >> 1);

    return (1.0f + (r + r * r * p)) * kn_pow2(half) * kn_pow2(k - half);
}

/* 3 units */
static inline float kn_sigmoid(float x)
{
    return 1.0f / (1.0f + kn_exp(-x));
}

/* 2 units */
static inline float kn_tanh(float x)
{
    const float a = fabsf(x), z = x * x;
    /* (tanh(x) / x - 1) / x^2 for |x| <= 5/8 */
    const float p =
        -0.333332837f +
        z * (0.133314908f + z * (-0.0537434965f + z * (0.0206505861f + z * -0.00571704470f)));
    const float small = x + x * z * p,
                large = copysignf(1.0f - 2.0f / (kn_exp(2.0f * a) + 1.0f), x);

    return a > 0.625f ? large : small;
}

/* The normal density. */
static inline float kn_normal(float x)
{
    return 0.398942280f * kn_exp(-0.5f * x * x);
}

/*
 * The normal distribution: the probability of what is below x, to 1.2e-7, and tails to 4e-5 of their size down to x = -8. 1 - erf(z) and erfc(z) for z = |x| / sqrt(2) below and above
 * 1, halved: the tail on the side of x, so nothing cancels.
 */
static inline float kn_normal_cdf(float x)
{
    const float z = fabsf(x) * 0.707106781f, s = z * z, t = 1.0f / (1.0f + 0.5f * z);
    /* erf(z) / z by z^2, z <= 1 */
    const float e =
        1.12837911f +
        s * (-0.376126260f +
             s * (0.112836003f +
                  s * (-0.0268544443f +
                       s * (0.00518953567f + s * (-0.000802084222f + s * 7.88912294e-5f)))));
    /* erfc(z) exp(z^2) by t, z >= 0.9 */
    const float c =
        6.44881395e-4f +
        t * (0.273059815f +
             t * (0.334121794f +
                  t * (0.0912415832f +
                       t * (0.420685411f + t * (-0.0721261352f + t * -0.0482341908f)))));
    const float near = 0.5f - 0.5f * (z * e), far = 0.5f * c * kn_exp(-0.5f * x * x);
    const float tail = z < 1.0f ? near : far;

    return x < 0.0f ? tail : 1.0f - tail;
}

#endif
