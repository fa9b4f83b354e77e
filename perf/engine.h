/*
 * engine.h - `verbena perf` of what a ps does: pull-lat, read-lat, barrier, apply, overlap, ssp, and pushpull
 * against the all-reduce of others. What each measures is said in its file.
 */
#ifndef PERF_ENGINE_H
#define PERF_ENGINE_H

#include "cluster/control.h"
#include "perf/bench.h"

struct perf_engine_params {
    enum cl_transport transport; /* CL_AUTO: map, then tcp */
    uint64_t bytes;              /* 0: the usual sizes */
    unsigned rounds;
    unsigned workers; /* 0: the usual numbers */
    double rate_mbit; /* tune: the cable */
    unsigned delay_us;
    const char *out; /* tune, fit: the file to write */
};

/* false: a case failed (logged). Call before any thread exists. */
typedef bool perf_engine(const struct bench_out *o, const struct perf_engine_params *p);
perf_engine perf_pull_lat, perf_read_lat, perf_barrier, perf_apply, perf_overlap, perf_ssp,
    perf_tune, perf_fit, perf_allreduce;

#endif
