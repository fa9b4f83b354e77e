/* tables.h - the tables of kernels that this CPU can run; the reference comes first. */
#ifndef TESTS_KERNELS_TABLES_H
#define TESTS_KERNELS_TABLES_H

#include "kernels/kn.h"

static inline size_t tables(const struct kn_ops *out[2])
{
    size_t n = 0;

    out[n++] = &kn_ref;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        out[n++] = &kn_avx2;
#endif
    return n;
}

#endif
