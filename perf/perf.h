/*
 * perf.h - `verbena perf`: measures what this machine can do.
 */
#ifndef PERF_PERF_H
#define PERF_PERF_H

/* argv[0] is "perf". Returns the exit code. */
int perf_main(int argc, char **argv);

#endif
