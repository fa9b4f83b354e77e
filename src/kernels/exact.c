#include "kernels/exact.h"

#include "base/util.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    LOWEST = -320, /* what bit 0 of limb 0 counts: 2^LOWEST */
    LAZY = 1024,   /* terms of less than 2^53 that a 64-bit limb takes before it must carry */
};

/* wide: limbs that still hold their carries. */
static void fold(struct kn_exact *sum, const uint64_t wide[KN_EXACT_LIMBS])
{
    uint64_t carry = 0;

    for (size_t i = 0; i < KN_EXACT_LIMBS; i++) {
        const uint64_t limb = (uint64_t)sum->limb[i] + (wide[i] & UINT32_MAX) + carry;

        sum->limb[i] = (uint32_t)limb;
        carry = (limb >> 32) + (wide[i] >> 32);
    }
    if (carry != 0)
        sum->odd |= KN_EXACT_INF;
}

/* A term that is neither 0 nor a normal number in the range. */
static void add_odd(struct kn_exact *sum, double x)
{
    if (x == (double)INFINITY)
        sum->odd |= KN_EXACT_INF;
    else if (x != 0.0)
        sum->odd |= KN_EXACT_NAN;
}

static void add_some(struct kn_exact *sum, const double *x, size_t n)
{
    uint64_t wides[2][KN_EXACT_LIMBS] = { { 0 } }; /* in turn: neighbours hit the same limb */

    for (size_t i = 0; i < n; i++) {
        uint64_t *wide = wides[i % 2], bits;

        memcpy(&bits, &x[i], sizeof(bits));
        /* The term is fraction * 2^(exponent - 1075); at is where its last bit goes. A negative
         * term has a huge exponent here, 0 one below the range. */
        const uint64_t fraction = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
        const uint64_t at = (bits >> 52) - 1075 - (uint64_t)(int64_t)LOWEST;
        const unsigned shift = (unsigned)(at & 31);

        if (at > 32 * (KN_EXACT_LIMBS - 2) + 31) {
            const int exponent = (int)(bits >> 52) - 1023;

            if (exponent < -298 || exponent > 264)
                add_odd(sum, x[i]);
            else /* the last bits of the least terms are zeros below limb 0 */
                wide[0] += fraction >> (uint64_t)-at;
            continue;
        }
        wide[at / 32] += (fraction << shift) & UINT32_MAX;
        wide[at / 32 + 1] += fraction >> (32 - shift);
    }
    fold(sum, wides[0]);
    fold(sum, wides[1]);
}

void kn_exact_add(struct kn_exact *sum, const double *x, size_t n)
{
    for (size_t at = 0; at < n; at += LAZY)
        add_some(sum, x + at, VB_MIN(n - at, (size_t)LAZY));
}

void kn_exact_merge(struct kn_exact *sum, const struct kn_exact *other)
{
    uint64_t wide[KN_EXACT_LIMBS];

    for (size_t i = 0; i < KN_EXACT_LIMBS; i++)
        wide[i] = other->limb[i];
    fold(sum, wide);
    sum->odd |= other->odd & (KN_EXACT_INF | KN_EXACT_NAN);
}

double kn_exact_value(const struct kn_exact *sum)
{
    double x = 0.0;

    if ((sum->odd & KN_EXACT_NAN) != 0)
        return (double)NAN;
    if ((sum->odd & KN_EXACT_INF) != 0)
        return (double)INFINITY;
    for (size_t i = 0; i < KN_EXACT_LIMBS; i++)
        x += ldexp((double)sum->limb[i], 32 * (int)i + LOWEST);
    return x;
}
