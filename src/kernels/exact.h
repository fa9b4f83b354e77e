/*
 * exact.h - a sum of squares of floats that does not depend on the order of its terms.
 *
 * A fixed-point number wide enough for every such term: adding is exact, so it is associative, and
 * chunks, lanes and ps may be added in any order and in any grouping with the same bits at the end
 * (Kulisch's long accumulator; limbs with lazy carries as in Neal, "Fast exact summation using small
 * and large superaccumulators", 2015). Pure functions. Thread: any.
 */
#ifndef KERNELS_EXACT_H
#define KERNELS_EXACT_H

#include <stddef.h>
#include <stdint.h>

enum { KN_EXACT_LIMBS = 20 };
enum { KN_EXACT_INF = 1, KN_EXACT_NAN = 2 };

/* limb[i] counts 2^(32 i - 320). All zero is the number 0. Any content is a number: it may come from
 * a peer as it is. */
struct kn_exact {
    uint32_t limb[KN_EXACT_LIMBS];
    uint32_t odd; /* terms that were no numbers: KN_EXACT_INF, KN_EXACT_NAN */
};

/* sum += x[0] + ... + x[n - 1]. Each term is 0 or in [2^-298, 2^264], as sums of 16 squares of floats
 * are, infinite or a NaN; one that is negative or cannot be held counts as a NaN. */
void kn_exact_add(struct kn_exact *sum, const double *x, size_t n);
/* sum += other; a sum of 2^320 or more becomes infinite. */
void kn_exact_merge(struct kn_exact *sum, const struct kn_exact *other);
/* The sum as a double, within 2^-51 of it; infinity or NaN when such a term was in it. */
double kn_exact_value(const struct kn_exact *sum);

#endif
