/*
 * runs.h - whole runs of a job (`verbena train` as a child) and what came of them, for the commands that compare some.
 */
#ifndef CMD_RUNS_H
#define CMD_RUNS_H

#include "cmd/job.h"

struct run_params {
    const struct job *job;     /* its file, and what was given on the command line */
    const char *const *option; /* more options, which win: "--mode=async"; NULL ends */
    uint64_t loss_every;       /* steps of a point of loss; 0: none */
};

/* A point: loss of all workers' steps up to `step`, at `seconds` of training. */
struct run_point {
    double step, loss, seconds;
};

struct run_result {
    int code;
    char why[200]; /* code is not 0: its last word */
    struct run_point *point;
    size_t npoints;
    double steps, seconds, samples_per_s, accuracy, pushed_bytes, pulled_bytes;
    double staleness; /* steps behind, mean over what was read; at most 16 is counted */
    double waited_s;  /* by all workers, for others and for answers */
    double most_s;    /* the longest of one worker for another, */
    char most_who[48], most_whom[48];
};

/* gives: run_fini. false: it could not be started (errno). Signals that end this process end the run, and
 * run_stopped says which. */
bool run_job(const struct run_params *p, struct run_result *out);
void run_fini(struct run_result *r);
int run_stopped(void); /* 0: none */

#endif
