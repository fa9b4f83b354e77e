/* codec_onebit.c - two means per block, of what has the sign and of the rest; then a bit per element, 0
 * for the sign, the first in the lowest bit, unused ones 0. */
#include "kernels/codec_priv.h"

#include "base/util.h"

#include <math.h>
#include <string.h>

enum { LANES = 8 };
_Static_assert(KN_ONEBIT_BLOCK % 8 == 0, "blocks begin with a byte");

struct means {
    float of[2]; /* with the sign; without */
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

/* All bits when x has the sign, else none: choosing by it needs no branch, and signs are random. */
static inline int32_t sign_mask(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits < 0 ? -1 : 0;
}

static inline float masked(float x, int32_t mask)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits &= mask;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Adds LANES elements or fewer; element i goes to lane i, so that no sum waits for the one before. */
static inline void add_lanes(double sum[2][LANES], const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[0][i] += (double)masked(x[i], sign_mask(x[i]));
        sum[1][i] += (double)masked(x[i], ~sign_mask(x[i]));
    }
}

static struct means means_of(const float *x, size_t n)
{
    double sum[2][LANES] = { { 0.0 } }, total[2] = { 0.0, 0.0 };
    const size_t whole = n - n % LANES;
    uint32_t downs = 0;

    for (size_t at = 0; at < whole; at += LANES)
        add_lanes(sum, x + at, LANES);
    add_lanes(sum, x + whole, n - whole);
    for (size_t i = 0; i < n; i++)
        downs -= (uint32_t)sign_mask(x[i]);
    for (size_t i = 0; i < LANES; i++) {
        total[0] += sum[0][i];
        total[1] += sum[1][i];
    }
    return (struct means){ { downs > 0 ? (float)(total[0] / (double)downs) : 0.0f,
                             downs < n ? (float)(total[1] / (double)(n - downs)) : 0.0f } };
}

static void encode_block(uint8_t *bits, float *x, const struct means *m, size_t n)
{
    for (size_t at = 0; at < n; at += 8) {
        const size_t len = VB_MIN(n - at, (size_t)8);
        uint32_t byte = 0;

        for (size_t i = 0; i < len; i++)
            byte |= (1 + (uint32_t)sign_mask(x[at + i])) << i;
        bits[at / 8] = (uint8_t)byte;
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t mask = sign_mask(x[i]);

        x[i] -= masked(m->of[0], mask) + masked(m->of[1], ~mask);
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
