/* tables.h - the tables of kernels that this CPU can run; the reference comes first. */
#ifndef TESTS_KERNELS_TABLES_H
#define TESTS_KERNELS_TABLES_H

#include "kernels/kn.h"

enum { TABLES_MAX = 3 };

static inline size_t tables(const struct kn_ops *out[TABLES_MAX])
{
    size_t n = 0;

    out[n++] = &kn_ref;
#if defined(__x86_64__)
    if (kn_can_run(&kn_avx2))
        out[n++] = &kn_avx2;
    if (kn_can_run(&kn_avx512))
        out[n++] = &kn_avx512;
#endif
    return n;
}

#endif
