/*
 * doctor.h - what the checks of `verbena doctor` share, for the doctor*.c files only.
 */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cluster/spec.h"
#include "transport/net_dev.h"

enum doc_status { DOC_OK, DOC_WARN, DOC_FAIL };

struct doctor {
    /* options */
    char *cluster, *net_devices;
    bool require_rdma, json;
    uint64_t timeout_s;
    /* what was found */
    struct net_pick pick;
    struct net_devs devs;
    struct rdma_ports ports;
    struct cl_spec spec; /* empty: none was given */
    struct cl_addr *peer;
    size_t npeers;
    bool failed, no_fabric; /* what the exit code says */
};

/* One line. fix: what to do, "" when there is nothing to do. */
__attribute__((format(printf, 5, 6))) void doc_say(struct doctor *d, enum doc_status status,
                                                   const char *check, const char *fix,
                                                   const char *fmt, ...);
/* Each prints one line or more. */
void doc_host(struct doctor *d);    /* /sys, locked memory, memory, pages, CPUs, clock */
void doc_sockets(struct doctor *d); /* unix sockets */
void doc_net(struct doctor *d);     /* network and RDMA devices, GIDs, MTU, UCX */
void doc_peers(struct doctor *d);   /* names, routes, ports */

#endif
