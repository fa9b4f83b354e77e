/*
 * How: gradients of the step in flight are kept like PS_SYNC's, but nothing is applied until the
 * coordinator names the step's workers. All chunks make a step in one event, so they share its number.
 */
#include "ps/engine_int.h"

#include "base/util.h"

static bool in_set(const uint64_t *set, uint32_t w)
{
    return (set[w / 64] >> (w % 64) & 1) != 0;
}

/* Is it the chunks' turn, and is the set not empty and all of it counted? */
static bool set_ok(const struct ps_engine *e, const struct ps_event *ev)
{
    bool any = false;

    if (ev->set == NULL ||
        (e->p.nworkers % 64 != 0 && ev->set[e->words - 1] >> (e->p.nworkers % 64) != 0))
        return false;
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        if (!e->chunk[k].has_value || e->chunk[k].reducing)
            return false;
    for (uint32_t w = 0; w < e->p.nworkers; w++) {
        const struct worker *me = &e->worker[w];

        if (!in_set(ev->set, w))
            continue;
        if (me->state == ABSENT || !ps_rule_set_member(me->clock, ev->clock))
            return false;
        any = true;
    }
    return any;
}

/* What is left of the chunk's kept gradients is those of the set. */
static void drop_others(struct ps_engine *e, uint32_t k, const uint64_t *set, struct out *o)
{
    struct chunk *c = &e->chunk[k];

    step_open(e, k);
    for (uint32_t w = 0; w < e->p.nworkers; w++) {
        if (!ps_engine_has(e, k, w) || in_set(set, w))
            continue;
        e->in[(size_t)k * e->words + w / 64] &= ~(UINT64_C(1) << (w % 64));
        c->samples -= cell_at(e, k, w)->samples;
        engine_drop(e, k, w, o);
    }
}

enum vb_st backup_on_set(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    if (!ps_rule_set_next(ev->clock, e->step))
        return ev->clock < e->step ? VB_OK : VB_PROTO; /* twice, or out of order */
    if (!set_ok(e, ev))
        return VB_PROTO;
    e->step++;
    for (uint32_t k = 0; k < e->p.nchunks; k++) {
        drop_others(e, k, ev->set, o);
        step_begin(e, k, o);
    }
    return VB_OK;
}

static enum vb_st backup_push(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    struct cell *mine = cell_at(e, ev->chunk, ev->worker);
    const struct chunk *c = &e->chunk[ev->chunk];

    if (ev->clock > c->epoch)
        return VB_PROTO;
    if (me->state != LIVE || ps_rule_again(ev->clock, mine->next)) {
        engine_drop(e, ev->chunk, ev->worker, o);
        return VB_OK;
    }
    me->pushes++;
    mine->next = ev->clock + 1;
    /* one that has died and joined again may have left a gradient of this step */
    if (!ps_rule_in_time(ev->clock, c->epoch, c->reducing) ||
        (c->fresh && ps_engine_has(e, ev->chunk, ev->worker))) {
        engine_drop(e, ev->chunk, ev->worker, o);
    } else {
        mine->samples = ev->samples;
        step_keep(e, ev, o);
    }
    read_implied(e, ev);
    read_answer(e, ev->chunk, ev->worker, o);
    return VB_OK;
}

static void backup_ticked(struct ps_engine *e, uint32_t w, struct out *o)
{
    if (e->worker[w].clock == e->step + 1)
        act(o, (struct ps_action){ .kind = PS_ACT_COUNTED, .worker = w, .clock = e->step });
}

static void backup_left(struct ps_engine *e, uint32_t w, struct out *o)
{
    read_forget(e, w);
}

static void backup_applied(struct ps_engine *e, uint32_t k, struct out *o)
{
    struct chunk *c = &e->chunk[k];

    c->low = c->top = c->epoch;
    read_answer_all(e, k, o);
}

static void backup_bound(struct ps_engine *e, struct out *o)
{
    /* always 0 */
}

/* Those that are counted may be enough: then it is the coordinator's turn. */
static bool backup_laggard(const struct ps_engine *e, uint32_t k, uint32_t w, uint32_t *whom_out,
                           uint64_t *clock_out)
{
    const uint64_t step = e->chunk[k].epoch;
    uint32_t counted = 0, first = PS_ALL;

    for (uint32_t v = e->p.nworkers; v-- > 0;) {
        if (!holds_up(e, v))
            continue;
        if (e->worker[v].clock > step)
            counted++;
        else
            first = v;
    }
    if (e->chunk[k].reducing || first == PS_ALL || counted >= e->p.nworkers - e->p.backups)
        return false;
    *whom_out = first;
    *clock_out = step;
    return true;
}

const struct rules engine_backup = { .cells = true,
                                     .joined = read_joined,
                                     .first_value = read_first_value,
                                     .push = backup_push,
                                     .read = read_on,
                                     .ticked = backup_ticked,
                                     .left = backup_left,
                                     .applied = backup_applied,
                                     .bound = backup_bound,
                                     .blocked = read_blocked,
                                     .laggard = backup_laggard };
