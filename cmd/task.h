/*
 * task.h - what a job's file says about shapes: the model, its classes of variables and the chunk
 * table. The same in all tasks.
 */
#ifndef CMD_TASK_H
#define CMD_TASK_H

#include "cmd/job.h"
#include "ps/class.h"
#include "worker/model.h"

struct task_shape {
    struct model model;
    struct ps_table table;
    struct ps_class cls[PS_CLASSES_MAX]; /* table.nclasses of them */
    uint32_t bad_layer; /* after a failure: which layer does not fit; nlayers: the list */
};

/* From a job whose found.input is known. gives: task_shape_fini, also after a failure. */
VB_MUST_CHECK enum vb_st task_shape_make(const struct job *job, struct task_shape *out,
                                         struct vb_err *err);
void task_shape_fini(struct task_shape *s);

#endif
