/*
 * server.h - one ps task: its range of parameters, a thread per lane, the control thread. Blocks until
 * the run has ended.
 */
#ifndef PS_SERVER_H
#define PS_SERVER_H

#include "cluster/control.h"
#include "ps/lane.h"

struct ps_params {
    struct ctl_params ctl; /* spec, rank, secret, config, listen_fd, transport, timeouts */
    const struct ps_table *table;
    const struct ps_class *cls; /* table->nclasses of them */
    enum ps_nan on_nan;
    uint64_t credit_bytes; /* of a link to another host (tp_node_params); 0: the usual */
    uint64_t step_ns;      /* how long a step may wait for a worker; 0: 600 s */
    /* The control thread exists from now on (NULL: until now); for signals. Optional. */
    void (*control)(void *arg, struct ctl *c);
    void *arg;
};

/* The exit code; its cause has been logged. */
enum vb_exit ps_run(const struct ps_params *p);

#endif
