/* pushpull.h - `verbena perf pushpull` and `push`; what it measures is said in pushpull.c. */
#ifndef PERF_PUSHPULL_H
#define PERF_PUSHPULL_H

#include "cluster/control.h"
#include "perf/bench.h"

struct perf_pushpull_params {
    enum cl_transport transport; /* CL_AUTO: map, then tcp */
    uint64_t bytes;              /* 0: 1 KiB to 256 MiB; push: 1 to 64 MiB */
    bool push;                   /* as `push`: over map, large ones only */
};

/* false: a case failed (logged). Call before any thread exists. */
bool perf_pushpull(const struct bench_out *o, const struct perf_pushpull_params *p);

#endif
