/*
 * turn.h - two things measured in turn where each needs processes of its own: every process waits for an order
 * (how many), does that many, and answers with the seconds it took. Orders and answers are lines of text, so
 * that a program in another language can be the other thing. While one works the others sleep.
 */
#ifndef PERF_TURN_H
#define PERF_TURN_H

#include "perf/bench.h"

#include <stdio.h>
#include <sys/types.h>

struct turn {
    pid_t pid;
    FILE *in, *out;
    unsigned what; /* sent with every order: one process can do several things */
};

/* n of the thing `what`, in seconds; below 0: failed. */
typedef double turn_part(void *arg, unsigned what, uint64_t n);

/* A child that sets itself up and calls turn_serve in body. It ends with this process. Call before any
 * thread exists. */
bool turn_fork(struct turn *t, void (*body)(void *arg), void *arg);
/* In the child (or a child of it): says that it is ready, then does what it is told until the end. */
void turn_serve(turn_part *part, void *arg);
/* A program that does the same over stdin and stdout; one thread for BLAS and the like. */
bool turn_exec(struct turn *t, const char *const *argv);

/* Waits until all are ready. false: one is not. */
bool turn_ready(struct turn *t, unsigned count);
/* All at once: the longest of their times (a program may answer with something else); below 0: failed. */
double turn_time(struct turn *t, unsigned count, double n);
/* Takes zeroed. */
void turn_stop(struct turn *t, unsigned count);

struct turn_race {
    struct turn *ours, *base; /* base NULL: none */
    unsigned nours, nbase, rounds;
    double round_s; /* about so long each time */
};
struct turn_result {
    double value, value_spread, base, base_spread, first; /* seconds of one */
};

/* false: one of them failed. */
bool turn_run(const struct turn_race *r, struct turn_result *out);

#endif
