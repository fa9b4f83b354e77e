/*
 * jitter.h - how long a worker computes in a clock, as a factor of the mean: what proofs, comparisons and
 * the simulator pretend. Pure: the same numbers for whoever asks, in any order. Any thread.
 *
 *   none       1
 *   exp        0.5 + 0.5 * Exp(1)
 *   straggler  5 for worker c mod n in clock c, else 1
 *   each       5 with probability 1/n, else 1
 *   pareto     Pareto(2.2) of mean 1
 *   slow       2 for worker 0, else 1
 *   pause      20 with probability 1/100, else 1
 */
#ifndef WORKER_JITTER_H
#define WORKER_JITTER_H

#include <stdint.h>

enum jitter {
    JITTER_NONE,
    JITTER_EXP,
    JITTER_STRAGGLER,
    JITTER_EACH,
    JITTER_PARETO,
    JITTER_SLOW,
    JITTER_PAUSE
};

extern const char *const jitter_names[]; /* by model, NULL ends */

double jitter_factor(enum jitter model, uint64_t seed, uint32_t worker, uint32_t nworkers,
                     uint64_t clock);

/* The mean of its factors over all workers and clocks. */
double jitter_mean(enum jitter model, uint32_t nworkers);

#endif
