#include "worker/jitter.h"

#include "base/random.h"

#include <math.h>
#include <stddef.h>

#define PARETO_SHAPE 2.2
#define PAUSE_P 0.01

const char *const jitter_names[] = { "none",   "exp",  "straggler", "each",
                                     "pareto", "slow", "pause",     NULL };

/* In (0, 1): 53 bits, never an end, so that logarithms are finite. */
static double uniform(uint64_t seed, uint32_t worker, uint64_t clock)
{
    const uint64_t bits = vb_random_u64(seed, vb_hash_str("jitter") + worker, clock) >> 11;

    return ((double)bits + 0.5) * 0x1p-53;
}

double jitter_factor(enum jitter model, uint64_t seed, uint32_t worker, uint32_t nworkers,
                     uint64_t clock)
{
    const double u = uniform(seed, worker, clock);

    switch (model) {
    case JITTER_NONE:
        return 1;
    case JITTER_EXP:
        return 0.5 - 0.5 * log(u);
    case JITTER_STRAGGLER:
        return clock % nworkers == worker ? 5 : 1;
    case JITTER_EACH:
        return u * nworkers < 1 ? 5 : 1;
    case JITTER_PARETO:
        return (PARETO_SHAPE - 1) / PARETO_SHAPE * pow(u, -1 / PARETO_SHAPE);
    case JITTER_SLOW:
        return worker == 0 ? 2 : 1;
    case JITTER_PAUSE:
        return u < PAUSE_P ? 20 : 1;
    }
    return 1;
}

double jitter_mean(enum jitter model, uint32_t nworkers)
{
    switch (model) {
    case JITTER_STRAGGLER:
    case JITTER_EACH:
        return (nworkers + 4.0) / nworkers;
    case JITTER_SLOW:
        return (nworkers + 1.0) / nworkers;
    case JITTER_PAUSE:
        return 1 + 19 * PAUSE_P;
    default:
        return 1;
    }
}
