/* codec_onebit.c - two means per block, of what is below 0 and of the rest; then a bit per element, the
 * first in the lowest bit, unused ones 0. */
#include "kernels/codec_priv.h"

#include "base/util.h"

#include <math.h>
#include <string.h>

_Static_assert(KN_ONEBIT_BLOCK % 8 == 0, "blocks begin with a byte");

struct means {
    float of[2]; /* below 0; 0 and above */
};

static size_t blocks_of(size_t n)
{
    return (n + KN_ONEBIT_BLOCK - 1) / KN_ONEBIT_BLOCK;
}

static size_t bit_bytes(size_t n)
{
    return (n + 7) / 8;
}

static size_t onebit_bytes(const struct kn_codec *c, size_t n)
{
    return blocks_of(n) * sizeof(struct means) + bit_bytes(n);
}

static struct means means_of(const float *x, size_t n)
{
    double sum[2] = { 0.0, 0.0 };
    size_t count[2] = { 0, 0 };
    struct means m = { { 0.0f, 0.0f } };

    for (size_t i = 0; i < n; i++) {
        const bool up = x[i] >= 0.0f;

        sum[up] += (double)x[i];
        count[up]++;
    }
    for (size_t up = 0; up < 2; up++)
        if (count[up] > 0)
            m.of[up] = (float)(sum[up] / (double)count[up]);
    return m;
}

static void encode_block(uint8_t *bits, float *x, const struct means *m, size_t n)
{
    memset(bits, 0, bit_bytes(n));
    for (size_t i = 0; i < n; i++) {
        const unsigned up = x[i] >= 0.0f;

        bits[i / 8] = (uint8_t)(bits[i / 8] | up << i % 8);
        x[i] -= m->of[up];
    }
}

static void onebit_encode(void *dst, float *x, size_t n, const struct kn_codec *c,
                          const struct kn_codec_turn *turn)
{
    struct means *m = dst;
    uint8_t *bits = (uint8_t *)(m + blocks_of(n));

    for (size_t at = 0; at < n; at += KN_ONEBIT_BLOCK, m++) {
        const size_t len = VB_MIN(n - at, (size_t)KN_ONEBIT_BLOCK);

        *m = means_of(x + at, len);
        encode_block(bits + at / 8, x + at, m, len);
    }
}

static enum vb_st onebit_decode(float *dst, const void *src, size_t n, const struct kn_codec *c,
                                const struct kn_codec_turn *turn)
{
    const struct means *m = src;
    const uint8_t *bits = (const uint8_t *)(m + blocks_of(n));

    if (n % 8 != 0 && bits[n / 8] >> n % 8 != 0)
        return VB_PROTO;
    for (size_t at = 0; at < n; at += KN_ONEBIT_BLOCK, m++) {
        const size_t end = VB_MIN(n, at + KN_ONEBIT_BLOCK);

        if (!isfinite(m->of[0]) || !isfinite(m->of[1]) || m->of[0] > 0.0f || m->of[1] < 0.0f)
            return VB_PROTO;
        for (size_t i = at; i < end; i++)
            dst[i] = m->of[bits[i / 8] >> i % 8 & 1];
    }
    return VB_OK;
}

const struct codec_ops codec_onebit = { onebit_bytes, onebit_encode, onebit_decode };
