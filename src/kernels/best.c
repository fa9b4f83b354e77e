#include "kernels/kn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Every CPU with AVX2 is said to have it; not every compiler can be asked. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool kn_can_run(const struct kn_ops *k)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();

    if (k == &kn_avx512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return k == &kn_ref || avx2;
}

static const struct kn_ops *choose(void)
{
    static const struct kn_ops *const table[] = { &kn_ref, &kn_avx2, &kn_avx512 };
    const char *force = getenv("VB_KERNELS");
    const struct kn_ops *best = &kn_ref;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!kn_can_run(table[i]))
            continue;
        best = table[i];
        if (force != NULL && strcmp(force, best->name) == 0)
            break;
    }
    return best;
}
#else
bool kn_can_run(const struct kn_ops *k)
{
    return k == &kn_ref;
}

static const struct kn_ops *choose(void)
{
    return &kn_ref;
}
#endif

const struct kn_ops *kn_best(void)
{
    static _Atomic(const struct kn_ops *) chosen;
    /* relaxed: the tables are constants, and every thread that chooses chooses alike */
    const struct kn_ops *best = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (best == NULL) {
        best = choose();
        atomic_store_explicit(&chosen, best, memory_order_relaxed);
    }
    return best;
}
