#include "kernels/codec_priv.h"

#include "base/util.h"
#include "kernels/kn.h"

#include <math.h>
#include <string.h>

static const struct codec_ops *const ops[] = {
    [KN_CODEC_F16] = &codec_half,  [KN_CODEC_BF16] = &codec_half,
    [KN_CODEC_INT8] = &codec_int8, [KN_CODEC_ONEBIT] = &codec_onebit,
    [KN_CODEC_TOPK] = &codec_topk, [KN_CODEC_RANDOMK] = &codec_randomk,
};

size_t codec_count(const struct kn_codec *c, size_t n)
{
    const double k = ceil(c->share * (double)n);

    return k >= (double)n ? n : k > 1.0 ? (size_t)k : 1;
}

size_t kn_codec_bytes(const struct kn_codec *c, size_t n)
{
    return n > 0 ? ops[c->kind]->bytes(c, n) : 0;
}

static bool finite_sum(const struct kn_ops *kn, const float *a, const float *b, size_t n)
{
    float sum[1024];

    for (size_t at = 0; at < n; at += VB_ARRAY_LEN(sum)) {
        const size_t len = VB_MIN(n - at, VB_ARRAY_LEN(sum));

        memcpy(sum, a + at, len * sizeof(*a));
        kn->add(sum, b + at, len);
        if (!kn->all_finite(sum, KN_F32, len))
            return false;
    }
    return true;
}

enum vb_st kn_encode(void *dst, float *residual, const float *src, size_t n,
                     const struct kn_codec *c, const struct kn_codec_turn *turn)
{
    const struct kn_ops *kn = kn_best();

    if (!finite_sum(kn, residual, src, n))
        return VB_INVAL;
    kn->add(residual, src, n);
    if (n > 0)
        ops[c->kind]->encode(dst, residual, n, c, turn);
    return VB_OK;
}

enum vb_st kn_decode(float *dst, const void *src, size_t bytes, size_t n, const struct kn_codec *c,
                     const struct kn_codec_turn *turn)
{
    if (bytes != kn_codec_bytes(c, n))
        return VB_PROTO;
    return n > 0 ? ops[c->kind]->decode(dst, src, n, c, turn) : VB_OK;
}
