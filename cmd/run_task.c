/*
 * run_task.c - from a checked job to one running task: model, chunk table, configuration hash, events.
 */
#include "cmd/server.h"

#define LOG_MOD "cmd"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/events.h"
#include "cmd/signals.h"
#include "cmd/task.h"
#include "ps/server.h"
#include "worker/train.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>

/* The control thread, for signals that may come at any time. */
struct handle {
    pthread_mutex_t lock; /* covers the other fields */
    struct ctl *ctl;
    enum vb_exit code; /* of a signal that came before the control thread existed */
    const char *text;
    struct events events;
};

static void on_signal(void *arg, enum vb_exit code, const char *text)
{
    struct handle *h = arg;

    pthread_mutex_lock(&h->lock);
    h->code = code;
    h->text = text;
    if (h->ctl != NULL)
        ctl_fail(h->ctl, code, text);
    pthread_mutex_unlock(&h->lock);
}

static void on_control(void *arg, struct ctl *c)
{
    struct handle *h = arg;

    pthread_mutex_lock(&h->lock);
    h->ctl = c;
    if (c != NULL && h->text != NULL)
        ctl_fail(c, h->code, h->text);
    pthread_mutex_unlock(&h->lock);
}

static void on_report(void *arg, const struct wk_report *r)
{
    events_write(&((struct handle *)arg)->events, r);
}

/* What must be equal in all tasks, as 32 bytes. */
static enum vb_st hash_config(const struct job *job, const struct ps_table *table, bool links_only,
                              unsigned char hash[32])
{
    AUTO_FREE char *text = job_canonical(job);
    crypto_generichash_state state;
    char layout[256];

    if (text == NULL || sodium_init() < 0)
        return VB_NOMEM;
    ps_table_text(table, layout, sizeof(layout));
    crypto_generichash_init(&state, NULL, 0, 32);
    crypto_generichash_update(&state, (const unsigned char *)text, strlen(text) + 1);
    crypto_generichash_update(&state, (const unsigned char *)layout, strlen(layout));
    if (links_only)
        crypto_generichash_update(&state, (const unsigned char *)"links only", 10);
    crypto_generichash_final(&state, hash, 32);
    return VB_OK;
}

static enum vb_exit run_worker(const struct job *job, const struct task_shape *s,
                               const struct ctl_params *ctl, const struct server_params *sp,
                               struct handle *h)
{
    const struct feed_params train = { .images = job->data.train_images,
                                       .labels = job->data.train_labels,
                                       .divide_by = job->data.divide_by,
                                       .mean = job->data.mean,
                                       .std = job->data.std };
    struct wk_params p = { .ctl = *ctl,
                           .model = &s->model,
                           .table = &s->table,
                           .cls = s->cls,
                           .train = train,
                           .test = train,
                           .batch = job->batch,
                           .epochs = job->epochs,
                           .seed = job->seed,
                           .virtual_workers = job_virtual_workers(job),
                           .threads = (uint32_t)job->threads,
                           .compute_ns = job->compute * 1e6,
                           .jitter = (enum jitter)job->jitter,
                           .credit_bytes = job->credit_kib << 10,
                           .step_ns = job->step_timeout * VB_SEC,
                           .progress = sp->progress,
                           .loss_every = sp->loss_every,
                           .links_only = sp->links_only,
                           .report = on_report,
                           .control = on_control,
                           .arg = h };

    p.test.images = job->data.test_images;
    p.test.labels = job->data.test_labels;
    return wk_run(&p);
}

static enum vb_exit run_ps(const struct job *job, const struct task_shape *s,
                           const struct ctl_params *ctl, struct handle *h)
{
    return ps_run(&(struct ps_params){ .ctl = *ctl,
                                       .table = &s->table,
                                       .cls = s->cls,
                                       .on_nan = job->on_nan,
                                       .credit_bytes = job->credit_kib << 10,
                                       .step_ns = job->step_timeout * VB_SEC,
                                       .control = on_control,
                                       .arg = h });
}

static enum vb_exit run_rank(const struct job *job, const struct task_shape *s,
                             const struct ctl_params *ctl, const struct server_params *p)
{
    const char *name = ctl->no_auth ? "without authentication" : "with a secret";
    struct handle h = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct sig_watch *watch = NULL;
    enum vb_exit code;

    log_debug("joins %s", name);
    events_init(&h.events, ctl->spec, ctl->rank, job->json || p->launched, p->progress);
    if (sig_watch_start(on_signal, &h, &watch) != VB_OK)
        return VB_EXIT_FAILED;
    code = cl_rank_job(ctl->spec, ctl->rank) == CL_PS ? run_ps(job, s, ctl, &h)
                                                      : run_worker(job, s, ctl, p, &h);
    sig_watch_stop(watch);
    events_fini(&h.events);
    return code;
}

int cmd_server_run(const struct job *job, const struct cl_spec *spec, uint32_t rank,
                   const struct server_params *p)
{
    struct ctl_params ctl = { .spec = spec,
                              .rank = rank,
                              .no_auth = p->no_auth,
                              .listen_fd = p->listen_fd,
                              .transport = job->transport,
                              .require_rdma = job->require_rdma,
                              .pick = &job->pick,
                              .start_ns = job->start_timeout * VB_SEC };
    struct task_shape s = { 0 };
    struct vb_err err = { .text = "out of memory" };
    char name[CL_NAME_MAX];
    enum vb_exit code = VB_EXIT_FAILED;

    vb_log_prefix(p->launched ? NULL : cl_name(spec, rank, name));
    memcpy(ctl.secret, p->secret, sizeof(ctl.secret));
    if (task_shape_make(job, &s, &err) == VB_OK &&
        hash_config(job, &s.table, p->links_only, ctl.config) == VB_OK)
        code = run_rank(job, &s, &ctl, p);
    else
        log_error("%s", err.text);
    task_shape_fini(&s);
    return code;
}
