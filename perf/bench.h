/*
 * bench.h - what all measurements share: rounds of two things taken in turn (A B A B ...), medians,
 * and one way of printing. Thread: one.
 */
#ifndef PERF_BENCH_H
#define PERF_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_ROUNDS = 7, BENCH_ROUNDS_MAX = 64 };

double bench_now_s(void);
/* Sorts x. */
double bench_median(double *x, size_t n);
/* (third quartile - first quartile) / median; sorts x. */
double bench_spread(double *x, size_t n);

/* One result. A figure below 0 is unknown and printed as null. */
struct bench_row {
    const char *bench;
    const char *cases; /* members of the case object: "\"way\": \"map\", \"bytes\": 1024" */
    double value;
    const char *unit; /* "s", "B/s", "1/s" */
    double baseline;
    double goal;
    bool goal_of_value; /* the goal is for value, not for the ratio */
    bool more_is_better;
    bool noisy;         /* the baseline's spread is over 10 %: no verdict */
    double first;       /* the first iteration, seconds; below 0: not taken */
    const char *label;  /* for the table */
    const char *series; /* for the plot; NULL: not in it */
    uint64_t bytes;
};

struct plot;
struct bench_out {
    bool json;
    struct plot *plot; /* NULL: none */
};

/* The machine, the commit and the command, before any row. */
void bench_head(const struct bench_out *o, int argc, char **argv);
void bench_print(const struct bench_out *o, const struct bench_row *r);

/* Keeps this process (and threads it starts) on the i-th of the processors it may use, modulo. */
void bench_pin(unsigned i);
unsigned bench_cpus(void);

#endif
