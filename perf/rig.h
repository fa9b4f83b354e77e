/*
 * rig.h - one ps and some workers as a run would have them, each a process: control connections, hello,
 * links, variables, SGD. One process for all, or two network namespaces (netns.h).
 */
#ifndef PERF_RIG_H
#define PERF_RIG_H

#include "cluster/control.h"
#include "ps/table.h"
#include "worker/exchange.h"

#include <sys/types.h>

enum { RIG_WORKERS_MAX = 16, RIG_VARS_MAX = 64 };

struct rig {
    struct cl_addr addr[1 + RIG_WORKERS_MAX];
    struct cl_spec spec;
    struct ps_table table;
    struct ctl_params ctl;
    int listen_fd[1 + RIG_WORKERS_MAX];
    bool pinned;                        /* ps and worker on a processor each */
    int netns[2];                       /* of workers, of the ps; 0: this one */
    uint64_t credit_bytes, chunk_bytes; /* given; 0: the usual */
    struct ps_class cls;                /* of all variables; zeroed: sync */
    unsigned worker;
    struct tp_node *node;
    struct exchange *x;
    struct ctl *c;
    uint64_t clock;
};

/* Where the ports of all rigs are from now on; borrowed. Without: 127.0.0.1. */
void rig_at(const char *host);
/* Ports and chunk table; of r credit_bytes and chunk_bytes are given. false: logged or out of memory. */
bool rig_make(struct rig *r, unsigned nworkers, uint64_t bytes, enum cl_transport transport);
/* The same with several variables of so many bytes. */
bool rig_make_many(struct rig *r, unsigned nworkers, uint32_t nvars, uint64_t bytes,
                   enum cl_transport transport);
/* The ports are in those namespaces instead. false: logged. */
bool rig_move(struct rig *r, const int netns[2], const char *const host[2]);
/* A child that is the ps; below 0: no. It ends with the process that made it. */
pid_t rig_start_ps(struct rig *r);
/* This process becomes that worker and waits for the start. */
bool rig_be_worker(struct rig *r, unsigned worker);
/* One synchronous exchange of all chunks. */
bool rig_exchange(struct rig *r);
/* Worker 0 gives the first values; all wait for them. */
bool rig_init(struct rig *r);
/* Until all parameters are there for the clock. */
bool rig_wait(struct rig *r);
bool rig_wait_var(struct rig *r, uint32_t var); /* until that one is */
void rig_finish(struct rig *r);
/* Where tasks are children: this process's own copies of their ports. */
void rig_drop_ports(struct rig *r);

#endif
