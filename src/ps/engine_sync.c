/*
 * How: per chunk one bit set `in` of the workers whose gradient of the step in flight is kept. After
 * APPLY the set stays until the next push, so that the caller can still ask who was in. In PS_SYNC a
 * chunk is complete when no live worker is missing from the set and the set is not empty.
 */
#include "ps/engine_int.h"

#include <string.h>

void step_open(struct ps_engine *e, uint32_t k)
{
    struct chunk *c = &e->chunk[k];

    if (c->fresh)
        return;
    memset(&e->in[(size_t)k * e->words], 0, e->words * sizeof(*e->in));
    c->fresh = true;
    c->samples = 0;
}

void step_keep(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    uint64_t *in = &e->in[(size_t)ev->chunk * e->words];

    step_open(e, ev->chunk);
    in[ev->worker / 64] |= UINT64_C(1) << (ev->worker % 64);
    e->chunk[ev->chunk].samples += ev->samples;
    act(o, (struct ps_action){ .kind = PS_ACT_KEEP, .chunk = ev->chunk, .worker = ev->worker });
}

void step_make(struct ps_engine *e, uint32_t k, uint32_t w, uint64_t clock, float value,
               struct out *o)
{
    struct chunk *c = &e->chunk[k];

    act(o, (struct ps_action){ .kind = PS_ACT_APPLY,
                               .worker = w,
                               .chunk = k,
                               .clock = clock,
                               .samples = c->samples,
                               .updates = c->epoch,
                               .value = value });
    c->epoch++;
    c->fresh = c->reducing = false;
    e->rules->applied(e, k, o);
}

void step_begin(struct ps_engine *e, uint32_t k, struct out *o)
{
    struct chunk *c = &e->chunk[k];

    if (!e->p.two_phase) {
        step_make(e, k, PS_ALL, c->epoch, 1.0f, o);
        return;
    }
    c->reducing = true;
    act(o, (struct ps_action){ .kind = PS_ACT_PARTIAL,
                               .worker = PS_ALL,
                               .chunk = k,
                               .clock = c->epoch,
                               .samples = c->samples,
                               .updates = c->epoch });
}

static bool sync_laggard(const struct ps_engine *e, uint32_t k, uint32_t w, uint32_t *whom_out,
                         uint64_t *clock_out)
{
    for (uint32_t v = 0; v < e->p.nworkers; v++)
        if (holds_up(e, v) && !ps_engine_has(e, k, v)) {
            *whom_out = v;
            *clock_out = e->chunk[k].epoch;
            return true;
        }
    return false;
}

static bool sync_blocked(const struct ps_engine *e, uint32_t k, uint32_t w)
{
    return e->chunk[k].fresh && (w == PS_ALL || (ps_engine_live(e, w) && ps_engine_has(e, k, w)));
}

static void advance(struct ps_engine *e, uint32_t k, struct out *o)
{
    const struct chunk *c = &e->chunk[k];
    uint32_t whom = 0;
    uint64_t clock = 0;

    if (c->fresh && !c->reducing && !sync_laggard(e, k, PS_ALL, &whom, &clock))
        step_begin(e, k, o);
}

static void sync_left(struct ps_engine *e, uint32_t w, struct out *o)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        advance(e, k, o);
}

static enum vb_st sync_push(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    const struct chunk *c = &e->chunk[ev->chunk];

    if (ev->clock > c->epoch)
        return VB_PROTO;
    if (me->state != LIVE || (c->fresh && ps_engine_has(e, ev->chunk, ev->worker)) ||
        !ps_rule_in_time(ev->clock, c->epoch, c->reducing)) {
        engine_drop(e, ev->chunk, ev->worker, o);
        return VB_OK;
    }
    me->pushes++;
    step_keep(e, ev, o);
    advance(e, ev->chunk, o);
    return VB_OK;
}

static enum vb_st sync_read(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    const struct chunk *c = &e->chunk[ev->chunk];

    /* Later epochs are published to every live worker anyway. */
    if (!c->has_value || c->epoch < ev->clock)
        return VB_OK;
    act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH,
                               .worker = ev->worker,
                               .chunk = ev->chunk,
                               .clock = c->epoch,
                               .updates = c->epoch });
    engine_note_read(e, 0);
    return VB_OK;
}

static void sync_applied(struct ps_engine *e, uint32_t k, struct out *o)
{
    const uint64_t epoch = e->chunk[k].epoch;

    act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH,
                               .worker = PS_ALL,
                               .chunk = k,
                               .clock = epoch,
                               .updates = epoch });
    for (uint32_t w = 0; w < e->p.nworkers; w++)
        if (ps_engine_live(e, w))
            engine_note_read(e, 0);
}

static void sync_joined(struct ps_engine *e, uint32_t w)
{
    /* it counts from now on, also in the step in flight */
}

static void sync_first_value(struct ps_engine *e, uint32_t k, struct out *o)
{
    /* published to all: nobody waits apart */
}

static void sync_ticked(struct ps_engine *e, uint32_t w, struct out *o)
{
    /* a push carries its clock, and every worker pushes every chunk */
}

static void sync_bound(struct ps_engine *e, struct out *o)
{
    /* always 0 */
}

const struct rules engine_sync = { .joined = sync_joined,
                                   .first_value = sync_first_value,
                                   .push = sync_push,
                                   .read = sync_read,
                                   .ticked = sync_ticked,
                                   .left = sync_left,
                                   .applied = sync_applied,
                                   .bound = sync_bound,
                                   .blocked = sync_blocked,
                                   .laggard = sync_laggard };
