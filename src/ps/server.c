/*
 * How a ps lives: region and lanes; control thread; wait for START; one thread per lane until the
 * coordinator says that all workers have finished, or the run ends otherwise.
 */
#include "ps/server.h"

#define LOG_MOD "ps"
#include "base/clock.h"
#include "base/log.h"
#include "ps/lane.h"
#include "transport/wake.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PS_STEP_NS (600 * VB_SEC)

static_assert(sizeof(struct kn_exact) == CTL_NORM_WORDS * sizeof(uint32_t), "a sum has one size");

struct server;

struct lane_thread {
    struct server *s;
    struct lane *lane;
    pthread_t thread;
    struct kn_exact *norm; /* scratch */
    bool started;
};

struct server {
    const struct ps_params *p;
    uint64_t step_ns;
    uint32_t set_size; /* workers that make a step; 0: all */
    uint32_t norms;    /* sums over all parameters in each step; 0: none */
    uint32_t index;
    struct tp_node *node;
    uint32_t region, copies, pulls;
    struct ctl *ctl;
    struct lane_thread lane[TP_PORTS_MAX];
    atomic_bool stop;
};

/* For gradients from other hosts: room for every worker's, at most a quarter of the memory. */
static uint64_t landing_budget(const struct ps_params *p)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t want = 0;

    if (!vb_mul(ps_range_at(p->table, p->table->nclasses, 0), p->ctl.spec->nworkers, &want))
        want = UINT64_MAX;
    return VB_MIN(want, memory / 4) / p->table->nlanes;
}

/* A step in flight waits for a worker: says so, and gives up when it takes too long. The worker is
 * alive, or the control thread would have ended the run. */
static void tell_missing(const struct lane_thread *t, uint64_t waited_ns)
{
    char name[CL_NAME_MAX], text[160];
    uint32_t worker = 0;
    uint64_t clock = 0;

    if (!lane_missing(t->lane, &worker, &clock))
        return;
    cl_name(t->s->p->ctl.spec, t->s->p->table->nps + worker, name);
    snprintf(text, sizeof(text), "step %" PRIu64 " waits for %s for %" PRIu64 " s", clock, name,
             waited_ns / VB_SEC);
    if (waited_ns < t->s->step_ns)
        log_warn("%s", text);
    else
        ctl_fail(t->s->ctl, VB_EXIT_TIMEOUT, text);
}

static void on_counted(void *arg, uint32_t worker, uint64_t clock)
{
    ctl_counted(((struct server *)arg)->ctl, worker, clock);
}

static void on_norm(void *arg, const struct kn_exact *sum)
{
    ctl_norm(((struct server *)arg)->ctl, (const uint32_t *)(const void *)sum);
}

static void merge_norm(uint32_t *sum, const uint32_t *other)
{
    struct kn_exact a, b;

    memcpy(&a, sum, sizeof(a));
    memcpy(&b, other, sizeof(b));
    kn_exact_merge(&a, &b);
    memcpy(sum, &a, sizeof(a));
}

static uint32_t lanes_with_norms(const struct server *s, uint32_t ps)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->p->table->nlanes; i++)
        n += lane_gives_norms(s->p->cls, s->p->table, ps, i);
    return n;
}

/* Ranges fill up from the first ps on: the last ones may have no chunk, and lanes too. */
static struct ctl_norms norms_of(const struct server *s)
{
    struct ctl_norms n = { .count = s->norms,
                           .merge = merge_norm,
                           .lanes = lanes_with_norms(s, s->index) };

    while (n.nps < s->p->table->nps && lanes_with_norms(s, n.nps) > 0)
        n.nps++;
    return n;
}

/* The step whose norms are there. */
static enum vb_st make_norms(struct lane_thread *t)
{
    uint64_t clock = 0;

    if (!lane_wants_norms(t->lane, &clock) ||
        !ctl_normed(t->s->ctl, clock, (uint32_t(*)[CTL_NORM_WORDS])(void *)t->norm))
        return VB_OK;
    return lane_normed(t->lane, t->norm);
}

/* The steps whose workers have been named. */
static enum vb_st make_steps(struct lane_thread *t)
{
    uint64_t bits[CTL_SET_WORDS];
    enum vb_st st = VB_OK;

    while (st == VB_OK && ctl_set(t->s->ctl, lane_next(t->lane), bits))
        st = lane_set(t->lane, bits);
    return st;
}

static void *run_lane(void *arg)
{
    struct lane_thread *t = arg;
    struct server *s = t->s;
    const uint64_t say_ns = VB_MIN(10 * VB_SEC, s->step_ns);
    uint64_t since = vb_now_ns(), look = since + say_ns;

    while (!atomic_load(&s->stop) && !ctl_ended(s->ctl, NULL)) {
        enum vb_st st = lane_poll(t->lane, look);

        if (s->norms > 0 && (st == VB_OK || st == VB_TIMEOUT)) {
            const enum vb_st made = make_norms(t);

            st = made != VB_OK ? made : st;
        }
        if (s->set_size > 0 && (st == VB_OK || st == VB_TIMEOUT) && make_steps(t) != VB_OK)
            st = VB_PROTO;

        if (st == VB_OK) {
            since = vb_now_ns();
            look = since + say_ns;
            continue;
        }
        if (st != VB_TIMEOUT) {
            ctl_fail(s->ctl, VB_EXIT_FAILED,
                     st == VB_INVAL ? lane_why(t->lane) : "a worker broke the protocol");
            break;
        }
        if (vb_now_ns() >= look) {
            tell_missing(t, vb_now_ns() - since);
            look += say_ns;
        }
    }
    return NULL;
}

static enum vb_st make_lanes(struct server *s)
{
    const struct ps_params *p = s->p;

    for (uint32_t i = 0; i < p->table->nlanes; i++) {
        const struct lane_params lp = { .table = p->table,
                                        .ps = s->index,
                                        .lane = i,
                                        .nworkers = p->ctl.spec->nworkers,
                                        .node = s->node,
                                        .region = s->region,
                                        .copies = s->copies,
                                        .pulls = s->pulls,
                                        .cls = p->cls,
                                        .counted = on_counted,
                                        .norm = on_norm,
                                        .arg = s,
                                        .on_nan = p->on_nan,
                                        .landing_bytes = landing_budget(p) };
        const enum vb_st st = lane_create(&lp, &s->lane[i].lane);

        if (st != VB_OK)
            return st;
        s->lane[i].s = s;
        s->lane[i].norm = calloc(VB_MAX(s->norms, 1u), sizeof(*s->lane[i].norm));
        if (s->lane[i].norm == NULL)
            return VB_NOMEM;
    }
    return VB_OK;
}

/* The ranges, what workers have of those that they do not read in place, and what is encoded for them. */
static enum vb_st make_regions(struct server *s)
{
    const struct ps_params *p = s->p;
    const uint64_t bytes = ps_range_at(p->table, p->table->nclasses, s->index),
                   copies = ps_copy_bytes(p->table, p->cls, s->index, p->ctl.spec->nworkers);
    const bool huge = p->table->page_bytes == PS_HUGE_PAGE;
    const uint64_t pulls = ps_pull_bytes(p->table, p->cls, s->index, p->ctl.spec->nworkers);
    enum vb_st st = tp_region_new(s->node, bytes, huge, &s->region);

    if (copies == UINT64_MAX || pulls > UINT64_MAX / 2)
        return VB_NOMEM;
    if (st == VB_OK && copies > 0)
        st = tp_region_new(s->node, copies, huge, &s->copies);
    if (st == VB_OK && pulls > 0)
        st = tp_region_new(s->node, vb_round_up(pulls, PS_PAGE), false, &s->pulls);
    return st;
}

static enum vb_st set_up(struct server *s)
{
    const struct ps_params *p = s->p;
    char name[CL_NAME_MAX];
    /* a spinning lane would take a core from a worker that computes: all tasks count */
    const unsigned busy = (cl_on_host(p->ctl.spec, p->ctl.rank, CL_PS) +
                           cl_on_host(p->ctl.spec, p->ctl.rank, CL_WORKER)) *
                          p->table->nlanes;
    struct ctl_params cp = p->ctl;
    enum vb_st st =
        tp_node_open(&(struct tp_node_params){ .name = cl_name(p->ctl.spec, p->ctl.rank, name),
                                               .nports = p->table->nlanes,
                                               .spin_ns = wake_spin_ns(busy, p->table->nlanes),
                                               .credit_bytes = p->credit_bytes },
                     &s->node);

    if (st != VB_OK)
        return st;
    st = make_regions(s);
    if (st == VB_OK)
        st = make_lanes(s);
    if (st != VB_OK)
        return st;
    cp.node = s->node;
    cp.channels = p->table->nlanes;
    cp.set_size = s->set_size;
    cp.norms = norms_of(s);
    st = ctl_start(&cp, &s->ctl);
    if (st == VB_OK && p->control != NULL)
        p->control(p->arg, s->ctl);
    return st;
}

static enum vb_st start_lanes(struct server *s)
{
    for (uint32_t i = 0; i < s->p->table->nlanes; i++) {
        struct lane_thread *t = &s->lane[i];

        for (uint32_t w = 0; w < s->p->ctl.spec->nworkers; w++)
            lane_link(t->lane, w, ctl_link(s->ctl, s->p->table->nps + w));
        if (pthread_create(&t->thread, NULL, run_lane, t) != 0)
            return VB_NOMEM;
        t->started = true;
    }
    return VB_OK;
}

static void stop_lanes(struct server *s)
{
    uint64_t dropped = 0, skipped = 0;

    atomic_store(&s->stop, true);
    for (uint32_t i = 0; i < s->p->table->nlanes; i++) {
        struct lane_thread *t = &s->lane[i];

        if (!t->started)
            continue;
        tp_wake(tp_port(s->node, i));
        pthread_join(t->thread, NULL);
        dropped += lane_dropped(t->lane);
        skipped += lane_skipped(t->lane);
    }
    if (dropped > 0)
        log_warn("%" PRIu64 " late gradients were dropped", dropped);
    if (skipped > 0)
        log_warn("%" PRIu64 " gradients with a NaN or infinity were skipped", skipped);
}

enum vb_exit ps_run(const struct ps_params *p)
{
    struct server s = { .p = p,
                        .step_ns = p->step_ns != 0 ? p->step_ns : PS_STEP_NS,
                        .index = cl_rank_index(p->ctl.spec, p->ctl.rank) };

    if (p->cls[0].rule.mode == PS_BACKUP)
        s.set_size = p->ctl.spec->nworkers - p->cls[0].rule.backups;
    s.norms = lane_norms(p->cls, p->table);
    enum vb_st st = set_up(&s);

    if (st == VB_OK)
        st = ctl_wait_start(s.ctl);
    if (st == VB_OK)
        st = start_lanes(&s);
    if (st == VB_OK)
        st = ctl_wait_finish(s.ctl, VB_NEVER);
    stop_lanes(&s);
    /* without a control thread the cause was logged where it happened */
    const enum vb_exit code = s.ctl != NULL ? ctl_exit_code(s.ctl, st) : vb_st_exit(st);

    if (p->control != NULL)
        p->control(p->arg, NULL);
    ctl_stop(s.ctl);
    const bool rests = tp_node_close(s.node);

    for (uint32_t i = 0; i < p->table->nlanes; i++)
        free(s.lane[i].norm);

    for (uint32_t i = 0; rests && i < p->table->nlanes; i++)
        lane_destroy(s.lane[i].lane);
    return code;
}
