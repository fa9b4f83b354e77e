#include "kernels/kn.h"

#include <math.h>

size_t kn_opt_state(enum kn_opt_kind kind)
{
    switch (kind) {
    case KN_SGD:
        return 0;
    case KN_MOMENTUM:
        return 1;
    case KN_ADAM:
        return 2;
    }
    return 0;
}

struct kn_step kn_opt_step(const struct kn_opt *o, uint64_t t, uint64_t samples)
{
    struct kn_step s = { .scale = samples > 0 ? (float)(1.0 / (double)samples) : 0.0f };

    if (o->kind == KN_ADAM) {
        s.rate_t = (float)((double)o->rate / (1.0 - pow((double)o->beta1, (double)t)));
        s.inv_c2 = (float)(1.0 / sqrt(1.0 - pow((double)o->beta2, (double)t)));
    }
    return s;
}
