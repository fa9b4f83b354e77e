/* codec_wire.h - one end that sends, and what the other gets. */
#ifndef TESTS_KERNELS_CODEC_WIRE_H
#define TESTS_KERNELS_CODEC_WIRE_H

#include "kernels/codec.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = 4099 };
static const size_t sizes[] = { 0, 1, 2, 7, 8, 9, 255, 256, 257, 511, 512, 513, 1025, N_MAX };
static const struct kn_codec codecs[] = {
    { .kind = KN_CODEC_F16 },
    { .kind = KN_CODEC_BF16 },
    { .kind = KN_CODEC_INT8 },
    { .kind = KN_CODEC_ONEBIT },
    { .kind = KN_CODEC_TOPK, .share = 0.01 },
    { .kind = KN_CODEC_TOPK, .share = 1.0 },
    { .kind = KN_CODEC_RANDOMK, .share = 0.1, .seed = 5 },
};

/* Heap memory of the exact size shows a step outside. */
struct wire {
    const struct kn_codec *c;
    size_t n, bytes;
    float *src, *before, *residual, *dst;
    void *sent;
};

static inline struct wire wire_make(const struct kn_codec *c, size_t n)
{
    struct wire w = { .c = c, .n = n, .bytes = kn_codec_bytes(c, n) };

    w.src = calloc(n, sizeof(float));
    w.before = calloc(n, sizeof(float));
    w.residual = calloc(n, sizeof(float));
    w.dst = malloc(n * sizeof(float));
    w.sent = malloc(w.bytes);
    return w;
}

static inline void wire_free(struct wire *w)
{
    free(w->src);
    free(w->before);
    free(w->residual);
    free(w->dst);
    free(w->sent);
}

static inline void transfer(struct wire *w, uint64_t clock)
{
    const struct kn_codec_turn turn = { .chunk = 3, .clock = clock };

    if (w->n > 0)
        memcpy(w->before, w->residual, w->n * sizeof(float));
    cr_assert_eq(kn_encode(w->sent, w->residual, w->src, w->n, w->c, &turn), VB_OK);
    cr_assert_eq(kn_decode(w->dst, w->sent, w->bytes, w->n, w->c, &turn), VB_OK);
}

static inline float wide_range(uint64_t clock, size_t i)
{
    return (vb_random_f32(1, clock, i) - 0.5f) *
           exp2f((float)(vb_random_u64(2, clock, i) % 40) - 30.0f);
}

#endif
