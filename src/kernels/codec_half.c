#include "kernels/codec_priv.h"

#include "base/util.h"
#include "kernels/kn.h"

enum { BLOCK = 512 };

static enum kn_type type_of(const struct kn_codec *c)
{
    return c->kind == KN_CODEC_F16 ? KN_F16 : KN_BF16;
}

static size_t half_bytes(const struct kn_codec *c, size_t n)
{
    return n * sizeof(uint16_t);
}

static void half_encode(void *dst, float *x, size_t n, const struct kn_codec *c,
                        const struct kn_codec_turn *turn)
{
    const float most = c->kind == KN_CODEC_F16 ? 65504.0f : 0x1.fep127f;
    const struct kn_ops *kn = kn_best();
    float y[BLOCK];
    uint16_t *out = dst;

    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t len = VB_MIN(n - at, (size_t)BLOCK);

        for (size_t i = 0; i < len; i++)
            y[i] = VB_MAX(VB_MIN(x[at + i], most), -most);
        kn->narrow(out + at, y, type_of(c), len);
        kn->widen(y, out + at, type_of(c), len);
        for (size_t i = 0; i < len; i++)
            x[at + i] -= y[i];
    }
}

static enum vb_st half_decode(float *dst, const void *src, size_t n, const struct kn_codec *c,
                              const struct kn_codec_turn *turn)
{
    const struct kn_ops *kn = kn_best();

    if (!kn->all_finite(src, type_of(c), n))
        return VB_PROTO;
    kn->widen(dst, src, type_of(c), n);
    return VB_OK;
}

const struct codec_ops codec_half = { half_bytes, half_encode, half_decode };
