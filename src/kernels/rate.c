#include "kernels/optim.h"

#include <math.h>

double kn_rate_factor(const struct kn_rate *r, uint64_t t)
{
    const uint64_t every = r->every > 0 ? r->every : 1, since = t - 1 - r->warmup;
    const double pi = 3.14159265358979323846;

    if (t <= r->warmup)
        return (double)t / (double)r->warmup;
    switch (r->kind) {
    case KN_RATE_CONSTANT:
        return 1.0;
    case KN_RATE_STEP:
        return pow(r->gamma, (double)(since / every));
    case KN_RATE_COSINE: {
        const double share = since < every ? (double)since / (double)every : 1.0;

        return r->floor + (1.0 - r->floor) * (1.0 + cos(pi * share)) / 2.0;
    }
    case KN_RATE_RSQRT:
        return sqrt((double)(r->warmup > 0 ? r->warmup : 1) / (double)t);
    }
    return 1.0;
}
