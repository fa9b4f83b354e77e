/*
 * server.h - one ps task: its range of parameters, a thread per lane, the control thread. Blocks until
 * the run has ended.
 */
#ifndef PS_SERVER_H
#define PS_SERVER_H

#include "cluster/control.h"
#include "kernels/kn.h"
#include "ps/lane.h"
#include "ps/rule.h"
#include "ps/table.h"

struct ps_params {
    struct ctl_params ctl; /* spec, rank, secret, config, listen_fd, transport, timeouts */
    const struct ps_table *table;
    const struct ps_rule *rule;   /* NULL: sync */
    const struct kn_codec *codec; /* of pushes; NULL: they are not encoded */
    const struct kn_opt *optimizer;
    enum ps_nan on_nan;
    struct ps_async async;
    uint64_t step_ns; /* how long a step may wait for a worker; 0: 600 s */
    /* The control thread exists from now on (NULL: until now); for signals. Optional. */
    void (*control)(void *arg, struct ctl *c);
    void *arg;
};

/* The exit code; its cause has been logged. */
enum vb_exit ps_run(const struct ps_params *p);

#endif
