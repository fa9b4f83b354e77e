/* sim.h - what `verbena sim` shares between its files: sim.c (options, one prediction), sim_sweep.c (many of them). */
#ifndef CMD_SIM_H
#define CMD_SIM_H

#include "cmd/job.h"
#include "sim/sim.h"

struct sim_conf {
    uint64_t steps;
    double latency_us, overhead_us, gap_us, gb_per_s, apply_gb_per_s, noticed;
    char *fit, *lose, *sweep, *plot;
    bool against_runs;
    uint32_t dies; /* of lose: worker plus 1, 0: none */
    uint64_t dies_at;
};

/* job has been checked. waited_for: as in sim_params. VB_EXIT_OK, or the code after the line was printed. */
int sim_predict(const struct sim_conf *c, const struct job *j, double *waited_for,
                struct sim_result *out);

/* --sweep KEY=V,V,...: a prediction, and with --against-runs a real run, for each value. job is changed. */
int sim_sweep(const struct sim_conf *c, struct job *job);

#endif
