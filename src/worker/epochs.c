/*
 * How the data epochs go by: steps; after each epoch the workers' losses are summed by the coordinator, and the
 * chief evaluates before its next push, when nothing can change the parameters that it reads. In sync
 * everybody waits for the sum; in the other modes it is reported when it is there.
 */
#define LOG_MOD "worker"
#include "base/clock.h"
#include "base/log.h"
#include "worker/task.h"

#include <inttypes.h>
#include <math.h>

double task_since(uint64_t ns)
{
    return (double)(vb_now_ns() - ns) * 1e-9;
}

void task_report(const struct task *t, struct wk_report *r)
{
    r->epochs = t->p->epochs;
    r->steps = t->steps;
    r->step = t->clock;
    r->params = t->p->model->nparams;
    r->train_samples = t->train.n;
    r->test_samples = t->test.n;
    if (t->p->report != NULL)
        t->p->report(t->p->arg, r);
}

uint64_t task_samples(const struct task *t, uint64_t steps)
{
    const uint64_t in_epoch = steps % t->steps_per_epoch;

    return steps / t->steps_per_epoch * t->train.n + VB_MIN(in_epoch * t->p->batch, t->train.n);
}

double task_training_s(const struct task *t)
{
    return task_since(t->start_ns) - (double)t->eval_ns * 1e-9;
}

static void report_loss(struct task *t)
{
    /* one that was left behind jumps over some */
    if (t->p->loss_every == 0 || t->clock / t->p->loss_every == t->loss_step / t->p->loss_every)
        return;
    t->loss_step = t->clock;
    task_report(t, &(struct wk_report){ .event = WK_LOSS,
                                        .samples = t->loss_samples,
                                        .loss = t->loss / (double)VB_MAX(t->loss_samples, 1u),
                                        .seconds = task_training_s(t) });
    t->loss = 0;
    t->loss_samples = 0;
}

static void report_progress(struct task *t, uint64_t epoch)
{
    const uint64_t now = vb_now_ns();

    if (!t->p->progress || !t->chief || now - t->reported_ns < 200 * VB_MS)
        return;
    const double dt = (double)(now - t->reported_ns) * 1e-9;
    const uint64_t done = task_samples(t, t->clock), before = task_samples(t, t->reported_step);
    const double rate = (double)done / task_training_s(t);

    task_report(t,
                &(struct wk_report){ .event = WK_PROGRESS,
                                     .epoch = epoch + 1,
                                     .samples = done,
                                     .loss = t->recent_loss / (double)VB_MAX(t->recent_samples, 1u),
                                     .samples_per_s = (double)(done - before) / dt,
                                     .eta_s = (double)(task_samples(t, t->steps) - done) / rate });
    t->reported_ns = now;
    t->reported_step = t->clock;
    t->recent_loss = 0;
    t->recent_samples = 0;
}

enum vb_st task_test(struct task *t)
{
    const uint64_t begun = vb_now_ns();
    enum vb_st st = VB_OK;

    if (t->test.n > 0)
        st = task_evaluate(t, &t->last);
    t->best = t->last > t->best ? t->last : t->best;
    const uint64_t took = vb_now_ns() - begun;

    t->eval_ns += took;
    t->reported_ns += took; /* progress is of training alone */
    return st;
}

bool task_in_step(const struct task *t)
{
    for (uint32_t k = 0; k < t->p->table->nclasses; k++)
        if (t->p->cls[k].rule.mode != PS_SYNC)
            return false;
    return true;
}

enum vb_st task_fetch(struct task *t, uint32_t tag, double sum[2], bool wait)
{
    const uint64_t each = task_in_step(t) ? t->p->step_ns : 10 * VB_SEC, begun = vb_now_ns();

    for (;;) {
        const enum vb_st st = ctl_reduced(t->ctl, tag, sum, 2, wait ? vb_now_ns() + each : 0);

        if (st != VB_TIMEOUT || !wait)
            return st;
        if (task_in_step(t)) {
            ctl_fail(t->ctl, VB_EXIT_TIMEOUT, "the sums over all workers did not come in time");
            return st;
        }
        log_info("waits for slower workers for %.0f s", task_since(begun));
    }
}

static void warn_if_diverged(const struct task *t, uint64_t epoch, double loss)
{
    if (!isfinite(loss))
        log_warn("the loss of data epoch %" PRIu64 " is not a finite number: the training has "
                 "diverged, try a lower rate",
                 epoch + 1);
}

/* The chief's side of a data epoch, while the others' losses may still be missing. */
static enum vb_st look_back(struct task *t, uint64_t epoch)
{
    enum vb_st st = task_barrier(t);

    if (st == VB_OK)
        st = task_test(t);
    if (st != VB_OK)
        return st;
    t->ended[epoch % EPOCHS_OPEN] =
        (struct wk_report){ .event = WK_EPOCH,
                            .epoch = epoch + 1,
                            .samples = task_samples(t, t->clock),
                            .test_accuracy = t->last,
                            .best_test_accuracy = t->best,
                            .seconds = task_since(t->start_ns),
                            .samples_per_s =
                                (double)task_samples(t, t->clock) / task_training_s(t) };
    t->nended = epoch + 1;
    return VB_OK;
}

enum vb_st task_report_ended(struct task *t, uint64_t until)
{
    while (t->nreported < VB_MAX(t->nended, until)) {
        struct wk_report *r = &t->ended[t->nreported % EPOCHS_OPEN];
        const bool wait = t->nreported < until;
        double sum[2];
        const enum vb_st st = task_fetch(t, (uint32_t)t->nreported, sum, wait);

        if (st == VB_TIMEOUT && !wait)
            return VB_OK;
        if (st != VB_OK)
            return st;
        t->nreported++;
        if (!t->chief)
            continue;
        r->loss = sum[0] / sum[1];
        warn_if_diverged(t, r->epoch - 1, r->loss);
        task_report(t, r);
    }
    return VB_OK;
}

/* Loss over all workers; the chief evaluates and reports. In sync every worker waits for the others' losses,
 * so that none is an epoch ahead; else only who is EPOCHS_OPEN ahead. */
static enum vb_st end_epoch(struct task *t, uint64_t epoch)
{
    const double sum[2] = { t->epoch_loss, (double)t->epoch_samples };
    uint64_t until = task_in_step(t) ? epoch + 1 : 0;
    enum vb_st st = VB_OK;

    t->epoch_loss = 0;
    t->epoch_samples = 0;
    if (epoch >= EPOCHS_OPEN)
        st = task_report_ended(t, epoch + 1 - EPOCHS_OPEN);
    if (st == VB_OK)
        st = ctl_reduce(t->ctl, (uint32_t)epoch, sum, 2);
    if (st == VB_OK && t->chief)
        st = look_back(t, epoch);
    return st == VB_OK ? task_report_ended(t, until) : st;
}

/* The step was made with this worker or without it: where are the others? */
static enum vb_st catch_up(struct task *t)
{
    enum vb_st st;

    exchange_tick(t->x, t->clock - 1);
    st = task_barrier(t);
    if (st == VB_OK)
        t->clock = exchange_clock(t->x);
    return st;
}

enum vb_st task_epochs(struct task *t)
{
    struct vb_perm order = { 0 };
    uint64_t of = UINT64_MAX;
    enum vb_st st = VB_OK;

    while (st == VB_OK && t->clock < t->steps) {
        const uint64_t epoch = t->clock / t->steps_per_epoch;

        if (epoch != of)
            order = vb_perm_make(t->train.n, t->p->seed, epoch);
        of = epoch;
        st = task_step(t, &order, t->clock % t->steps_per_epoch);
        if (st == VB_OK && t->p->cls[0].rule.mode == PS_BACKUP)
            st = catch_up(t);
        if (st == VB_OK) {
            report_progress(t, epoch);
            report_loss(t);
        }
        while (st == VB_OK && t->epochs_ended < t->clock / t->steps_per_epoch)
            st = end_epoch(t, t->epochs_ended++);
    }
    return st;
}
