#include "kernels/kn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct kn_ops *choose(void)
{
    const struct kn_ops *best = &kn_ref;

#if defined(__x86_64__)
    const char *force = getenv("VB_KERNELS");
    const bool ref_only = force != NULL && strcmp(force, kn_ref.name) == 0;

    if (!ref_only && __builtin_cpu_supports("avx2"))
        best = &kn_avx2;
#endif
    return best;
}

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
