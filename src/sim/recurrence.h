/*
 * recurrence.h - when workers start and end their clocks if nothing but the bound holds them up:
 *
 *   start_i(c) = max(fin_i(c - 1), max_j fin_j(c - s - 1) + d),   fin_i(c) = start_i(c) + X_i(c)
 *
 * X: compute time of worker i in clock c; d: from a push to the release of whoever waits for it. The
 * oracle of the simulator and of measured runs. s of UINT32_MAX: nobody waits.
 */
#ifndef SIM_RECURRENCE_H
#define SIM_RECURRENCE_H

#include "verbena/status.h"

#include <stdint.h>

typedef double sim_compute_fn(void *arg, uint32_t worker, uint64_t clock);

struct rec_params {
    uint32_t nworkers, staleness;
    uint64_t clocks;
    double release; /* d */
    sim_compute_fn *compute;
    void *arg;
};

/* Until all workers have ended all clocks. VB_INVAL: no workers or no clocks. VB_NOMEM. */
VB_MUST_CHECK enum vb_st rec_run(const struct rec_params *p, double *end_out);

#endif
