/* idle.h - `verbena perf idle` and `copies`; what they measure is said in idle.c and copies.c. */
#ifndef PERF_IDLE_H
#define PERF_IDLE_H

#include "perf/bench.h"
#include "perf/link.h"

/* false: a case failed (logged). Call before any thread exists. */
bool perf_idle(const struct bench_out *o, const struct link_params *p);
/* Starts this program again, with a library preloaded that counts. */
bool perf_copies(const struct bench_out *o, const struct link_params *p);
/* Is this that second program? It prints rows and nothing before. */
bool perf_copies_counting(void);

#endif
