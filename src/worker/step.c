/*
 * How: this worker's micro-batches run one after the other; the executor writes each gradient to the
 * level of the one sum where it belongs and, in the last micro-batch, says when a chunk may leave.
 */
#define LOG_MOD "worker"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/kn.h"
#include "worker/task.h"

#include <inttypes.h>
#include <stdio.h>

#define LINK_NS (20 * VB_SEC) /* longer than the silence after which a peer is called lost */

static bool var_ready(void *arg, uint32_t var)
{
    struct task *t = arg;

    if (exchange_round(t->x, var) != t->round)
        return false;
    task_local_step(t, var);
    return true;
}

static void poll_links(void *arg)
{
    exchange_poll(((struct task *)arg)->x);
}

static void release(void *arg, uint32_t chunk)
{
    struct task *t = arg;

    exchange_push(t->x, chunk, t->clock, t->step_samples, t->step_rows);
}

static void say_missing(struct task *t, uint64_t waited_s, char *text, size_t text_bytes)
{
    char name[CL_NAME_MAX] = "nobody";
    uint32_t ps = 0;

    if (exchange_missing(t->x, t->clock, &ps))
        cl_name(t->p->ctl.spec, ps, name);
    snprintf(text, text_bytes, "no parameters of step %" PRIu64 " from %s for %" PRIu64 " s",
             t->clock, name, waited_s);
}

/* A dead link is explained by the control thread soon; without a word from it we say what we know. */
static enum vb_st link_died(struct task *t, enum vb_st st)
{
    const uint64_t deadline = vb_now_ns() + (st == VB_UNREACHABLE ? LINK_NS : 0);
    char name[CL_NAME_MAX] = "a ps", text[200];
    uint32_t ps = 0;

    while (!ctl_ended(t->ctl, NULL) && vb_now_ns() < deadline)
        (void)tp_wait(tp_port(t->node, 0), vb_now_ns() + 50 * VB_MS);
    if (exchange_dead(t->x, &ps))
        cl_name(t->p->ctl.spec, ps, name);
    if (st == VB_INVAL)
        snprintf(text, sizeof(text), "%s", exchange_why(t->x));
    else
        snprintf(text, sizeof(text), "data link with %s: %s", name, vb_st_str(st));
    ctl_fail(t->ctl, vb_st_exit(st), text);
    return VB_STOPPED;
}

enum vb_st task_wait(void *arg)
{
    struct task *t = arg;
    /* the ps gives up at step_ns and knows who is late; this is for when it cannot say so */
    const uint64_t limit = t->p->step_ns + 30 * VB_SEC, begun = vb_now_ns();
    char text[200];

    for (uint64_t look = begun + 10 * VB_SEC;; look += 10 * VB_SEC) {
        const enum vb_st st = exchange_wait(t->x, VB_MIN(look, begun + limit));

        if (ctl_ended(t->ctl, NULL))
            return VB_STOPPED;
        if (st == VB_OK)
            return VB_OK;
        if (st != VB_TIMEOUT)
            return link_died(t, st);
        const uint64_t now = vb_now_ns();

        say_missing(t, (now - begun) / VB_SEC, text, sizeof(text));
        if (now >= begun + limit) {
            ctl_fail(t->ctl, VB_EXIT_TIMEOUT, text);
            return VB_STOPPED;
        }
        if (now < look)
            look -= 10 * VB_SEC; /* woken early: nothing to say yet */
        else
            log_warn("%s", text);
    }
}

enum vb_st task_barrier(struct task *t)
{
    for (uint32_t v = 0; v < t->p->table->nvars; v++)
        while (!var_ready(t, v)) {
            const enum vb_st st = task_wait(t);

            if (st != VB_OK)
                return st;
        }
    return VB_OK;
}

/* A pretended compute: between the parameters of the step and its first gradient, what the real one lacks. */
static enum vb_st sleep_step(struct task *t)
{
    const double factor = jitter_factor(t->p->jitter, t->p->seed, t->worker, t->nworkers, t->round);
    enum vb_st st = VB_OK;

    if (t->p->compute_ns <= 0)
        return VB_OK;
    st = task_barrier(t);
    const double lacks = t->p->compute_ns * factor - t->real_ns;

    for (uint64_t end = vb_now_ns() + (uint64_t)VB_MAX(lacks, 0), now;
         st == VB_OK && (now = vb_now_ns()) < end;) {
        const uint64_t ns = VB_MIN(end - now, 50 * VB_MS);

        (void)nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
        if (ctl_ended(t->ctl, NULL))
            st = VB_STOPPED;
    }
    return st;
}

enum vb_st task_step(struct task *t, const struct vb_perm *order, uint64_t step)
{
    const uint64_t at = step * t->p->batch, rows = VB_MIN(t->p->batch, t->train.n - at);
    const uint64_t nv = t->p->virtual_workers, first = t->worker * t->nmicro;
    uint64_t from = 0, begin = 0, n = 0;

    (void)feed_micro_batch(rows, first, nv, &begin);
    n = feed_micro_batch(rows, first + t->nmicro - 1, nv, &from);
    t->step_samples = (uint32_t)(from + n - begin);
    t->step_rows = (uint32_t)rows;
    enum vb_st st = sleep_step(t);

    if (st != VB_OK)
        return st;
    const uint64_t begun = vb_now_ns();
    for (uint64_t m = 0; m < t->nmicro; m++) {
        struct exec_run r = exec_tree_place(m, t->nmicro);

        r.rows = feed_micro_batch(rows, first + m, nv, &from);
        r.seed = vb_random_u64(t->p->seed, t->clock, first + m); /* whoever computes it */
        feed_rows(&t->train, order, at + from, r.rows);
        st = exec_run(t->exec, &r);

        if (st != VB_OK)
            return st;
        t->epoch_loss += (double)exec_output(t->exec, t->p->model->loss)[0];
        t->recent_loss += (double)exec_output(t->exec, t->p->model->loss)[0];
        t->loss += (double)exec_output(t->exec, t->p->model->loss)[0];
    }
    t->real_ns += ((double)(vb_now_ns() - begun) - t->real_ns) / 8;
    t->epoch_samples += t->step_samples;
    t->recent_samples += t->step_samples;
    t->loss_samples += t->step_samples;
    t->clock++;
    t->round++;
    return VB_OK;
}

static uint32_t max_depth(uint64_t n)
{
    uint32_t depth = 0;

    for (uint64_t m = 0; m < n; m++)
        depth = VB_MAX(depth, (uint32_t)__builtin_popcountll(m));
    return depth;
}

enum vb_st task_make_exec(struct task *t, struct vb_err *err)
{
    const struct model *m = t->p->model;
    const struct ps_table *table = t->p->table;
    const uint64_t line = table->line_bytes / sizeof(float), depth = max_depth(t->nmicro);
    struct exec_var *var = calloc(m->nvars, sizeof(*var));
    enum vb_st st = VB_NOMEM;

    t->scratch = calloc(depth * line + 1, sizeof(*t->scratch));
    if (var == NULL || t->scratch == NULL || depth >= EXEC_DEPTH_MAX || task_local_init(t) != VB_OK)
        goto out;
    for (uint32_t v = 0; v < m->nvars; v++) {
        var[v] =
            (struct exec_var){ .node = m->var[v], .grad = m->grad[v], .value = task_param(t, v) };
        var[v].nchunks = ps_var_chunks(table, v, &var[v].first_chunk);
        var[v].grad_at[0] = exchange_grad(t->x, v);
        for (uint64_t d = 1; d <= depth; d++)
            var[v].grad_at[d] = t->scratch + (d - 1) * line + table->var[v].offset / sizeof(float);
    }
    st = exec_open(&(struct exec_params){ .graph = m->graph,
                                          .fetch = &m->loss,
                                          .nfetch = 1,
                                          .var = var,
                                          .nvars = m->nvars,
                                          .nchunks = table->nchunks,
                                          .max_rows = t->train.max_rows,
                                          .var_ready = var_ready,
                                          .wait = task_wait,
                                          .poll = poll_links,
                                          .release = release,
                                          .arg = t },
                   &t->exec, err);
    if (st == VB_OK) {
        exec_feed(t->exec, m->x, t->train.x);
        exec_feed(t->exec, m->labels, t->train.y);
    }
out:
    free(var);
    return st;
}
