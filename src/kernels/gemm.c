#include "kernels/kn.h"

#include "base/util.h"

#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void kn_gemm(float *c, const float *a, const float *b, bool ta, bool tb, size_t m, size_t n,
             size_t k)
{
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        memset(c, 0, m * n * sizeof(*c));
        return;
    }
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)(ta ? m : k), b,
                (blasint)(tb ? k : n), 0.0f, c, (blasint)n);
}

void kn_gemm_threads(unsigned n)
{
    openblas_set_num_threads(n < INT_MAX ? (int)n : INT_MAX);
}

const char *kn_gemm_better_core(void)
{
#if defined(__x86_64__)
    /* Cores of OpenBLAS without AVX2: what it falls back to when it does not know the CPU. */
    static const char *const old[] = { "Katmai",       "Coppermine", "Northwood",  "Prescott",
                                       "Banias",       "Atom",       "Core2",      "Penryn",
                                       "Dunnington",   "Nehalem",    "Athlon",     "Opteron",
                                       "Opteron_SSE3", "Barcelona",  "Bobcat",     "Nano",
                                       "Sandybridge",  "Bulldozer",  "Piledriver", "Steamroller" };
    const char *core = openblas_get_corename();

    if (getenv("OPENBLAS_CORETYPE") != NULL)
        return NULL;
    for (size_t i = 0; i < VB_ARRAY_LEN(old); i++) {
        if (strcasecmp(core, old[i]) != 0)
            continue;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512cd"))
            return "SkylakeX";
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : NULL;
    }
#endif
    return NULL;
}
