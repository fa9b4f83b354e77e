/* codec_priv.h - what codec.c asks of each kind of codec. */
#ifndef KERNELS_CODEC_PRIV_H
#define KERNELS_CODEC_PRIV_H

#include "kernels/codec.h"

struct codec_ops {
    size_t (*bytes)(const struct kn_codec *c, size_t n);
    /* x: finite; what is to be sent, then the residual. n >= 1. */
    void (*encode)(void *dst, float *x, size_t n, const struct kn_codec *c,
                   const struct kn_codec_turn *turn);
    /* src has `bytes(c, n)` bytes, hostile. n >= 1. */
    enum vb_st (*decode)(float *dst, const void *src, size_t n, const struct kn_codec *c,
                         const struct kn_codec_turn *turn);
};

extern const struct codec_ops codec_half, codec_int8, codec_onebit, codec_topk, codec_randomk;

/* How many of n >= 1 elements are sent. */
size_t codec_count(const struct kn_codec *c, size_t n);

#endif
