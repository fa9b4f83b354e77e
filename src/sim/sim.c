/*
 * How: a push goes through four events: its first byte reaches the ps (PUSH_SEEN), it is in (PUSH_IN), the
 * lane has added it (PUSH_DONE), when the engine says who may go on; an answer through two. A worker
 * pushes again only when all its answers are in, so the clock of what is on its way is the worker's.
 */
#include "sim/sim_priv.h"

#include "base/util.h"

void sim_put(struct sim *s, struct sim_event ev)
{
    const enum vb_st st = queue_put(&s->queue, ev);

    if (st != VB_OK)
        s->st = st;
}

static double wire_bytes(const struct sim *s, uint32_t chunk, bool push)
{
    const double ratio = push ? s->p->push_ratio : s->p->pull_ratio;

    return (double)s->p->table->chunk[chunk].bytes / (ratio > 0 ? ratio : 1);
}

static double busy(const struct sim *s, uint32_t chunk, bool push)
{
    const struct sim_link *l = &s->p->link;

    return VB_MAX(l->overhead, l->gap) + wire_bytes(s, chunk, push) * l->per_byte;
}

/* The receiver sees the first byte a latency after it has left. */
static void send_from(struct sim *s, uint32_t task, double now, struct sim_event ev)
{
    struct port *from = &s->port[task];
    const double begin = VB_MAX(now, from->tx);

    from->tx = begin + busy(s, ev.chunk, ev.kind == PUSH_SEEN);
    ev.at = begin + s->p->link.latency;
    sim_put(s, ev);
}

static void receive_at(struct sim *s, uint32_t task, struct sim_event ev, uint32_t kind)
{
    struct port *to = &s->port[task];

    to->rx = VB_MAX(ev.at, to->rx) + busy(s, ev.chunk, ev.kind == PUSH_SEEN);
    ev.at = to->rx;
    ev.kind = kind;
    sim_put(s, ev);
}

static uint32_t lane_of(const struct sim *s, uint32_t chunk)
{
    const struct ps_chunk *c = &s->p->table->chunk[chunk];

    return c->ps * s->p->table->nlanes + c->lane;
}

/* Nothing more will come of this worker. */
static void leave(struct sim *s, uint32_t w, double now)
{
    s->worker[w].finished = true;
    s->live--;
    for (uint32_t i = 0; i < s->nlanes; i++)
        if (s->lane[i].nchunks > 0)
            sim_tell(s, i,
                     &(struct ps_event){ .kind = PS_EV_FINISHED,
                                         .worker = w,
                                         .clock = s->worker[w].clock - 1,
                                         .count = s->lane[i].pushed[w] },
                     now, 0);
    sim_name(s, now);
}

static void begin_step(struct sim *s, uint32_t w, double now)
{
    struct worker *me = &s->worker[w];

    s->out->seconds = VB_MAX(s->out->seconds, now);
    if (me->clock >= s->p->steps) {
        leave(s, w, now);
        return;
    }
    if (s->p->dies == w + 1 && me->clock >= s->p->dies_at) {
        me->dead = true;
        sim_put(s, (struct sim_event){ .at = now + s->p->noticed, .kind = LOST, .worker = w });
        return;
    }
    sim_put(s, (struct sim_event){ .at = now + s->p->compute(s->p->arg, w, me->clock),
                                   .kind = COMPUTED,
                                   .worker = w });
}

/* Backward: what the forward pass needs last leaves first. */
static void push_all(struct sim *s, const struct sim_event *ev)
{
    const struct ps_table *t = s->p->table;
    struct worker *me = &s->worker[ev->worker];

    me->computed_at = ev->at;
    me->missing = t->nchunks;
    s->out->steps++;
    for (uint32_t k = t->nchunks; k-- > 0;) {
        me->asked[k] = true;
        send_from(s, t->nps + ev->worker, ev->at,
                  (struct sim_event){
                      .kind = PUSH_SEEN, .worker = ev->worker, .chunk = k, .clock = me->clock });
        s->out->pushed_bytes += (uint64_t)wire_bytes(s, k, true);
    }
}

static void publish(struct sim *s, struct lane *l, const struct ps_action *a, double now,
                    uint32_t by)
{
    const uint32_t chunk = l->chunk[a->chunk];

    if (a->worker != PS_ALL)
        ps_bound_note(&l->bound, a->worker + 1 != by);
    for (uint32_t w = 0; w < s->p->nworkers; w++)
        if ((a->worker == PS_ALL || a->worker == w) && ps_engine_live(l->engine, w))
            send_from(
                s, s->p->table->chunk[chunk].ps, now,
                (struct sim_event){
                    .kind = PARAM_SEEN, .worker = w, .chunk = chunk, .by = by, .clock = a->clock });
}

void sim_tell(struct sim *s, uint32_t lane, const struct ps_event *ev, double now, uint32_t by)
{
    struct lane *l = &s->lane[lane];
    uint64_t bound = 0;
    size_t n = 0;
    const enum vb_st st = ps_engine_step(l->engine, ev, s->action, &n);

    if (st != VB_OK)
        s->st = st;
    for (size_t i = 0; i < n; i++)
        if (s->action[i].kind == PS_ACT_PUBLISH)
            publish(s, l, &s->action[i], now, by);
        else if (s->action[i].kind == PS_ACT_COUNTED)
            sim_counted(s, s->action[i].worker, s->action[i].clock, now);
    if (ps_bound_tend(&l->bound, s->p->rule, s->p->nworkers, l->nchunks, &bound))
        sim_tell(s, lane, &(struct ps_event){ .kind = PS_EV_BOUND, .count = bound }, now, 0);
}

static void add_push(struct sim *s, struct sim_event ev)
{
    struct lane *l = &s->lane[lane_of(s, ev.chunk)];

    l->free_at = VB_MAX(l->free_at, ev.at) +
                 (double)s->p->table->chunk[ev.chunk].bytes * s->p->apply_per_byte;
    ev.at = l->free_at;
    ev.kind = PUSH_DONE;
    sim_put(s, ev);
}

/* The lane has it; with the last one of a step the worker's tick, which backup workers need. */
static void pushed(struct sim *s, const struct sim_event *ev)
{
    const uint32_t i = lane_of(s, ev->chunk);
    struct lane *l = &s->lane[i];

    l->pushed[ev->worker]++;
    sim_tell(s, i,
             &(struct ps_event){ .kind = PS_EV_PUSH,
                                 .worker = ev->worker,
                                 .chunk = s->local[ev->chunk],
                                 .clock = ev->clock,
                                 .samples = 1 },
             ev->at, ev->worker + 1);
    if (s->p->rule->mode == PS_BACKUP && l->pushed[ev->worker] % l->nchunks == 0)
        sim_tell(s, i,
                 &(struct ps_event){ .kind = PS_EV_TICK,
                                     .worker = ev->worker,
                                     .clock = ev->clock,
                                     .count = l->pushed[ev->worker] },
                 ev->at, ev->worker + 1);
}

/* Who was left behind goes on from the lowest epoch that it was answered with. */
static uint64_t next_clock(const struct sim *s, const struct worker *me)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < s->p->table->nchunks; k++)
        least = VB_MIN(least, me->epoch[k]);
    return least;
}

static void answer_in(struct sim *s, const struct sim_event *ev)
{
    struct worker *me = &s->worker[ev->worker];

    if (me->dead || !me->asked[ev->chunk])
        return;
    me->asked[ev->chunk] = false;
    me->epoch[ev->chunk] = ev->clock;
    s->out->pulled_bytes += (uint64_t)wire_bytes(s, ev->chunk, false);
    if (--me->missing > 0)
        return;
    me->clock = next_clock(s, me);
    me->waited += ev->at - me->computed_at;
    if (s->p->waited_for != NULL && ev->by > 0)
        s->p->waited_for[(size_t)ev->worker * s->p->nworkers + ev->by - 1] +=
            ev->at - me->computed_at;
    begin_step(s, ev->worker, ev->at);
}

static void lost(struct sim *s, const struct sim_event *ev)
{
    s->live--;
    for (uint32_t i = 0; i < s->nlanes; i++)
        if (s->lane[i].nchunks > 0)
            sim_tell(s, i, &(struct ps_event){ .kind = PS_EV_LOST, .worker = ev->worker }, ev->at,
                     ev->worker + 1);
    sim_name(s, ev->at);
}

static void handle(struct sim *s, const struct sim_event *ev)
{
    const uint32_t nps = s->p->table->nps;

    switch (ev->kind) {
    case COMPUTED:
        push_all(s, ev);
        break;
    case PUSH_SEEN:
        receive_at(s, s->p->table->chunk[ev->chunk].ps, *ev, PUSH_IN);
        break;
    case PUSH_IN:
        add_push(s, *ev);
        break;
    case PUSH_DONE:
        pushed(s, ev);
        break;
    case PARAM_SEEN:
        receive_at(s, nps + ev->worker, *ev, PARAM_IN);
        break;
    case PARAM_IN:
        answer_in(s, ev);
        break;
    case SET:
        sim_tell(s, ev->chunk,
                 &(struct ps_event){ .kind = PS_EV_SET, .clock = ev->clock, .set = s->set }, ev->at,
                 0);
        break;
    default:
        lost(s, ev);
    }
}

static void sum_up(struct sim *s)
{
    for (uint32_t w = 0; w < s->p->nworkers; w++) {
        s->out->waited += s->worker[w].waited / s->p->nworkers;
        s->out->waited_most = VB_MAX(s->out->waited_most, s->worker[w].waited);
    }
    for (uint32_t i = 0; i < s->nlanes; i++) {
        if (s->lane[i].engine == NULL)
            continue;
        for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
            s->out->staleness[b] += ps_engine_staleness(s->lane[i].engine)[b];
        s->out->dropped += ps_engine_dropped(s->lane[i].engine);
    }
}

enum vb_st sim_run(const struct sim_params *p, struct sim_result *out)
{
    struct sim s = { .p = p, .out = out };
    struct sim_event ev;

    *out = (struct sim_result){ .seconds = 0 };
    if (p->nworkers == 0 || p->steps == 0 || p->table->nclasses != 1)
        return VB_INVAL;
    s.st = sim_set_up(&s);
    for (uint32_t w = 0; s.st == VB_OK && w < p->nworkers; w++)
        begin_step(&s, w, 0);
    while (s.st == VB_OK && queue_get(&s.queue, &ev))
        handle(&s, &ev);
    if (s.st == VB_OK)
        sum_up(&s);
    sim_tear_down(&s);
    return s.st;
}
