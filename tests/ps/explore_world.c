#include "explore_engine.h"

#include <stdlib.h>
#include <string.h>

struct config cfg;
const char *fault;
char trace[DEPTH][40];
unsigned depth;

static size_t engine_bytes;
static uint64_t live_engine[MEMORY / 8]; /* the engine points into itself */

/* ---- states seen ---- */

static struct {
    uint64_t *slot, n, room;
} seen;

static bool visit_hash(uint64_t h)
{
    if (seen.n * 2 >= seen.room) {
        uint64_t *old = seen.slot;
        const uint64_t had = seen.room;

        seen.room = had == 0 ? 1 << 12 : had * 2;
        seen.slot = calloc(seen.room, sizeof(*seen.slot));
        if (seen.slot == NULL)
            abort();
        seen.n = 0;
        for (uint64_t i = 0; i < had; i++)
            if (old[i] != 0)
                visit_hash(old[i]);
        free(old);
    }
    for (uint64_t i = h;; i++) {
        uint64_t *at = &seen.slot[i % seen.room];

        if (*at == h)
            return false;
        if (*at == 0) {
            *at = h;
            seen.n++;
            return true;
        }
    }
}

uint64_t states_seen(void)
{
    return seen.n;
}

void states_forget(void)
{
    free(seen.slot);
    memset(&seen, 0, sizeof(seen));
}

bool visit(const struct world *x)
{
    const size_t bytes = offsetof(struct world, engine) + engine_bytes;
    uint64_t word, h = 0;

    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, (const char *)x + i, 8);
        h = (h ^ word ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    }
    h ^= h >> 32;
    return visit_hash(h | 1);
}

/* ---- the engine under the eyes of the specification ---- */

void blame(const char *what)
{
    if (fault == NULL)
        fault = what;
}

static unsigned kept(const struct ps_engine *e, uint32_t k)
{
    unsigned set = 0;

    for (unsigned w = 0; w < cfg.nw; w++)
        set |= (unsigned)ps_engine_has(e, k, w) << w;
    return set;
}

static void told(struct world *x, const struct ps_action *a)
{
    for (unsigned w = 0; w < cfg.nw; w++) {
        if ((a->worker != PS_ALL && a->worker != w) ||
            (a->worker == PS_ALL && (x->spec.live >> w & 1) == 0))
            continue;
        x->env.unanswered[w] &= ~(1u << a->chunk);
        blame(spec_told(&x->spec, w, a->chunk, (unsigned)a->clock, (unsigned)a->behind));
        if (x->env.may[w][a->chunk] < a->clock + 1)
            x->env.may[w][a->chunk] = (uint8_t)(a->clock + 1);
    }
}

static void look_at(struct world *x, const struct ps_engine *e, const struct ps_action *a,
                    const struct ps_event *ev, bool again)
{
    switch (a->kind) {
    case PS_ACT_APPLY:
        if (cfg.mode == PS_SSP && kept(e, a->chunk) != 1u << a->worker)
            blame("a step of several workers");
        if (cfg.two_phase && a->value != (float)(a->clock + 1))
            blame("the value of another step");
        blame(spec_applied(&x->spec, a->chunk, (unsigned)a->clock, kept(e, a->chunk)));
        break;
    case PS_ACT_PUBLISH:
        told(x, a);
        break;
    case PS_ACT_DROP:
        if (ev->kind != PS_EV_PUSH || !again)
            blame(spec_dropped(&x->spec, a->worker, a->chunk,
                               ev->kind == PS_EV_PUSH ? (unsigned)ev->clock
                                                      : x->spec.epoch[a->chunk]));
        break;
    case PS_ACT_PARTIAL:
        blame(spec_partial(&x->spec, a->chunk, (unsigned)a->clock, kept(e, a->chunk)));
        if (x->spec.partial == (1u << cfg.nk) - 1)
            x->env.reduced |= 1u << a->clock;
        break;
    case PS_ACT_COUNTED:
        blame(spec_counted(&x->spec, a->worker, (unsigned)a->clock));
        break;
    case PS_ACT_KEEP:
        if (again)
            blame("a duplicate kept");
        break;
    case PS_ACT_STORE:
        break;
    }
}

struct ps_engine *engine_of(const struct world *x)
{
    memcpy(live_engine, x->engine, engine_bytes);
    return (struct ps_engine *)(void *)live_engine;
}

static enum vb_st feed(struct world *x, const struct ps_event *ev, bool again)
{
    struct ps_engine *e = engine_of(x);
    struct ps_action a[ACTIONS];
    size_t n = 0;
    const enum vb_st st = ps_engine_step(e, ev, a, &n);

    if (n > ACTIONS || (st != VB_OK && n != 0))
        blame("too many actions");
    for (size_t i = 0; i < n && fault == NULL; i++)
        look_at(x, e, &a[i], ev, again);
    e->dropped = 0; /* what only counts tells no states apart */
    memset(e->staleness, 0, sizeof(e->staleness));
    memcpy(x->engine, live_engine, engine_bytes);
    return st;
}

void must(struct world *x, const struct ps_event *ev, bool again)
{
    if (feed(x, ev, again) != VB_OK)
        blame("an honest message refused");
}

/* ---- what nobody honest does, tried on a copy ---- */

static bool takes(const struct world *x, const struct ps_event *ev)
{
    struct ps_engine *e = engine_of(x);
    struct ps_action a[ACTIONS];
    size_t n = 0;

    if (ps_engine_step(e, ev, a, &n) != VB_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (a[i].kind == PS_ACT_KEEP ||
            (a[i].kind == PS_ACT_APPLY &&
             (ev->kind == PS_EV_SET || (x->spec.partial >> a[i].chunk & 1) == 0)) ||
            (a[i].kind == PS_ACT_PARTIAL && ev->kind == PS_EV_SET))
            return true;
    return false;
}

void probe(const struct world *x)
{
    const struct spec *s = &x->spec;

    for (unsigned w = 0; w < cfg.nw; w++)
        for (unsigned k = 0; k < cfg.nk; k++) {
            const unsigned may = cfg.mode == PS_SSP ? s->told[w][k] : s->epoch[k] + 1u;

            if (takes(x, &(struct ps_event){
                             .kind = PS_EV_PUSH, .worker = w, .chunk = k, .clock = may }))
                blame("a push of the future is taken");
        }
    for (unsigned k = 0; cfg.two_phase && k < cfg.nk; k++)
        if (takes(x, &(struct ps_event){ .kind = PS_EV_REDUCED, .clock = s->epoch[k] }))
            blame("a value is taken too early");
    for (unsigned w = 0; cfg.mode == PS_BACKUP && w < cfg.nw; w++) {
        const uint64_t one = UINT64_C(1) << w, all = s->counted;

        if ((s->counted >> w & 1) == 0 &&
            takes(x, &(struct ps_event){ .kind = PS_EV_SET, .clock = s->epoch[0], .set = &one }))
            blame("a set with one that is not counted");
        for (int off = -1; off <= 1; off += 2)
            if ((int)s->epoch[0] + off >= 0 &&
                takes(x, &(struct ps_event){ .kind = PS_EV_SET,
                                             .clock = (uint64_t)(s->epoch[0] + off),
                                             .set = off < 0 ? &one : &all }))
                blame("a set out of order");
    }
}

/* Nothing of those that live is under way. */
bool quiet(const struct world *x)
{
    for (unsigned w = 0; w < cfg.nw; w++) {
        if ((x->spec.live >> w & 1) == 0)
            continue;
        if (x->env.tick[w] != 0 || x->env.fin[w] != 0)
            return false;
        for (unsigned k = 0; k < cfg.nk; k++)
            if (x->env.push[w][k] != 0 || x->env.read[w][k] != 0)
                return false;
    }
    return x->env.reduced == 0;
}

/* ---- the first state ---- */

void world_make(struct world *x, const struct config *c)
{
    static const uint8_t as[] = {
        [PS_SYNC] = SPEC_SYNC, [PS_BACKUP] = SPEC_NAMED, [PS_SSP] = SPEC_BOUNDED
    };
    const struct ps_engine_params p = { .nworkers = c->nw,
                                        .nchunks = c->nk,
                                        .mode = c->mode,
                                        .two_phase = c->two_phase,
                                        .backups = c->backups,
                                        .staleness_lo = c->s,
                                        .staleness_hi = c->s };

    cfg = *c;
    memset(x, 0, sizeof(*x));
    states_forget();
    fault = NULL;
    depth = 0;
    engine_bytes = ps_engine_bytes(&p);
    if (engine_bytes == 0 || engine_bytes > MEMORY || ps_engine_max_actions(&p) > ACTIONS)
        abort();
    ps_engine_init(live_engine, &p);
    memcpy(x->engine, live_engine, engine_bytes);
    x->env.skips = c->skips;
    x->env.reads = c->reads;
    x->env.dups = c->dups;
    x->env.deaths = c->deaths;
    x->env.joins = c->joins;
    x->spec = (struct spec){
        .mode = as[c->mode], .s = c->s, .nw = c->nw, .nk = c->nk, .two_phase = c->two_phase
    };
    for (unsigned w = 0; w + c->absent < c->nw; w++) {
        x->env.state[w] = RUNS;
        spec_joins(&x->spec, w, 0);
        must(x, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w }, false);
        memset(x->env.asked[w], 1, sizeof(x->env.asked[w]));
    }
    spec_first_value(&x->spec);
    memset(x->spec.told, 0, sizeof(x->spec.told));
    for (unsigned k = 0; k < c->nk; k++)
        must(x, &(struct ps_event){ .kind = PS_EV_INIT, .chunk = k }, false);
}
