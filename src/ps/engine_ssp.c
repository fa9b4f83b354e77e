/*
 * How: a cell per (chunk, worker) says up to which clock its pushes are in, and which read waits. The
 * chunk's `low` is the least of the live workers' cells: R. It is looked for again only when the cell
 * that moved stood there, and waiting reads are looked at when it rose. PS_BACKUP's reads wait the
 * same way, with the epoch for `low`.
 */
#include "ps/engine_int.h"

#include "base/util.h"

/* ---- reads that wait ---- */

void read_forget(struct ps_engine *e, uint32_t w)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++) {
        e->chunk[k].nwait -= cell_at(e, k, w)->want != 0;
        cell_at(e, k, w)->want = 0;
    }
}

void read_joined(struct ps_engine *e, uint32_t w)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++) {
        struct cell *c = cell_at(e, k, w);

        c->next = e->worker[w].clock;
        c->want = c->granted = 0;
    }
}

static void want(struct ps_engine *e, uint32_t k, uint32_t w, uint64_t clock)
{
    struct cell *c = cell_at(e, k, w);

    e->chunk[k].nwait += c->want == 0;
    c->want = VB_MAX(c->want, clock + 1);
}

void read_implied(struct ps_engine *e, const struct ps_event *ev)
{
    want(e, ev->chunk, ev->worker, ev->clock + 1);
}

static bool due(const struct ps_engine *e, uint32_t k, uint32_t w)
{
    const struct chunk *c = &e->chunk[k];
    const struct cell *mine = cell_at(e, k, w);

    return mine->want != 0 && c->has_value && ps_rule_window(c->low, mine->want - 1, e->s) &&
           (e->rules == &engine_backup || ps_rule_own(mine->next, mine->want - 1));
}

static void answer(struct ps_engine *e, uint32_t k, uint32_t w, struct out *o)
{
    struct chunk *c = &e->chunk[k];
    struct cell *mine = cell_at(e, k, w);
    const uint64_t clock = e->rules == &engine_backup ? c->epoch : mine->want - 1;
    const uint64_t behind = clock > c->low ? clock - c->low : 0;

    act(o, (struct ps_action){ .kind = PS_ACT_PUBLISH,
                               .worker = w,
                               .chunk = k,
                               .clock = clock,
                               .updates = c->epoch,
                               .behind = behind,
                               .ahead = c->top > clock ? c->top - clock : 0 });
    mine->granted = clock + 1;
    mine->want = 0;
    c->nwait--;
    engine_note_read(e, behind);
}

void read_answer(struct ps_engine *e, uint32_t k, uint32_t w, struct out *o)
{
    if (due(e, k, w))
        answer(e, k, w, o);
}

void read_answer_all(struct ps_engine *e, uint32_t k, struct out *o)
{
    for (uint32_t w = 0; e->chunk[k].nwait > 0 && w < e->p.nworkers; w++)
        if (due(e, k, w) && ps_rule_release(e->chunk[k].low, cell_at(e, k, w)->want - 1, e->s))
            answer(e, k, w, o);
}

void read_first_value(struct ps_engine *e, uint32_t k, struct out *o)
{
    for (uint32_t w = 0; w < e->p.nworkers; w++) {
        struct cell *c = cell_at(e, k, w);

        if (!ps_engine_live(e, w))
            continue;
        c->granted = VB_MAX(c->granted, 1u);
        if (c->want == 1) {
            c->want = 0;
            e->chunk[k].nwait--;
        }
    }
    read_answer_all(e, k, o);
}

enum vb_st read_on(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    if (ev->clock == UINT64_MAX)
        return VB_PROTO;
    const uint64_t granted = cell_at(e, ev->chunk, ev->worker)->granted;

    if (ev->count != 0 ? ev->clock + 1 != granted : ev->clock < granted)
        return VB_OK; /* twice, or long ago */
    want(e, ev->chunk, ev->worker, ev->clock);
    read_answer(e, ev->chunk, ev->worker, o);
    return VB_OK;
}

bool read_blocked(const struct ps_engine *e, uint32_t k, uint32_t w)
{
    return w == PS_ALL ? e->chunk[k].nwait > 0 : cell_at(e, k, w)->want != 0;
}

/* ---- bounded staleness ---- */

static uint64_t find_low(const struct ps_engine *e, uint32_t k)
{
    uint64_t low = UINT64_MAX;
    bool any = false;

    for (uint32_t w = 0; w < e->p.nworkers; w++)
        if (holds_up(e, w)) {
            low = VB_MIN(low, cell_at(e, k, w)->next);
            any = true;
        }
    return any ? low : e->chunk[k].low;
}

/* A cell that stood at `was` has moved or counts no more. */
static void look_again(struct ps_engine *e, uint32_t k, uint64_t was, struct out *o)
{
    struct chunk *c = &e->chunk[k];
    const uint64_t low = was > c->low ? c->low : find_low(e, k);

    if (low <= c->low)
        return;
    c->low = low;
    read_answer_all(e, k, o);
}

static void move(struct ps_engine *e, uint32_t k, uint32_t w, uint64_t next, struct out *o)
{
    struct cell *mine = cell_at(e, k, w);
    const uint64_t was = mine->next;

    if (next <= was)
        return;
    mine->next = next;
    e->chunk[k].top = VB_MAX(e->chunk[k].top, next);
    look_again(e, k, was, o);
    read_answer(e, k, w, o);
}

static enum vb_st ssp_push(struct ps_engine *e, const struct ps_event *ev, struct out *o)
{
    struct worker *me = &e->worker[ev->worker];
    const struct cell *mine = cell_at(e, ev->chunk, ev->worker);

    if (me->state != LIVE || ps_rule_again(ev->clock, mine->next)) {
        engine_drop(e, ev->chunk, ev->worker, o);
        return VB_OK;
    }
    if (ev->clock >= mine->granted)
        return VB_PROTO;
    me->pushes++;
    step_keep(e, ev, o);
    step_make(e, ev->chunk, ev->worker, ev->clock, 1.0f, o);
    read_implied(e, ev);
    move(e, ev->chunk, ev->worker, ev->clock + 1, o);
    return VB_OK;
}

static void ssp_joined(struct ps_engine *e, uint32_t w)
{
    read_joined(e, w);
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        e->chunk[k].low = find_low(e, k);
}

static void ssp_ticked(struct ps_engine *e, uint32_t w, struct out *o)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        move(e, k, w, e->worker[w].clock, o);
}

static void ssp_left(struct ps_engine *e, uint32_t w, struct out *o)
{
    read_forget(e, w);
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        look_again(e, k, cell_at(e, k, w)->next, o);
}

static void ssp_bound(struct ps_engine *e, struct out *o)
{
    for (uint32_t k = 0; k < e->p.nchunks; k++)
        read_answer_all(e, k, o);
}

static void ssp_applied(struct ps_engine *e, uint32_t k, struct out *o)
{
    /* the push that made this step says who may go on */
}

static bool ssp_laggard(const struct ps_engine *e, uint32_t k, uint32_t w, uint32_t *whom_out,
                        uint64_t *clock_out)
{
    const struct chunk *c = &e->chunk[k];

    for (uint32_t v = 0; w == PS_ALL && v < e->p.nworkers; v++)
        if (cell_at(e, k, v)->want != 0)
            w = v;
    if (!c->has_value || w == PS_ALL)
        return false;
    const struct cell *mine = cell_at(e, k, w);

    *clock_out = mine->next;
    *whom_out = w;
    if (ps_rule_window(c->low, mine->want - 1, e->s))
        return true; /* for pushes of its own */
    *clock_out = c->low;
    for (uint32_t v = 0; v < e->p.nworkers; v++)
        if (holds_up(e, v) && cell_at(e, k, v)->next == c->low) {
            *whom_out = v;
            return true;
        }
    return false;
}

const struct rules engine_ssp = { .cells = true,
                                  .joined = ssp_joined,
                                  .first_value = read_first_value,
                                  .push = ssp_push,
                                  .read = read_on,
                                  .ticked = ssp_ticked,
                                  .left = ssp_left,
                                  .applied = ssp_applied,
                                  .bound = ssp_bound,
                                  .blocked = read_blocked,
                                  .laggard = ssp_laggard };
