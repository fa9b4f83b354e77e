/*
 * link.h - `verbena perf link-lat`, `link-bw`, `link-rate` and `wake`: what one link does, against the same
 * done without verbena by the same two processes, in turn.
 */
#ifndef PERF_LINK_H
#define PERF_LINK_H

#include "perf/bench.h"
#include "perf/pair.h"

struct link_params {
    bool way[TP_LOOP]; /* which of map, rdma, tcp */
    uint64_t bytes;    /* 0: all sizes */
    unsigned rounds;
    const char *host; /* rdma, tcp: own numeric address */
    bool netns;       /* tcp: between two network namespaces instead of over loopback */
};

/* Is the way asked for and here? RDMA without a device is left out with a word. */
bool link_usable(const struct link_params *p, enum tp_way way, const char *bench);

/* false: a case failed (logged). Call before any thread exists. */
bool perf_link_lat(const struct bench_out *o, const struct link_params *p);
bool perf_link_bw(const struct bench_out *o, const struct link_params *p);
bool perf_link_rate(const struct bench_out *o, const struct link_params *p);
bool perf_wake(const struct bench_out *o, const struct link_params *p);

#endif
