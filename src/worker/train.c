/*
 * How a worker lives: regions and window; control thread (links come up while the data is read); wait
 * for START; chief sends the first values; steps (epochs.c); finish.
 */
#include "worker/train.h"

#define LOG_MOD "worker"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/conv.h"
#include "kernels/kn.h"
#include "transport/wake.h"
#include "worker/task.h"

#include <inttypes.h>

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
        value[v] = task_param(t, v);
    task_report(t, &(struct wk_report){ .event = WK_DONE,
                                        .epoch = t->p->epochs,
                                        .samples = task_samples(t, t->steps),
                                        .test_accuracy = t->last,
                                        .best_test_accuracy = t->best,
                                        .seconds = seconds,
                                        .samples_per_s = rate,
                                        .push_ratio = exchange_push_ratio(t->x),
                                        .pull_ratio = exchange_pull_ratio(t->x),
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
        task_report(t, &(struct wk_report){ .event = WK_LINK,
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
    return st == VB_OK ? task_test(t) : st;
}

static void report_waits(struct task *t)
{
    struct wk_report r = { .event = WK_WAITS,
                           .cls = t->p->cls,
                           .nclasses = t->p->table->nclasses,
                           .waited_ns = exchange_waited_ns(t->x),
                           .nworkers = t->nworkers };

    for (uint32_t k = 0; k < r.nclasses; k++)
        r.staleness[k] = exchange_staleness(t->x, k);
    task_report(t, &r);
}

/* The last words: nothing more will be pushed, and the totals over all workers. */
static enum vb_st finish(struct task *t)
{
    const double seconds = task_since(t->start_ns);
    const double rate = (double)task_samples(t, t->steps) / task_training_s(t);
    enum vb_st st = task_barrier(t);
    double sum[2] = { (double)exchange_pushed_bytes(t->x), (double)exchange_pulled_bytes(t->x) };

    if (st == VB_OK)
        st = task_report_ended(t, t->p->epochs);
    if (st == VB_OK)
        st = ctl_reduce(t->ctl, (uint32_t)t->p->epochs, sum, 2);
    if (st == VB_OK)
        st = task_fetch(t, (uint32_t)t->p->epochs, sum, true);
    if (st == VB_OK && t->chief && !task_in_step(t))
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
                                       .spin_ns = wake_spin_ns(busy, VB_MAX(p->threads, 1u)),
                                       .credit_bytes = p->credit_bytes };
    struct ctl_params cp = p->ctl;
    enum vb_st st = tp_node_open(&np, &t->node);

    if (st == VB_OK)
        st = exchange_open(&(struct exchange_params){ .table = p->table,
                                                      .cls = p->cls,
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
    task_local_fini(t);
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
        task_report(t, &(struct wk_report){ .event = WK_START });
        init_params(t);
    }
    st = task_epochs(t);
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
    kn_conv_threads(VB_MAX(p->threads, 1u));
    enum vb_st st = set_up(&t);

    if (st == VB_OK)
        st = work(&t);
    /* without a control thread the cause was logged where it happened */
    const enum vb_exit code = t.ctl != NULL ? ctl_exit_code(t.ctl, st) : vb_st_exit(st);

    tear_down(&t);
    return code;
}
