/*
 * codec_topk.c - k indices, ascending, then their values. The k-th largest |x| is found digit by digit:
 * the bits of a float without its sign are in the order of its size.
 */
#include "kernels/codec_priv.h"

#include "kernels/kn.h"

#include <string.h>

enum { KEY_BITS = 31, DIGIT_BITS = 11 };

static uint32_t key_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u & 0x7fffffff;
}

static size_t topk_bytes(const struct kn_codec *c, size_t n)
{
    return codec_count(c, n) * (sizeof(uint32_t) + sizeof(float));
}

/* The k-th largest key; *ties_out: how many with that key are among the k. */
static uint32_t threshold(const float *x, size_t n, size_t k, size_t *ties_out)
{
    size_t count[1 << DIGIT_BITS];
    uint32_t known = 0; /* its upper bits */

    for (unsigned left = KEY_BITS; left > 0;) {
        const unsigned bits = left < DIGIT_BITS ? left : DIGIT_BITS, shift = left - bits;
        uint32_t digit = (1u << bits) - 1;

        memset(count, 0, sizeof(count));
        for (size_t i = 0; i < n; i++)
            if (key_of(x[i]) >> left == known)
                count[key_of(x[i]) >> shift & digit]++;
        for (; count[digit] < k; digit--)
            k -= count[digit];
        known = known << bits | digit;
        left = shift;
    }
    *ties_out = k;
    return known;
}

static void topk_encode(void *dst, float *x, size_t n, const struct kn_codec *c,
                        const struct kn_codec_turn *turn)
{
    const size_t k = codec_count(c, n);
    uint32_t *index = dst;
    float *value = (float *)(void *)(index + k);
    size_t ties, at = 0;
    const uint32_t least = threshold(x, n, k, &ties);

    for (size_t i = 0; i < n; i++) {
        const uint32_t key = key_of(x[i]);

        if (key < least || (key == least && ties == 0))
            continue;
        ties -= key == least;
        index[at] = (uint32_t)i;
        value[at++] = x[i];
        x[i] = 0.0f;
    }
}

static enum vb_st topk_decode(float *dst, const void *src, size_t n, const struct kn_codec *c,
                              const struct kn_codec_turn *turn)
{
    const size_t k = codec_count(c, n);
    const uint32_t *index = src;
    const float *value = (const float *)(const void *)(index + k);
    uint64_t next = 0; /* the least index that may come */

    if (!kn_best()->all_finite(value, KN_F32, k))
        return VB_PROTO;
    memset(dst, 0, n * sizeof(*dst));
    for (size_t i = 0; i < k; i++) {
        if (index[i] < next || index[i] >= n)
            return VB_PROTO;
        dst[index[i]] = value[i];
        next = (uint64_t)index[i] + 1;
    }
    return VB_OK;
}

const struct codec_ops codec_topk = { topk_bytes, topk_encode, topk_decode };
