/*
 * How: per chunk one bit set `in` of the workers whose gradient of the step in flight is kept. After
 * APPLY the set is kept as `applied` until the next push so that the caller can still ask who was in.
 * A chunk is complete when no live worker is missing from the set and the set is not empty.
 */
#include "ps/engine.h"

#include "base/util.h"

#include <string.h>

enum member { ABSENT, LIVE, FINISHED, LOST };

struct worker {
    enum member state;
    bool tick_held, tick_finishes;
    uint64_t clock;  /* ticks that took effect */
    uint64_t pushes; /* accepted */
    uint64_t tick_clock, tick_count;
};

struct chunk {
    bool has_value, reducing, fresh; /* fresh: `in` is of the step in flight, not of the last one */
    uint32_t nin;
    uint64_t epoch, samples;
};

struct ps_engine {
    struct ps_engine_params p;
    uint32_t words; /* of a bit set */
    uint64_t dropped;
    struct worker *worker;
    struct chunk *chunk;
    uint64_t *in; /* words per chunk */
};

struct out {
    struct ps_action *a;
    size_t n;
};

static void act(struct out *o, struct ps_action a)
{
    o->a[o->n++] = a;
}

size_t ps_engine_bytes(const struct ps_engine_params *p)
{
    const uint64_t words = ((uint64_t)p->nworkers + 63) / 64;
    uint64_t bits = 0, chunks = 0, total = 0;

    if (!vb_mul(words * sizeof(uint64_t), p->nchunks, &bits) ||
        !vb_mul(sizeof(struct chunk), p->nchunks, &chunks) || !vb_add(bits, chunks, &total) ||
        !vb_add(total, sizeof(struct ps_engine) + p->nworkers * sizeof(struct worker), &total))
        return 0;
    return total;
}

struct ps_engine *ps_engine_init(void *mem, const struct ps_engine_params *p)
{
    struct ps_engine *e = mem;

    memset(mem, 0, ps_engine_bytes(p));
    e->p = *p;
    e->words = (p->nworkers + 63) / 64;
    e->worker = (struct worker *)(void *)(e + 1);
    e->chunk = (struct chunk *)(void *)(e->worker + p->nworkers);
    e->in = (uint64_t *)(void *)(e->chunk + p->nchunks);
    return e;
}

size_t ps_engine_max_actions(const struct ps_engine_params *p)
{
    return 2 * (size_t)p->nchunks + 2;
}

bool ps_engine_has(const struct ps_engine *e, uint32_t chunk, uint32_t worker)
{
    return (e->in[(size_t)chunk * e->words + worker / 64] >> (worker % 64) & 1) != 0;
}

bool ps_engine_live(const struct ps_engine *e, uint32_t worker)
{
    return e->worker[worker].state == LIVE;
}

bool ps_engine_missing(const struct ps_engine *e, uint32_t *worker_out, uint64_t *clock_out)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        for (uint32_t w = 0; e->chunk[k].fresh && w < e->p.nworkers; w++)
            if (e->worker[w].state == LIVE && !ps_engine_has(e, k, w)) {
                *worker_out = w;
                *clock_out = e->chunk[k].epoch;
                return true;
            }
    return false;
}

uint64_t ps_engine_dropped(const struct ps_engine *e)
{
    return e->dropped;
}

static bool complete(const struct ps_engine *e, uint32_t k)
{
    if (!e->chunk[k].fresh || e->chunk[k].nin == 0)
        return false;
    for (uint32_t w = 0; w < e->p.nworkers; w++)
        if (e->worker[w].state == LIVE && !ps_engine_has(e, k, w))
            return false;
    return true;
}

static void apply(struct ps_engine *e, uint32_t k, float value, struct out *o)
{
    struct chunk *c = &e->chunk[k];

    act(o, (struct ps_action){ .kind = PS_ACT_APPLY,
                               .chunk = k,
                               .clock = c->epoch,
                               .samples = c->samples,
                               .value = value });
    c->epoch++;
    c->fresh = c->reducing = false;
    act(o, (struct ps_action){
               .kind = PS_ACT_PUBLISH, .chunk = k, .clock = c->epoch, .worker = PS_ALL });
}

static void advance(struct ps_engine *e, uint32_t k, struct out *o)
{
    struct chunk *c = &e->chunk[k];

    if (c->reducing || !complete(e, k))
        return;
    if (!e->p.two_phase) {
        apply(e, k, 1.0f, o);
        return;
    }
    c->reducing = true;
    act(o, (struct ps_action){ .kind = PS_ACT_PARTIAL, .chunk = k, .clock = c->epoch });
}

static void advance_all(struct ps_engine *e, struct out *o)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        advance(e, k, o);
}

/* The quorum shrinks: steps that waited for this worker may be complete. */
static void leave(struct ps_engine *e, uint32_t w, enum member state, struct out *o)
{
    e->worker[w].state = state;
    e->worker[w].tick_held = false;
    advance_all(e, o);
}

static void try_tick(struct ps_engine *e, uint32_t w, struct out *o)
{
    struct worker *me = &e->worker[w];

    if (!me->tick_held || me->pushes < me->tick_count)
        return;
    me->tick_held = false;
    me->clock = VB_MAX(me->clock, me->tick_clock + 1);
    if (me->tick_finishes)
        leave(e, w, FINISHED, o);
}

static enum vb_st on_joined(struct ps_engine *e, const struct ps_event *ev)
{
    struct worker *me = &e->worker[ev->worker];

    if (me->state == LIVE)
        return VB_OK; /* twice */
    *me = (struct worker){ .state = LIVE, .clock = ev->clock };
    return VB_OK;
}

static enum vb_st on_init(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct chunk *c = &e->chunk[ev->chunk];

    if (c->has_value) {
        e->dropped++;
        act(o, (struct ps_action){ .kind = PS_ACT_DROP, .chunk = ev->chunk, .worker = PS_ALL });
        return VB_OK;
    }
    c->has_value = true;
    act(o, (struct ps_action){ .kind = PS_ACT_STORE, .chunk = ev->chunk });
    act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH, .chunk = ev->chunk, .worker = PS_ALL });
    return VB_OK;
}

static void keep(struct ps_engine *e, const struct ps_event *ev)
{
    struct chunk *c = &e->chunk[ev->chunk];
    uint64_t *in = &e->in[(size_t)ev->chunk * e->words];

    if (!c->fresh) { /* first push of a new step */
        memset(in, 0, e->words * sizeof(*in));
        c->fresh = true;
        c->nin = 0;
        c->samples = 0;
    }
    in[ev->worker / 64] |= UINT64_C(1) << (ev->worker % 64);
    c->nin++;
    c->samples += ev->samples;
}

static enum vb_st on_push(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    struct chunk *c = &e->chunk[ev->chunk];

    if (me->state == ABSENT || !c->has_value || ev->clock > c->epoch)
        return VB_PROTO;
    const bool twice = c->fresh && ps_engine_has(e, ev->chunk, ev->worker);
    if (me->state != LIVE || ev->clock < c->epoch || twice || c->reducing) {
        e->dropped++;
        act(o, (struct ps_action){ .kind = PS_ACT_DROP, .chunk = ev->chunk, .worker = ev->worker });
        return VB_OK;
    }
    me->pushes++;
    keep(e, ev);
    act(o, (struct ps_action){ .kind = PS_ACT_KEEP, .chunk = ev->chunk, .worker = ev->worker });
    advance(e, ev->chunk, o);
    try_tick(e, ev->worker, o);
    return VB_OK;
}

static enum vb_st on_tick(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    const bool finishes = ev->kind == PS_EV_FINISHED;

    if (me->state == ABSENT)
        return VB_PROTO;
    if (me->state != LIVE)
        return VB_OK; /* twice, or from one given up */
    if (!finishes && ev->clock < me->clock)
        return VB_OK; /* stale */
    if (me->tick_held && me->tick_finishes && !finishes)
        return VB_OK; /* overtaken by the last one */
    me->tick_held = true;
    me->tick_finishes = finishes;
    me->tick_clock = ev->clock;
    me->tick_count = ev->count;
    try_tick(e, ev->worker, o);
    return VB_OK;
}

static enum vb_st on_read(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    const struct chunk *c = &e->chunk[ev->chunk];

    if (e->worker[ev->worker].state != LIVE)
        return VB_PROTO;
    /* Later epochs are published to every live worker anyway. */
    if (c->has_value && c->epoch >= ev->clock)
        act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH,
                                   .chunk = ev->chunk,
                                   .clock = c->epoch,
                                   .worker = ev->worker });
    return VB_OK;
}

static enum vb_st on_reduced(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    if (!e->p.two_phase)
        return VB_PROTO;
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        if (e->chunk[k].reducing && e->chunk[k].epoch == ev->clock)
            apply(e, k, ev->value, o);
    return VB_OK;
}

static bool numbers_ok(const struct ps_engine *e, const struct ps_event *ev)
{
    const bool of_chunk =
        ev->kind == PS_EV_INIT || ev->kind == PS_EV_PUSH || ev->kind == PS_EV_READ;
    const bool of_worker =
        ev->kind != PS_EV_INIT && ev->kind != PS_EV_REDUCED && ev->kind != PS_EV_TIMER;

    return (!of_chunk || ev->chunk < e->p.nchunks) && (!of_worker || ev->worker < e->p.nworkers);
}

enum vb_st ps_engine_step(struct ps_engine *e, const struct ps_event *ev, struct ps_action *out,
                          size_t *nout)
{
    struct out o = { .a = out };
    enum vb_st st = VB_PROTO;

    if (numbers_ok(e, ev)) {
        switch (ev->kind) {
        case PS_EV_JOINED:
            st = on_joined(e, ev);
            break;
        case PS_EV_INIT:
            st = on_init(e, ev, &o);
            break;
        case PS_EV_PUSH:
            st = on_push(e, ev, &o);
            break;
        case PS_EV_TICK:
        case PS_EV_FINISHED:
            st = on_tick(e, ev, &o);
            break;
        case PS_EV_READ:
            st = on_read(e, ev, &o);
            break;
        case PS_EV_LOST:
            leave(e, ev->worker, LOST, &o);
            st = VB_OK;
            break;
        case PS_EV_REDUCED:
            st = on_reduced(e, ev, &o);
            break;
        case PS_EV_TIMER:
            st = VB_OK;
            break;
        }
    }
    *nout = o.n;
    return st;
}
