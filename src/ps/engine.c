/*
 * How: events are checked, then handed to the mode's rules. Membership and counted ticks are here, for
 * all modes. Of a worker's ticks the newest is held: it says all that older ones do.
 */
#include "ps/engine_int.h"

#include "base/util.h"

#include <string.h>

static const struct rules *rules_of(const struct ps_engine_params *p)
{
    if (p->mode == PS_BACKUP)
        return &engine_backup;
    return p->mode == PS_SSP && p->staleness_hi > 0 ? &engine_ssp : &engine_sync;
}

static bool params_ok(const struct ps_engine_params *p)
{
    if (p->mode == PS_SSP)
        return p->staleness_lo <= p->staleness_hi && !(p->two_phase && p->staleness_hi > 0);
    return p->mode == PS_SYNC || (p->mode == PS_BACKUP && p->backups < p->nworkers);
}

size_t ps_engine_bytes(const struct ps_engine_params *p)
{
    const uint64_t words = ((uint64_t)p->nworkers + 63) / 64;
    const uint64_t ncells = rules_of(p)->cells ? p->nworkers : 0;
    uint64_t bits = 0, cells = 0, chunks = 0, total = 0;

    if (!params_ok(p) || !vb_mul(words * sizeof(uint64_t), p->nchunks, &bits) ||
        !vb_mul(ncells * sizeof(struct cell), p->nchunks, &cells) ||
        !vb_mul(sizeof(struct chunk), p->nchunks, &chunks) || !vb_add(bits, chunks, &total) ||
        !vb_add(total, cells, &total) ||
        !vb_add(total, sizeof(struct ps_engine) + p->nworkers * sizeof(struct worker), &total))
        return 0;
    return total;
}

struct ps_engine *ps_engine_init(void *mem, const struct ps_engine_params *p)
{
    struct ps_engine *e = mem;

    memset(mem, 0, ps_engine_bytes(p));
    e->p = *p;
    e->rules = rules_of(p);
    e->words = (p->nworkers + 63) / 64;
    if (e->rules != &engine_ssp)
        e->p.staleness_lo = e->p.staleness_hi = 0;
    e->s = e->p.staleness_lo;
    e->worker = (struct worker *)(void *)(e + 1);
    e->chunk = (struct chunk *)(void *)(e->worker + p->nworkers);
    e->in = (uint64_t *)(void *)(e->chunk + p->nchunks);
    e->cell = (struct cell *)(void *)(e->in + (size_t)p->nchunks * e->words);
    return e;
}

size_t ps_engine_max_actions(const struct ps_engine_params *p)
{
    /* with cells: each chunk drops or keeps gradients, makes a step and answers every worker */
    const size_t per_chunk = rules_of(p)->cells ? 2 * (size_t)p->nworkers + 1 : 2;

    return per_chunk * p->nchunks + 4;
}

bool ps_engine_has(const struct ps_engine *e, uint32_t chunk, uint32_t worker)
{
    return (e->in[(size_t)chunk * e->words + worker / 64] >> (worker % 64) & 1) != 0;
}

bool ps_engine_live(const struct ps_engine *e, uint32_t worker)
{
    return e->worker[worker].state == LIVE;
}

uint64_t ps_engine_minimum(const struct ps_engine *e)
{
    uint64_t low = UINT64_MAX;

    for (uint32_t k = 0; k < e->p.nchunks; k++)
        low = VB_MIN(low, e->rules->cells ? e->chunk[k].low : e->chunk[k].epoch);
    return e->p.nchunks > 0 ? low : 0;
}

bool ps_engine_waits(const struct ps_engine *e, uint32_t worker, uint32_t *whom_out,
                     uint64_t *clock_out)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        if (e->rules->blocked(e, k, worker) && e->rules->laggard(e, k, worker, whom_out, clock_out))
            return true;
    return false;
}

bool ps_engine_missing(const struct ps_engine *e, uint32_t *worker_out, uint64_t *clock_out)
{
    return ps_engine_waits(e, PS_ALL, worker_out, clock_out);
}

uint64_t ps_engine_dropped(const struct ps_engine *e)
{
    return e->dropped;
}

const uint64_t *ps_engine_staleness(const struct ps_engine *e)
{
    return e->staleness;
}

void engine_drop(struct ps_engine *e, uint32_t k, uint32_t w, struct out *o)
{
    e->dropped++;
    act(o, (struct ps_action){ .kind = PS_ACT_DROP, .chunk = k, .worker = w });
}

void engine_note_read(struct ps_engine *e, uint64_t behind)
{
    e->staleness[VB_MIN(behind, PS_STALENESS_BUCKETS - 1u)]++;
}

/* Whoever waited for this worker may go on. */
static void leave(struct ps_engine *e, uint32_t w, enum member state, struct out *o)
{
    e->worker[w].state = state;
    e->worker[w].tick_held = false;
    e->rules->left(e, w, o);
}

/* Are the pushes that the held tick announces in? Those of later clocks may have overtaken others: as
 * many as there can be are taken off, and none when the tick is the worker's newest of all. */
static bool tick_due(const struct ps_engine *e, uint32_t w)
{
    const struct worker *me = &e->worker[w];

    if (!me->tick_held || me->pushes < me->tick_count)
        return false;
    uint64_t spare = me->pushes - me->tick_count;

    if (!e->rules->cells || me->tick_finishes)
        return true;
    for (uint32_t k = 0; k < e->p.nchunks; k++) {
        const uint64_t beyond = ps_rule_beyond(cell_at(e, k, w)->next, me->tick_clock);

        if (beyond > spare)
            return false;
        spare -= beyond;
    }
    return true;
}

static void try_tick(struct ps_engine *e, uint32_t w, struct out *o)
{
    struct worker *me = &e->worker[w];

    if (!tick_due(e, w))
        return;
    me->tick_held = false;
    if (me->tick_clock + 1 > me->clock) {
        me->clock = me->tick_clock + 1;
        e->rules->ticked(e, w, o);
    }
    if (me->tick_finishes)
        leave(e, w, FINISHED, o);
}

static enum vb_st on_joined(struct ps_engine *e, const struct ps_event *ev)
{
    struct worker *me = &e->worker[ev->worker];

    if (me->state == LIVE)
        return VB_OK; /* twice */
    *me = (struct worker){ .state = LIVE, .clock = ev->clock };
    e->rules->joined(e, ev->worker);
    return VB_OK;
}

static enum vb_st on_init(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct chunk *c = &e->chunk[ev->chunk];

    if (c->has_value) {
        engine_drop(e, ev->chunk, PS_ALL, o);
        return VB_OK;
    }
    c->has_value = true;
    act(o, (struct ps_action){ .kind = PS_ACT_STORE, .chunk = ev->chunk });
    act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH, .chunk = ev->chunk, .worker = PS_ALL });
    e->rules->first_value(e, ev->chunk, o);
    return VB_OK;
}

static enum vb_st on_push(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    const struct worker *me = &e->worker[ev->worker];

    if (me->state == ABSENT || !e->chunk[ev->chunk].has_value)
        return VB_PROTO;
    const enum vb_st st = e->rules->push(e, ev, o);

    if (st == VB_OK)
        try_tick(e, ev->worker, o);
    return st;
}

static enum vb_st on_tick(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    const bool finishes = ev->kind == PS_EV_FINISHED;

    if (me->state == ABSENT)
        return VB_PROTO;
    if (me->state != LIVE)
        return VB_OK; /* twice, or from one given up */
    if (e->rules == &engine_backup && ev->clock > e->step)
        return VB_PROTO;
    if (!finishes && ev->clock < me->clock)
        return VB_OK; /* stale */
    if (me->tick_held && !finishes && (me->tick_finishes || ev->clock < me->tick_clock))
        return VB_OK; /* overtaken by a later one */
    me->tick_held = true;
    me->tick_finishes = finishes;
    me->tick_clock = ev->clock;
    me->tick_count = ev->count;
    try_tick(e, ev->worker, o);
    return VB_OK;
}

static enum vb_st on_reduced(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    if (!e->p.two_phase)
        return VB_PROTO;
    for (uint32_t k = 0; k < e->p.nchunks; k++) {
        const struct chunk *c = &e->chunk[k];

        if (ps_rule_reduced(c->reducing, c->epoch, ev->clock))
            step_make(e, k, PS_ALL, c->epoch, ev->value, o);
    }
    return VB_OK;
}

static bool numbers_ok(const struct ps_engine *e, const struct ps_event *ev)
{
    const bool of_chunk =
        ev->kind == PS_EV_INIT || ev->kind == PS_EV_PUSH || ev->kind == PS_EV_READ;
    const bool of_worker = ev->kind == PS_EV_JOINED || ev->kind == PS_EV_PUSH ||
                           ev->kind == PS_EV_TICK || ev->kind == PS_EV_FINISHED ||
                           ev->kind == PS_EV_READ || ev->kind == PS_EV_LOST;

    return (!of_chunk || ev->chunk < e->p.nchunks) && (!of_worker || ev->worker < e->p.nworkers);
}

static enum vb_st dispatch(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    switch (ev->kind) {
    case PS_EV_JOINED:
        return on_joined(e, ev);
    case PS_EV_INIT:
        return on_init(e, ev, o);
    case PS_EV_PUSH:
        return on_push(e, ev, o);
    case PS_EV_TICK:
    case PS_EV_FINISHED:
        return on_tick(e, ev, o);
    case PS_EV_READ:
        if (e->worker[ev->worker].state == ABSENT)
            return VB_PROTO;
        return ps_engine_live(e, ev->worker) ? e->rules->read(e, ev, o) : VB_OK;
    case PS_EV_LOST:
        leave(e, ev->worker, LOST, o);
        return VB_OK;
    case PS_EV_REDUCED:
        return on_reduced(e, ev, o);
    case PS_EV_SET:
        return e->rules == &engine_backup ? backup_on_set(e, ev, o) : VB_PROTO;
    case PS_EV_BOUND:
        e->s = (uint32_t)VB_MAX(VB_MIN(ev->count, e->p.staleness_hi), e->p.staleness_lo);
        e->rules->bound(e, o);
        return VB_OK;
    case PS_EV_TIMER:
        return VB_OK;
    }
    return VB_PROTO;
}

enum vb_st ps_engine_step(struct ps_engine *e, const struct ps_event *ev, struct ps_action *out,
                          size_t *nout)
{
    struct out o = { .a = out };
    const enum vb_st st = numbers_ok(e, ev) ? dispatch(e, ev, &o) : VB_PROTO;

    *nout = o.n;
    return st;
}
