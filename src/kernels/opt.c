#include "kernels/optim.h"

#include <math.h>

size_t kn_opt_state(enum kn_opt_kind kind)
{
    switch (kind) {
    case KN_SGD:
    case KN_SUM:
        return 0;
    case KN_MOMENTUM:
    case KN_NESTEROV:
    case KN_ADAGRAD:
    case KN_RMSPROP:
        return 1;
    case KN_ADAM:
    case KN_ADAMW:
    case KN_FTRL:
    case KN_LAMB:
        return 2;
    }
    return 0;
}

struct kn_step kn_opt_step(const struct kn_opt *o, uint64_t t, uint64_t samples)
{
    const double rate = (double)o->rate * kn_rate_factor(&o->schedule, t);
    struct kn_step s = {
        .scale = samples > 0 ? (float)(1.0 / (double)samples) : 0.0f,
        .norm = 1.0f,
        .rate = (float)rate,
        .keep = 1.0f,
        .trust = 1.0f,
    };

    if (o->kind == KN_ADAM || o->kind == KN_ADAMW || o->kind == KN_LAMB) {
        const double c1 = 1.0 - pow((double)o->beta1, (double)t);

        s.rate_t = (float)(rate / c1);
        s.inv_c1 = (float)(1.0 / c1);
        s.inv_c2 = (float)(1.0 / sqrt(1.0 - pow((double)o->beta2, (double)t)));
    }
    if (o->kind == KN_ADAMW)
        s.keep = (float)(1.0 - rate * (double)o->weight_decay);
    return s;
}

float kn_opt_norm(const struct kn_opt *o, const struct kn_exact *squares)
{
    const double factor = (double)o->clip_norm / (sqrt(kn_exact_value(squares)) + 1e-6);

    return o->clip_norm > 0.0f && !(factor >= 1.0) ? (float)factor : 1.0f;
}

float kn_opt_trust(const struct kn_exact *w_squares, const struct kn_exact *u_squares)
{
    const double w = sqrt(kn_exact_value(w_squares)), u = sqrt(kn_exact_value(u_squares));

    return w != 0.0 && u != 0.0 ? (float)(w / u) : 1.0f;
}
