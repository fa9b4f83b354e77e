/*
 * How a worker lives: regions and window; control thread (links come up while the data is read); wait
 * for START; chief sends the first values; steps; after each data epoch the workers' losses are summed
 * by the coordinator, and the chief evaluates before its first push of the next step, when nothing can
 * change the parameters; finish.
 */
#include "worker/train.h"

#define LOG_MOD "worker"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/kn.h"
#include "transport/wake.h"
#include "worker/task.h"

#include <inttypes.h>
#include <math.h>

static double seconds_since(uint64_t ns)
{
    return (double)(vb_now_ns() - ns) * 1e-9;
}

static void report(const struct task *t, struct wk_report *r)
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

/* Samples of all workers in the first `steps` steps. */
static uint64_t samples_in(const struct task *t, uint64_t steps)
{
    const uint64_t in_epoch = steps % t->steps_per_epoch;

    return steps / t->steps_per_epoch * t->train.n + VB_MIN(in_epoch * t->p->batch, t->train.n);
}

static double training_seconds(const struct task *t)
{
    return seconds_since(t->start_ns) - (double)t->eval_ns * 1e-9;
}

static void report_progress(struct task *t, uint64_t epoch)
{
    const uint64_t now = vb_now_ns();

    if (!t->p->progress || !t->chief || now - t->reported_ns < 200 * VB_MS)
        return;
    const double dt = (double)(now - t->reported_ns) * 1e-9;
    const uint64_t done = samples_in(t, t->clock), before = samples_in(t, t->reported_step);
    const double rate = (double)done / training_seconds(t);

    report(t, &(struct wk_report){ .event = WK_PROGRESS,
                                   .epoch = epoch + 1,
                                   .samples = done,
                                   .loss = t->recent_loss / (double)VB_MAX(t->recent_samples, 1u),
                                   .samples_per_s = (double)(done - before) / dt,
                                   .eta_s = (double)(samples_in(t, t->steps) - done) / rate });
    t->reported_ns = now;
    t->reported_step = t->clock;
    t->recent_loss = 0;
    t->recent_samples = 0;
}

static enum vb_st evaluate(struct task *t)
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

static bool in_step(const struct task *t)
{
    return t->p->rule == NULL || t->p->rule->mode == PS_SYNC;
}

/* A sum over all workers. Where they need not keep step, one that is slow is waited for as long as it lives. */
static enum vb_st fetch(struct task *t, uint32_t tag, double sum[2], bool wait)
{
    const uint64_t each = in_step(t) ? t->p->step_ns : 10 * VB_SEC, begun = vb_now_ns();

    for (;;) {
        const enum vb_st st = ctl_reduced(t->ctl, tag, sum, 2, wait ? vb_now_ns() + each : 0);

        if (st != VB_TIMEOUT || !wait)
            return st;
        if (in_step(t)) {
            ctl_fail(t->ctl, VB_EXIT_TIMEOUT, "the sums over all workers did not come in time");
            return st;
        }
        log_info("waits for slower workers for %.0f s", seconds_since(begun));
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
        st = evaluate(t);
    if (st != VB_OK)
        return st;
    t->ended[epoch % EPOCHS_OPEN] =
        (struct wk_report){ .event = WK_EPOCH,
                            .epoch = epoch + 1,
                            .samples = samples_in(t, t->clock),
                            .test_accuracy = t->last,
                            .best_test_accuracy = t->best,
                            .seconds = seconds_since(t->start_ns),
                            .samples_per_s =
                                (double)samples_in(t, t->clock) / training_seconds(t) };
    t->nended = epoch + 1;
    return VB_OK;
}

/* Reports the data epochs whose losses are there from all workers; waits for those before `until`. */
static enum vb_st report_ended(struct task *t, uint64_t until)
{
    while (t->nreported < VB_MAX(t->nended, until)) {
        struct wk_report *r = &t->ended[t->nreported % EPOCHS_OPEN];
        const bool wait = t->nreported < until;
        double sum[2];
        const enum vb_st st = fetch(t, (uint32_t)t->nreported, sum, wait);

        if (st == VB_TIMEOUT && !wait)
            return VB_OK;
        if (st != VB_OK)
            return st;
        t->nreported++;
        if (!t->chief)
            continue;
        r->loss = sum[0] / sum[1];
        warn_if_diverged(t, r->epoch - 1, r->loss);
        report(t, r);
    }
    return VB_OK;
}

/* Loss over all workers; the chief evaluates and reports. In sync every worker waits for the others' losses,
 * so that none is an epoch ahead; else only who is EPOCHS_OPEN ahead. */
static enum vb_st end_epoch(struct task *t, uint64_t epoch)
{
    const double sum[2] = { t->epoch_loss, (double)t->epoch_samples };
    uint64_t until = in_step(t) ? epoch + 1 : 0;
    enum vb_st st = VB_OK;

    t->epoch_loss = 0;
    t->epoch_samples = 0;
    if (epoch >= EPOCHS_OPEN)
        st = report_ended(t, epoch + 1 - EPOCHS_OPEN);
    if (st == VB_OK)
        st = ctl_reduce(t->ctl, (uint32_t)epoch, sum, 2);
    if (st == VB_OK && t->chief)
        st = look_back(t, epoch);
    return st == VB_OK ? report_ended(t, until) : st;
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

static enum vb_st run_epochs(struct task *t)
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
        if (st == VB_OK && t->p->rule != NULL && t->p->rule->mode == PS_BACKUP)
            st = catch_up(t);
        if (st == VB_OK)
            report_progress(t, epoch);
        while (st == VB_OK && t->epochs_ended < t->clock / t->steps_per_epoch)
            st = end_epoch(t, t->epochs_ended++);
    }
    return st;
}

static void init_params(struct task *t)
{
    for (uint32_t v = 0; v < t->p->model->nvars; v++)
        model_init(t->p->model->var[v], t->p->seed, exchange_grad(t->x, v));
    for (uint32_t c = 0; c < t->p->table->nchunks; c++)
        exchange_init(t->x, c);
}

/* sum: bytes pushed and pulled by all workers; after task_barrier. */
static enum vb_st report_done(struct task *t, double seconds, double rate, const double sum[2])
{
    const struct model *m = t->p->model;
    const float **value = calloc(m->nvars, sizeof(*value));

    if (value == NULL)
        return VB_NOMEM;
    for (uint32_t v = 0; v < m->nvars; v++)
        value[v] = exchange_param(t->x, v);
    report(t, &(struct wk_report){ .event = WK_DONE,
                                   .epoch = t->p->epochs,
                                   .samples = samples_in(t, t->steps),
                                   .test_accuracy = t->last,
                                   .best_test_accuracy = t->best,
                                   .seconds = seconds,
                                   .samples_per_s = rate,
                                   .pushed_bytes = (uint64_t)sum[0],
                                   .pulled_bytes = (uint64_t)sum[1],
                                   .params_crc32c = model_crc32c(m, value) });
    free(value);
    return VB_OK;
}

static void report_links(struct task *t)
{
    char peer[CL_NAME_MAX];

    for (uint32_t ps = 0; ps < t->p->table->nps; ps++) {
        struct tp_link *l = ctl_link(t->ctl, ps);
        const struct tp_link_stats s = tp_link_stats(l);

        struct tp_link_info info;

        tp_link_info(l, &info);
        report(t, &(struct wk_report){ .event = WK_LINK,
                                       .peer = cl_name(t->p->ctl.spec, ps, peer),
                                       .link = &info,
                                       .sent_bytes = s.sent_bytes,
                                       .received_bytes = s.recv_bytes });
    }
}

static enum vb_st drain(struct task *t)
{
    enum vb_st st = VB_OK;

    while (st == VB_OK && !exchange_idle(t->x))
        st = task_wait(t);
    return st;
}

/* All workers' last pushes have been applied: the chief reads what has become of the parameters. */
static enum vb_st read_last(struct task *t)
{
    enum vb_st st = drain(t);

    if (st != VB_OK)
        return st;
    exchange_refresh(t->x);
    st = task_barrier(t);
    return st == VB_OK ? evaluate(t) : st;
}

static void report_waits(struct task *t)
{
    report(t, &(struct wk_report){ .event = WK_WAITS,
                                   .staleness = exchange_staleness(t->x),
                                   .waited_ns = exchange_waited_ns(t->x),
                                   .nworkers = t->nworkers });
}

/* The last words: nothing more will be pushed, and the totals over all workers. */
static enum vb_st finish(struct task *t)
{
    const double seconds = seconds_since(t->start_ns);
    const double rate = (double)samples_in(t, t->steps) / training_seconds(t);
    enum vb_st st = task_barrier(t);
    double sum[2] = { (double)exchange_pushed_bytes(t->x), (double)exchange_pulled_bytes(t->x) };

    if (st == VB_OK)
        st = report_ended(t, t->p->epochs);
    if (st == VB_OK)
        st = ctl_reduce(t->ctl, (uint32_t)t->p->epochs, sum, 2);
    if (st == VB_OK)
        st = fetch(t, (uint32_t)t->p->epochs, sum, true);
    if (st == VB_OK && t->chief && !in_step(t))
        st = read_last(t);
    if (st == VB_OK)
        st = drain(t);
    if (st != VB_OK)
        return st;
    report_waits(t);
    exchange_finish(t->x, t->clock);
    st = drain(t);
    if (st != VB_OK)
        return st;
    report_links(t);
    if (t->chief)
        st = report_done(t, seconds, rate, sum);
    if (st == VB_OK)
        ctl_finish(t->ctl);
    return st;
}

static enum vb_st connect_links(struct task *t)
{
    struct tp_link **link = calloc(t->p->table->nps, sizeof(struct tp_link *));
    enum vb_st st = VB_NOMEM;

    if (link == NULL)
        return st;
    for (uint32_t ps = 0; ps < t->p->table->nps; ps++)
        link[ps] = ctl_link(t->ctl, ps);
    st = exchange_connect(t->x, link);
    free(link);
    return st;
}

static enum vb_st load_data(struct task *t, struct vb_err *err)
{
    struct feed_params train = t->p->train, test = t->p->test;
    enum vb_st st;

    train.classes = test.classes = t->p->model->classes;
    train.max_rows = (t->p->batch + t->p->virtual_workers - 1) / t->p->virtual_workers;
    test.max_rows = EVAL_ROWS;
    st = feed_open(&train, &t->train, err);
    if (st == VB_OK && t->chief && test.images != NULL)
        st = feed_open(&test, &t->test, err);
    if (st == VB_OK && t->train.features != t->p->model->x->shape.dim[1]) {
        vb_err_set(err, "%s has %" PRIu64 " features a sample, the model wants %" PRIu64,
                   train.images, t->train.features, t->p->model->x->shape.dim[1]);
        return VB_INVAL;
    }
    t->steps_per_epoch = (t->train.n + t->p->batch - 1) / t->p->batch;
    t->steps = t->steps_per_epoch * t->p->epochs;
    return st;
}

static enum vb_st open_links(struct task *t)
{
    const struct wk_params *p = t->p;
    char name[CL_NAME_MAX];
    /* a waiting worker spins where the workers alone fit: the ps that it waits for comes before it */
    const unsigned busy = cl_on_host(p->ctl.spec, p->ctl.rank, CL_WORKER) * VB_MAX(p->threads, 1u);
    const struct tp_node_params np = { .name = cl_name(p->ctl.spec, p->ctl.rank, name),
                                       .nports = 1,
                                       .spin_ns = wake_spin_ns(busy, VB_MAX(p->threads, 1u)) };
    struct ctl_params cp = p->ctl;
    enum vb_st st = tp_node_open(&np, &t->node);

    if (st == VB_OK)
        st = exchange_open(&(struct exchange_params){ .table = p->table,
                                                      .rule = p->rule,
                                                      .worker = t->worker,
                                                      .nworkers = t->nworkers,
                                                      .node = t->node },
                           &t->x);
    if (st != VB_OK)
        return st;
    cp.node = t->node;
    cp.channels = p->table->nlanes;
    st = ctl_start(&cp, &t->ctl);
    if (st == VB_OK && p->control != NULL)
        p->control(p->arg, t->ctl);
    return st;
}

static enum vb_st set_up(struct task *t)
{
    struct vb_err err = { .text = "out of memory" };
    enum vb_st st = open_links(t);

    if (st != VB_OK)
        return st;
    if (!t->p->links_only)
        st = load_data(t, &err);
    if (st == VB_OK && !t->p->links_only)
        st = task_make_exec(t, &err);
    if (st != VB_OK) {
        ctl_fail(t->ctl, VB_EXIT_FAILED, err.text);
        return st;
    }
    st = ctl_wait_start(t->ctl);
    if (st == VB_OK)
        st = connect_links(t);
    return st;
}

static void tear_down(struct task *t)
{
    if (t->p->control != NULL)
        t->p->control(t->p->arg, NULL);
    ctl_stop(t->ctl);
    exec_close(t->exec);
    exec_close(t->eval);
    feed_close(&t->train);
    feed_close(&t->test);
    free(t->scratch);
    if (tp_node_close(t->node))
        exchange_close(t->x);
}

/* From START to the end. */
static enum vb_st work(struct task *t)
{
    enum vb_st st;

    if (t->p->links_only) {
        report_links(t);
        ctl_finish(t->ctl);
        return VB_OK;
    }
    t->start_ns = t->reported_ns = vb_now_ns();
    if (t->chief) {
        report(t, &(struct wk_report){ .event = WK_START });
        init_params(t);
    }
    st = run_epochs(t);
    return st == VB_OK ? finish(t) : st;
}

enum vb_exit wk_run(const struct wk_params *p)
{
    struct task t = { .p = p,
                      .worker = cl_rank_index(p->ctl.spec, p->ctl.rank),
                      .nworkers = p->ctl.spec->nworkers,
                      .best = -1,
                      .last = -1 };

    t.chief = t.worker == 0;
    t.nmicro = p->virtual_workers / t.nworkers;
    kn_gemm_threads(VB_MAX(p->threads, 1u));
    enum vb_st st = set_up(&t);

    if (st == VB_OK)
        st = work(&t);
    /* without a control thread the cause was logged where it happened */
    const enum vb_exit code = t.ctl != NULL ? ctl_exit_code(t.ctl, st) : vb_st_exit(st);

    tear_down(&t);
    return code;
}
