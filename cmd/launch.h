/*
 * launch.h - all tasks of a job as processes of this host.
 */
#ifndef CMD_LAUNCH_H
#define CMD_LAUNCH_H

#include "cmd/job.h"

struct launch_params {
    bool progress;       /* with JSON: progress as well */
    bool links_only;     /* nothing is trained */
    uint64_t loss_every; /* with JSON: loss events after so many steps; 0: none */
};

/* job has been checked. The exit code; its cause has been printed. */
int cmd_launch(const struct job *job, const struct launch_params *p);

#endif
