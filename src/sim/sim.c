/*
 * How: a push goes through four events: its first byte reaches the ps (PUSH_SEEN), it is in (PUSH_IN), the
 * lane has added it (PUSH_DONE), when the engine says who may go on; an answer through two. A worker
 * pushes again only when all its answers are in, so the clock of what is on its way is the worker's.
 */
#include "sim/sim.h"

#include "base/util.h"
#include "sim/queue.h"

#include <stdlib.h>

enum { COMPUTED, PUSH_SEEN, PUSH_IN, PUSH_DONE, PARAM_SEEN, PARAM_IN };

struct lane {
    struct ps_engine *engine;
    uint32_t nchunks, *chunk; /* of the table */
    double free_at;
};

struct worker {
    uint64_t clock;
    uint32_t missing; /* answers */
    double computed_at, waited;
};

struct port { /* when a task can send and receive again */
    double tx, rx;
};

struct sim {
    const struct sim_params *p;
    struct sim_queue queue;
    struct lane *lane;
    uint32_t nlanes, *local; /* a chunk's number within its lane */
    struct worker *worker;
    struct port *port; /* ps, then workers */
    struct ps_action *action;
    struct sim_result *out;
    enum vb_st st;
};

static void put(struct sim *s, double at, uint32_t kind, uint32_t worker, uint32_t chunk)
{
    const enum vb_st st = queue_put(
        &s->queue, (struct sim_event){ .at = at, .kind = kind, .worker = worker, .chunk = chunk });

    if (st != VB_OK)
        s->st = st;
}

static double busy(const struct sim *s, uint32_t chunk)
{
    const struct sim_link *l = &s->p->link;

    return VB_MAX(l->overhead, l->gap) + (double)s->p->table->chunk[chunk].bytes * l->per_byte;
}

/* The receiver sees the first byte a latency after it has left. */
static void send_from(struct sim *s, uint32_t task, double now, uint32_t kind, uint32_t worker,
                      uint32_t chunk)
{
    struct port *from = &s->port[task];
    const double begin = VB_MAX(now, from->tx);

    from->tx = begin + busy(s, chunk);
    put(s, begin + s->p->link.latency, kind, worker, chunk);
}

static void receive_at(struct sim *s, uint32_t task, const struct sim_event *ev, uint32_t kind)
{
    struct port *to = &s->port[task];

    to->rx = VB_MAX(ev->at, to->rx) + busy(s, ev->chunk);
    put(s, to->rx, kind, ev->worker, ev->chunk);
}

static struct lane *lane_of(const struct sim *s, uint32_t chunk)
{
    const struct ps_chunk *c = &s->p->table->chunk[chunk];

    return &s->lane[c->ps * s->p->table->nlanes + c->lane];
}

static void begin_step(struct sim *s, uint32_t w, double now)
{
    struct worker *me = &s->worker[w];

    if (me->clock < s->p->steps)
        put(s, now + s->p->compute(s->p->arg, w, me->clock), COMPUTED, w, 0);
    s->out->seconds = VB_MAX(s->out->seconds, now);
}

/* Backward: what the forward pass needs last leaves first. */
static void push_all(struct sim *s, const struct sim_event *ev)
{
    const struct ps_table *t = s->p->table;
    struct worker *me = &s->worker[ev->worker];

    me->computed_at = ev->at;
    me->missing = t->nchunks;
    for (uint32_t k = t->nchunks; k-- > 0;) {
        send_from(s, t->nps + ev->worker, ev->at, PUSH_SEEN, ev->worker, k);
        s->out->pushed_bytes += t->chunk[k].bytes;
    }
}

static void publish(struct sim *s, const struct lane *l, const struct ps_action *a, double now)
{
    const uint32_t chunk = l->chunk[a->chunk];

    for (uint32_t w = 0; w < s->p->nworkers; w++)
        if (a->worker == PS_ALL || a->worker == w)
            send_from(s, s->p->table->chunk[chunk].ps, now, PARAM_SEEN, w, chunk);
}

static void tell_engine(struct sim *s, struct lane *l, const struct ps_event *ev, double now)
{
    size_t n = 0;
    const enum vb_st st = ps_engine_step(l->engine, ev, s->action, &n);

    if (st != VB_OK)
        s->st = st;
    for (size_t i = 0; i < n; i++)
        if (s->action[i].kind == PS_ACT_PUBLISH)
            publish(s, l, &s->action[i], now);
}

static void add_push(struct sim *s, const struct sim_event *ev)
{
    struct lane *l = lane_of(s, ev->chunk);

    l->free_at = VB_MAX(l->free_at, ev->at) +
                 (double)s->p->table->chunk[ev->chunk].bytes * s->p->apply_per_byte;
    put(s, l->free_at, PUSH_DONE, ev->worker, ev->chunk);
}

static void answer_in(struct sim *s, const struct sim_event *ev)
{
    struct worker *me = &s->worker[ev->worker];

    s->out->pulled_bytes += s->p->table->chunk[ev->chunk].bytes;
    if (--me->missing > 0)
        return;
    me->clock++;
    me->waited += ev->at - me->computed_at;
    begin_step(s, ev->worker, ev->at);
}

static void handle(struct sim *s, const struct sim_event *ev)
{
    const uint32_t nps = s->p->table->nps;

    switch (ev->kind) {
    case COMPUTED:
        push_all(s, ev);
        break;
    case PUSH_SEEN:
        receive_at(s, s->p->table->chunk[ev->chunk].ps, ev, PUSH_IN);
        break;
    case PUSH_IN:
        add_push(s, ev);
        break;
    case PUSH_DONE:
        tell_engine(s, lane_of(s, ev->chunk),
                    &(struct ps_event){ .kind = PS_EV_PUSH,
                                        .worker = ev->worker,
                                        .chunk = s->local[ev->chunk],
                                        .clock = s->worker[ev->worker].clock,
                                        .samples = 1 },
                    ev->at);
        break;
    case PARAM_SEEN:
        receive_at(s, nps + ev->worker, ev, PARAM_IN);
        break;
    default:
        answer_in(s, ev);
    }
}

/* ---- set-up ---- */

static enum vb_st make_engine(struct sim *s, struct lane *l)
{
    const struct ps_rule *r = s->p->rule;
    const struct ps_engine_params ep = { .nworkers = s->p->nworkers,
                                         .nchunks = l->nchunks,
                                         .mode = r->mode,
                                         .staleness_lo = r->staleness_lo,
                                         .staleness_hi = r->staleness_hi };
    const size_t bytes = ps_engine_bytes(&ep);
    size_t n = 0;
    enum vb_st st = VB_OK;

    if (bytes == 0)
        return VB_INVAL;
    void *mem = calloc(1, bytes);
    /* lanes differ in size: each asks for room for its own actions */
    struct ps_action *a = reallocarray(s->action, ps_engine_max_actions(&ep), sizeof(*a));

    s->action = a != NULL ? a : s->action;
    if (mem == NULL || a == NULL) {
        free(mem);
        return VB_NOMEM;
    }
    l->engine = ps_engine_init(mem, &ep);
    for (uint32_t w = 0; st == VB_OK && w < s->p->nworkers; w++)
        st = ps_engine_step(l->engine, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w }, a,
                            &n);
    for (uint32_t k = 0; st == VB_OK && k < l->nchunks; k++)
        st = ps_engine_step(l->engine, &(struct ps_event){ .kind = PS_EV_INIT, .chunk = k }, a, &n);
    return st;
}

static enum vb_st make_lanes(struct sim *s)
{
    const struct ps_table *t = s->p->table;
    size_t most = 0;
    enum vb_st st = VB_OK;

    for (uint32_t i = 0; i < s->nlanes; i++)
        if ((s->lane[i].chunk = calloc(t->nchunks, sizeof(uint32_t))) == NULL)
            return VB_NOMEM;
    for (uint32_t k = 0; k < t->nchunks; k++) {
        struct lane *l = lane_of(s, k);

        s->local[k] = l->nchunks;
        l->chunk[l->nchunks++] = k;
        most = VB_MAX(most, l->nchunks);
    }
    /* the largest last, so that the room for actions is enough for all */
    for (size_t n = 1; n <= most; n++)
        for (uint32_t i = 0; st == VB_OK && i < s->nlanes; i++)
            if (s->lane[i].nchunks == n)
                st = make_engine(s, &s->lane[i]);
    return st;
}

static void tear_down(struct sim *s)
{
    for (uint32_t i = 0; s->lane != NULL && i < s->nlanes; i++) {
        free(s->lane[i].engine);
        free(s->lane[i].chunk);
    }
    free(s->lane);
    free(s->local);
    free(s->worker);
    free(s->port);
    free(s->action);
    queue_fini(&s->queue);
}

static void sum_up(struct sim *s)
{
    for (uint32_t w = 0; w < s->p->nworkers; w++) {
        s->out->waited += s->worker[w].waited / s->p->nworkers;
        s->out->waited_most = VB_MAX(s->out->waited_most, s->worker[w].waited);
    }
    for (uint32_t i = 0; i < s->nlanes; i++)
        for (unsigned b = 0; s->lane[i].engine != NULL && b < PS_STALENESS_BUCKETS; b++)
            s->out->staleness[b] += ps_engine_staleness(s->lane[i].engine)[b];
}

enum vb_st sim_run(const struct sim_params *p, struct sim_result *out)
{
    const struct ps_table *t = p->table;
    struct sim s = { .p = p, .out = out, .nlanes = t->nps * t->nlanes };
    struct sim_event ev;

    *out = (struct sim_result){ .seconds = 0 };
    if (p->rule->mode == PS_BACKUP || p->nworkers == 0 || p->steps == 0)
        return VB_INVAL;
    s.lane = calloc(s.nlanes, sizeof(*s.lane));
    s.local = calloc(t->nchunks, sizeof(*s.local));
    s.worker = calloc(p->nworkers, sizeof(*s.worker));
    s.port = calloc((size_t)t->nps + p->nworkers, sizeof(*s.port));
    s.st = s.lane != NULL && s.local != NULL && s.worker != NULL && s.port != NULL ? make_lanes(&s)
                                                                                   : VB_NOMEM;
    for (uint32_t w = 0; s.st == VB_OK && w < p->nworkers; w++)
        begin_step(&s, w, 0);
    while (s.st == VB_OK && queue_get(&s.queue, &ev))
        handle(&s, &ev);
    if (s.st == VB_OK)
        sum_up(&s);
    tear_down(&s);
    return s.st;
}
