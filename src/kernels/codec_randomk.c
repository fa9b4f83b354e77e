/* codec_randomk.c - the first k places of a keyed permutation; only their values travel. */
#include "kernels/codec_priv.h"

#include "base/random.h"
#include "kernels/kn.h"

#include <string.h>

static size_t randomk_bytes(const struct kn_codec *c, size_t n)
{
    return codec_count(c, n) * sizeof(float);
}

static struct vb_perm places(const struct kn_codec *c, const struct kn_codec_turn *turn, size_t n)
{
    return vb_perm_make(n, vb_random_u64(c->seed, turn->chunk, turn->clock), 0);
}

static void randomk_encode(void *dst, float *x, size_t n, const struct kn_codec *c,
                           const struct kn_codec_turn *turn)
{
    const struct vb_perm p = places(c, turn, n);
    const size_t k = codec_count(c, n);
    float *value = dst;

    for (size_t i = 0; i < k; i++) {
        float *from = &x[vb_perm_at(&p, i)];

        value[i] = *from;
        *from = 0.0f;
    }
}

static enum vb_st randomk_decode(float *dst, const void *src, size_t n, const struct kn_codec *c,
                                 const struct kn_codec_turn *turn)
{
    const struct vb_perm p = places(c, turn, n);
    const size_t k = codec_count(c, n);
    const float *value = src;

    if (!kn_best()->all_finite(value, KN_F32, k))
        return VB_PROTO;
    memset(dst, 0, n * sizeof(*dst));
    for (size_t i = 0; i < k; i++)
        dst[vb_perm_at(&p, i)] = value[i];
    return VB_OK;
}

const struct codec_ops codec_randomk = { randomk_bytes, randomk_encode, randomk_decode };
