/*
 * rig.h - one ps and some workers as a run would have them, each a process: control connections, hello,
 * links, one variable of so many bytes, SGD.
 */
#ifndef PERF_RIG_H
#define PERF_RIG_H

#include "cluster/control.h"
#include "ps/table.h"
#include "worker/exchange.h"

#include <sys/types.h>

enum { RIG_WORKERS_MAX = 16 };

struct rig {
    struct cl_addr addr[1 + RIG_WORKERS_MAX];
    struct cl_spec spec;
    struct ps_table table;
    struct ctl_params ctl;
    int listen_fd[1 + RIG_WORKERS_MAX];
    bool pinned; /* ps and worker on a processor each */
    struct tp_node *node;
    struct exchange *x;
    struct ctl *c;
    uint64_t clock;
};

/* Ports and chunk table. false: logged or out of memory. */
bool rig_make(struct rig *r, unsigned nworkers, uint64_t bytes, enum cl_transport transport);
/* A child that is the ps; below 0: no. It ends with the process that made it. */
pid_t rig_start_ps(struct rig *r);
/* This process becomes that worker and waits for the start. */
bool rig_be_worker(struct rig *r, unsigned worker);
/* One synchronous exchange of all chunks. */
bool rig_exchange(struct rig *r);
/* Worker 0 gives the first values. */
bool rig_init(struct rig *r);
void rig_finish(struct rig *r);

#endif
