/* task.h - the inside of one running worker, shared by train.c (life), step.c and evaluate.c. */
#ifndef WORKER_TASK_H
#define WORKER_TASK_H

#include "worker/exchange.h"
#include "worker/exec.h"
#include "worker/train.h"

enum {
    EVAL_ROWS = 500,
    EPOCHS_OPEN = 64
}; /* data epochs that a worker may be ahead of the others */

struct task {
    const struct wk_params *p;
    uint32_t worker, nworkers;
    bool chief;
    struct tp_node *node;
    struct exchange *x;
    struct ctl *ctl;
    struct feed train, test;
    struct exec *exec, *eval;
    struct task_local {
        float *w; /* lines of parameters and two of state; NULL: the ps has all optimizers */
        uint64_t *rounds; /* per variable: that have been made */
    } local;
    float *scratch;  /* gradients below the first level of the one sum */
    uint64_t nmicro; /* micro-batches of this worker in a step */
    uint64_t clock, steps, steps_per_epoch;
    uint64_t round; /* steps that this worker has made: the clock, but where it was left behind */
    uint64_t epochs_ended;
    uint32_t step_samples, step_rows; /* of this worker, and of all, in the step that runs */
    double epoch_loss;                /* of this worker, sum over samples */
    uint64_t epoch_samples;
    uint64_t start_ns, eval_ns; /* eval_ns: time spent in evaluation so far */
    struct wk_report
        ended[EPOCHS_OPEN]; /* the chief's: data epochs that it has ended, without loss */
    uint64_t nended, nreported;
    double best, last; /* test accuracy, below 0: none */
    uint64_t reported_ns, reported_step;
    double real_ns;           /* of lately computing a step */
    double recent_loss, loss; /* since the last progress, and the last loss event */
    uint64_t recent_samples, loss_samples, loss_step;
};

/* Blocks until parameters arrive; the executor's wait. VB_STOPPED: the run has ended (ctl_ended says
 * how). */
enum vb_st task_wait(void *task);
/* All variables for the next step: after it the parameters stand still until this worker pushes. */
enum vb_st task_barrier(struct task *t);
/* One global step: this worker's micro-batches, pushes included. */
VB_MUST_CHECK enum vb_st task_step(struct task *t, const struct vb_perm *order, uint64_t step);
VB_MUST_CHECK enum vb_st task_make_exec(struct task *t, struct vb_err *err);

/* local.c */
VB_MUST_CHECK enum vb_st task_local_init(struct task *t);
void task_local_fini(struct task *t);
/* The gradient of this round has landed: the step that it makes, once. Nothing where the ps makes it. */
void task_local_step(struct task *t, uint32_t var);
const float *task_param(const struct task *t, uint32_t var); /* what the graph reads */

/* epochs.c */
/* All steps, with what is done after each data epoch. */
VB_MUST_CHECK enum vb_st task_epochs(struct task *t);
/* Reports the data epochs whose losses are there from all workers; waits for those before `until`. */
VB_MUST_CHECK enum vb_st task_report_ended(struct task *t, uint64_t until);
/* A sum over all workers. Where they need not keep step, one that is slow is waited for as long as it lives. */
VB_MUST_CHECK enum vb_st task_fetch(struct task *t, uint32_t tag, double sum[2], bool wait);
/* task_evaluate, into last and best. */
VB_MUST_CHECK enum vb_st task_test(struct task *t);
void task_report(const struct task *t, struct wk_report *r);
bool task_in_step(const struct task *t); /* all variables are in sync */
uint64_t task_samples(const struct task *t,
                      uint64_t steps);        /* of all workers in the first `steps` steps */
double task_since(uint64_t ns);               /* seconds */
double task_training_s(const struct task *t); /* since START, without evaluation */

/* Test accuracy with the parameters of the window (after task_barrier). */
VB_MUST_CHECK enum vb_st task_evaluate(struct task *t, double *accuracy_out);

#endif
