/*
 * server.h - what `verbena server` hands to the task that it runs.
 */
#ifndef CMD_SERVER_H
#define CMD_SERVER_H

#include "cluster/spec.h"
#include "cmd/job.h"

struct server_params {
    bool no_auth; /* explicit; else secret is the job's */
    unsigned char secret[32];
    int listen_fd;       /* bound and listening for this task's address; takes; -1: none */
    bool launched;       /* by `verbena train`, which puts the task's name before each line */
    bool links_only;     /* links come up and are described, nothing is trained */
    uint64_t loss_every; /* every worker writes a loss event after so many steps; 0: none */
    bool progress;       /* the chief writes progress events (at most five a second) */
};

/*
 * Runs one task to its end; the exit code. job has been checked, its ps and workers are the spec's.
 * SIGINT and SIGTERM are caught (sig_catch of cmd/signals.h), SIGPIPE is ignored.
 */
int cmd_server_run(const struct job *job, const struct cl_spec *spec, uint32_t rank,
                   const struct server_params *p);

#endif
