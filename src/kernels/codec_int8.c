/*
 * codec_int8.c - a float per block, then a byte per element.
 *
 * The residual x - q * scale is exact: for q = 0 nothing is subtracted, else the two are within a factor
 * of 2 of each other (Sterbenz 1974); for |q| = 1 because a quotient of 0.5 becomes 0, so that |x| is
 * more than scale / 2.
 */
#include "kernels/codec_priv.h"

#include "base/util.h"

#include <math.h>
#include <string.h>

enum { STEPS = 127 };

static size_t blocks_of(size_t n)
{
    return (n + KN_INT8_BLOCK - 1) / KN_INT8_BLOCK;
}

static size_t int8_bytes(const struct kn_codec *c, size_t n)
{
    return blocks_of(n) * sizeof(float) + n;
}

/* The largest number that a scale can be: STEPS of it are finite. */
static bool scale_ok(float scale)
{
    return scale >= 0.0f && isfinite((float)STEPS * scale);
}

/* Without the sign the bits of a float are in the order of its size, and integers have a fast maximum. */
static float scale_of(const float *x, size_t n)
{
    int32_t most = 0;
    float scale;

    for (size_t i = 0; i < n; i++) {
        int32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        bits &= INT32_MAX;
        most = VB_MAX(most, bits);
    }
    memcpy(&scale, &most, sizeof(scale));
    scale /= (float)STEPS;
    return scale_ok(scale) ? scale : nextafterf(scale, 0.0f);
}

static void encode_block(int8_t *dst, float *x, float scale, size_t n)
{
    const float round = 0x1.8p23f; /* adding it leaves no fraction: nearest, ties to even */

    for (size_t i = 0; i < n; i++) {
        const float near = (x[i] / scale + round) - round;
        const float low = VB_MAX(near, -(float)STEPS), q = VB_MIN(low, (float)STEPS);

        dst[i] = (int8_t)q;
        x[i] -= q * scale;
    }
}

static void int8_encode(void *dst, float *x, size_t n, const struct kn_codec *c,
                        const struct kn_codec_turn *turn)
{
    float *scale = dst;
    int8_t *q = (int8_t *)(scale + blocks_of(n));

    for (size_t at = 0; at < n; at += KN_INT8_BLOCK, scale++) {
        const size_t len = VB_MIN(n - at, (size_t)KN_INT8_BLOCK);

        *scale = scale_of(x + at, len);
        if (*scale > 0.0f)
            encode_block(q + at, x + at, *scale, len);
        else
            memset(q + at, 0, len);
    }
}

static enum vb_st int8_decode(float *dst, const void *src, size_t n, const struct kn_codec *c,
                              const struct kn_codec_turn *turn)
{
    const float *scale = src;
    const int8_t *q = (const int8_t *)(scale + blocks_of(n));
    bool odd = false;

    for (size_t at = 0; at < n; at += KN_INT8_BLOCK, scale++) {
        const size_t end = VB_MIN(n, at + KN_INT8_BLOCK);

        if (!scale_ok(*scale))
            return VB_PROTO;
        for (size_t i = at; i < end; i++) {
            odd |= q[i] < -STEPS;
            dst[i] = (float)q[i] * *scale;
        }
    }
    return odd ? VB_PROTO : VB_OK;
}

const struct codec_ops codec_int8 = { int8_bytes, int8_encode, int8_decode };
