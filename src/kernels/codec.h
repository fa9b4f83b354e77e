/*
 * codec.h - compressed gradients with error feedback: what the codec leaves out now is added to what is
 * sent next (Seide et al. 2014; Karimireddy et al. 2019).
 *
 *   f16, bf16  2 bytes each, rounded to nearest even, cut off at the format's largest number
 *   int8       multiples of a scale, max |x| / 127 of each KN_INT8_BLOCK, rounded to nearest even
 *   onebit     a bit each: its sign; and for each KN_ONEBIT_BLOCK the mean of either kind
 *   topk       the k largest |x|, of equal ones the first, with 32-bit indices (Aji & Heafield 2017)
 *   randomk    k of them chosen by seed, chunk and clock, which both ends know: only values travel
 *
 * For every element decoded + residual after == src + residual before, the right side rounded to
 * float once; exactly for all but onebit (there the residual is rounded to float once more) and f16
 * of |x| >= 2^29. Integers and floats are little-endian; buffers are aligned to 4 bytes; n is at most
 * 2^32. Pure functions, the same bits on every CPU. Thread: any.
 */
#ifndef KERNELS_CODEC_H
#define KERNELS_CODEC_H

#include "verbena/status.h"

#include <stddef.h>
#include <stdint.h>

enum { KN_INT8_BLOCK = 256, KN_ONEBIT_BLOCK = 512 };

enum kn_codec_kind {
    KN_CODEC_F16,
    KN_CODEC_BF16,
    KN_CODEC_INT8,
    KN_CODEC_ONEBIT,
    KN_CODEC_TOPK,
    KN_CODEC_RANDOMK,
};

/* Both ends have the same. */
struct kn_codec {
    enum kn_codec_kind kind;
    double share;  /* topk, randomk: of the elements that are sent, rounded up, one at least */
    uint64_t seed; /* randomk */
};

/* Which one is sent; randomk chooses by it. */
struct kn_codec_turn {
    uint64_t chunk, clock;
};

/* Bytes that n elements become, whatever their values. */
size_t kn_codec_bytes(const struct kn_codec *c, size_t n);

/* src + residual goes to dst (kn_codec_bytes), what is not in there stays in residual. VB_INVAL: an
 * element of src + residual is infinite or a NaN; nothing has changed. */
VB_MUST_CHECK enum vb_st kn_encode(void *dst, float *residual, const float *src, size_t n,
                                   const struct kn_codec *c, const struct kn_codec_turn *turn);

/* All n elements of dst are written. VB_PROTO: src is not what kn_encode makes (its size, an index out of
 * range or not above the one before, anything infinite or a NaN); dst may have changed. */
VB_MUST_CHECK enum vb_st kn_decode(float *dst, const void *src, size_t bytes, size_t n,
                                   const struct kn_codec *c, const struct kn_codec_turn *turn);

#endif
