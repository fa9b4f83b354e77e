/* overlap.h - steps over a cable, of perf overlap and perf tune: overlap.c. */
#ifndef PERF_OVERLAP_H
#define PERF_OVERLAP_H

#include "perf/engine.h"
#include "perf/netns.h"
#include "perf/turn.h"

struct overlap_cable {
    double bytes_per_s; /* of payload, each way */
    unsigned delay_us;  /* one way; 0: what there is */
};
/* Two namespaces and a cable. false: logged. gives: netns_drop. */
bool overlap_lay(struct netns *ns, const struct overlap_cable *c);

struct overlap_case {
    uint64_t bytes; /* of all parameters */
    uint64_t chunk_bytes, credit_bytes;
    unsigned rounds;
    double round_s; /* each way */
};
/* out: seconds of a step, and of its compute alone. false: logged. */
bool overlap_measure(const struct netns *ns, const struct overlap_case *c, struct turn_result *out);

/* The cable's rate at which so many bytes take their share of the compute time, and the other way round. */
double overlap_rate(uint64_t bytes);
uint64_t overlap_bytes(double bytes_per_s);

#endif
