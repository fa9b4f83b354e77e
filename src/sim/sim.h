/*
 * sim.h - a run of a job in virtual time: the engines of the lanes are those of a real run, computing and
 * links are numbers. Deterministic. One class of variables.
 *
 * Links are LogGP (Alexandrov et al., SPAA 1995): a message of k bytes keeps its sender busy for
 * max(overhead, gap) + k * per_byte, is on its way for the latency, and keeps its receiver busy as long
 * as the sender. A ps's lane takes gradients one by one, apply_per_byte each. Seconds throughout.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "ps/rule.h"
#include "ps/table.h"
#include "sim/recurrence.h"

struct sim_link {
    double latency, overhead, gap, per_byte;
};

struct sim_params {
    const struct ps_table *table;
    const struct ps_rule *rule;
    uint32_t nworkers;
    uint64_t steps;
    struct sim_link link; /* the same between all tasks */
    double apply_per_byte;
    double
        told; /* PS_BACKUP: from a lane's word to the coordinator's at a lane; 0: two latencies */
    double
        push_ratio; /* bytes of gradients by bytes that travel; 0: 1. INFINITY: none do, they are read in place */
    double pull_ratio; /* the same of parameters */
    uint32_t dies;     /* this worker plus 1 does not come back from its step dies_at; 0: none */
    uint64_t dies_at;
    double noticed; /* then the engines are told after so long */
    sim_compute_fn *compute;
    void *arg;
    double *
        waited_for; /* nworkers x nworkers, added to: who waited how long for whose push; NULL: not wanted */
};

struct sim_result {
    double seconds;             /* until every worker could begin one more step */
    double waited, waited_most; /* between steps: mean over the workers, and of who waited most */
    uint64_t staleness[PS_STALENESS_BUCKETS];
    uint64_t pushed_bytes, pulled_bytes, dropped; /* dropped: gradients */
    uint64_t steps;                               /* that workers have made, all together */
};

/* VB_INVAL: no workers, no steps, more than one class, or numbers that an engine cannot hold. VB_NOMEM. */
VB_MUST_CHECK enum vb_st sim_run(const struct sim_params *p, struct sim_result *out);

#endif
