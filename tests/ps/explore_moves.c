#include "explore_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One step further on a copy that has changed. */
static bool go(const struct world *y, const char *what, unsigned w, unsigned k, unsigned clock)
{
    if (depth == DEPTH)
        abort();
    snprintf(trace[depth++], sizeof(trace[0]), "%s worker %u chunk %u clock %u", what, w, k, clock);
    const bool ok = fault == NULL && look(y);

    if (ok)
        depth--;
    return ok;
}

static unsigned last(unsigned w)
{
    return cfg.clocks - (cfg.uneven != 0 && w == 1);
}

static bool works(const struct world *x, unsigned w)
{
    return x->env.state[w] == RUNS && x->env.clock[w] < last(w);
}

bool try_push(const struct world *x, unsigned w, unsigned k, bool *moved)
{
    const unsigned c = x->env.clock[w], may = x->env.may[w][k];
    struct world y = *x;

    if (!works(x, w) || (x->env.done[w] >> k & 1) != 0)
        return true;
    const bool waits = (x->env.unanswered[w] >> k & 1) != 0;

    if (may >= c + 1 && !waits) {
        *moved = true;
        y.env.done[w] |= 1u << k;
        if (may == c + 1 || cfg.mode == PS_BACKUP) { /* a joiner in sync passes what is over */
            y.env.push[w][k] |= 1u << c;
            y.env.unanswered[w] |= 1u << k;
            y.env.count[w]++;
            y.env.asked[w][k] = (uint8_t)(c + 2);
            spec_pushes(&y.spec, w, k, c);
        }
        if (!go(&y, "push", w, k, c))
            return false;
    } else if (may < c + 1 && (x->env.asked[w][k] < c + 1 || x->env.reads > 0)) {
        /* the next read is implied in a push, but it may be asked for as well */
        *moved |= x->env.asked[w][k] < c + 1;
        y.env.reads -= x->env.asked[w][k] == c + 1;
        y.env.asked[w][k] = (uint8_t)(c + 1);
        y.env.read[w][k] |= 1u << c;
        if (!go(&y, "read", w, k, c))
            return false;
    }
    if (x->env.skips > 0 && cfg.mode == PS_SSP) {
        y = *x;
        y.env.skips--;
        y.env.done[w] |= 1u << k;
        return go(&y, "skip", w, k, c);
    }
    return true;
}

static void to(struct world *y, unsigned w, unsigned clock)
{
    y->env.clock[w] = (uint8_t)clock;
    y->env.done[w] = y->env.ticked[w] = 0;
    spec_moves(&y->spec, w, clock);
}

static bool jump(const struct world *x, unsigned w, unsigned clock)
{
    struct world y = *x;

    to(&y, w, clock);
    return go(&y, "jump", w, 0, clock);
}

bool try_next(const struct world *x, unsigned w, bool *moved)
{
    const unsigned c = x->env.clock[w];
    unsigned lo = SPEC_OVER, hi = 0;
    struct world y = *x;

    if (!works(x, w) || x->env.done[w] != (1u << cfg.nk) - 1)
        return true;
    for (unsigned k = 0; k < cfg.nk; k++) {
        lo = x->env.may[w][k] < lo ? x->env.may[w][k] : lo;
        hi = x->env.may[w][k] > hi ? x->env.may[w][k] : hi;
    }
    if (x->env.ticked[w]) {
        if (lo < c + 2 || x->env.unanswered[w] != 0)
            return true;
        *moved = true;
        return jump(x, w, lo - 1) && (lo == hi || jump(x, w, hi - 1));
    }
    *moved = true;
    if (cfg.mode == PS_SYNC) /* needs no ticks */
        return jump(x, w, c + 1);
    y.env.tick[w] |= 1u << c;
    y.env.announced[w][c] = y.env.count[w];
    if (cfg.mode == PS_SSP) {
        to(&y, w, c + 1);
    } else {
        y.env.ticked[w] = 1; /* where to go is the engine's answer */
        spec_moves(&y.spec, w, c + 1);
    }
    return go(&y, "tick", w, 0, c);
}

bool try_end(const struct world *x, unsigned w, bool *moved)
{
    const unsigned c = x->env.clock[w];
    struct world y = *x;

    if (x->env.state[w] == RUNS && c >= last(w)) {
        *moved = true;
        y.env.state[w] = DONE;
        y.env.fin[w] = 1;
        spec_moves(&y.spec, w, SPEC_OVER);
        if (!go(&y, "finish", w, 0, c))
            return false;
    }
    if (x->env.deaths > 0 && (x->env.state[w] == RUNS || x->env.state[w] == DONE)) {
        y = *x;
        y.env.deaths--;
        y.env.state[w] = DEAD;
        spec_dies(&y.spec, w);
        must(&y, &(struct ps_event){ .kind = PS_EV_LOST, .worker = w }, false);
        if (!go(&y, "die", w, 0, c))
            return false;
    }
    if (x->env.joins > 0 &&
        (x->env.state[w] == OUT || (x->env.state[w] == DEAD && cfg.mode == PS_SSP))) {
        y = *x;
        const unsigned at = (unsigned)ps_engine_minimum(engine_of(&y));

        y.env.joins--;
        y.env.state[w] = RUNS;
        y.env.clock[w] = (uint8_t)at;
        y.env.done[w] = y.env.ticked[w] = y.env.count[w] = y.env.unanswered[w] = y.env.tick[w] =
            y.env.fin[w] = 0;
        for (unsigned k = 0; k < K; k++) /* a new connection: nothing old comes any more */
            y.env.push[w][k] = y.env.read[w][k] = y.env.may[w][k] = y.env.asked[w][k] = 0;
        memset(y.env.announced[w], 0, sizeof(y.env.announced[w]));
        spec_joins(&y.spec, w, at);
        must(&y, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w, .clock = at }, false);
        return go(&y, "join", w, 0, at);
    }
    return true;
}

/* Delivers a message of a set; it may stay there and come again. */
static bool deliver(const struct world *x, const uint8_t *set, const struct ps_event *ev,
                    const char *what)
{
    const size_t at = (size_t)(set - (const uint8_t *)x);
    const unsigned clock = (unsigned)ev->clock;

    for (int twice = 0; twice <= (x->env.dups > 0); twice++) {
        struct world y = *x;
        bool again = false;

        if (twice)
            y.env.dups--;
        else
            ((uint8_t *)&y)[at] &= ~(1u << clock);
        if (ev->kind == PS_EV_PUSH) {
            again = (y.spec.in[ev->worker][ev->chunk] >> clock & 1) != 0;
            spec_arrives(&y.spec, ev->worker, ev->chunk, clock);
        }
        if (ev->kind == PS_EV_READ)
            spec_asks(&y.spec, ev->worker, ev->chunk, clock);
        if (ev->kind == PS_EV_REDUCED)
            y.spec.reduced = (uint8_t)(clock + 1);
        must(&y, ev, again);
        if (y.spec.named != 0 && y.spec.partial == 0)
            y.spec.named = 0;
        if (!go(&y, what, ev->worker, ev->chunk, clock))
            return false;
    }
    return true;
}

static bool deliver_chunks(const struct world *x, unsigned w, unsigned c, bool *moved)
{
    struct ps_event ev = { .worker = w, .clock = c, .samples = 1 };

    for (unsigned k = 0; k < cfg.nk; k++) {
        ev.chunk = k;
        ev.kind = PS_EV_PUSH;
        if ((x->env.push[w][k] >> c & 1) != 0) {
            *moved = true;
            if (!deliver(x, &x->env.push[w][k], &ev, "deliver push"))
                return false;
        }
        ev.kind = PS_EV_READ;
        if ((x->env.read[w][k] >> c & 1) != 0) {
            *moved = true;
            if (!deliver(x, &x->env.read[w][k], &ev, "deliver read"))
                return false;
        }
    }
    return true;
}

bool try_deliver(const struct world *x, unsigned w, bool *moved)
{
    struct ps_event ev = { .worker = w };

    for (unsigned c = 0; c < CLOCKS; c++) {
        if (!deliver_chunks(x, w, c, moved))
            return false;
        ev.kind = PS_EV_TICK;
        ev.clock = c;
        ev.count = x->env.announced[w][c];
        if ((x->env.tick[w] >> c & 1) != 0) {
            *moved = true;
            if (!deliver(x, &x->env.tick[w], &ev, "deliver tick"))
                return false;
        }
    }
    if (x->env.fin[w]) {
        struct world y = *x;

        *moved = true;
        y.env.fin[w] = 0;
        ev.kind = PS_EV_FINISHED;
        ev.clock = y.env.clock[w] - (y.env.clock[w] > 0);
        ev.count = y.env.count[w];
        must(&y, &ev, false);
        return go(&y, "deliver finish", w, 0, (unsigned)ev.clock);
    }
    return true;
}

/* The coordinator: names those that are counted once they are enough; sends values of reductions. */
bool try_coordinate(const struct world *x, bool *moved)
{
    const uint64_t set = x->spec.counted;
    unsigned alive = 0, need = cfg.nw - cfg.backups;

    for (unsigned c = 0; c < CLOCKS; c++) {
        const struct ps_event ev = { .kind = PS_EV_REDUCED, .clock = c, .value = (float)(c + 1) };

        if ((x->env.reduced >> c & 1) == 0)
            continue;
        *moved = true;
        if (!deliver(x, &x->env.reduced, &ev, "deliver value"))
            return false;
    }
    for (unsigned w = 0; w < cfg.nw; w++)
        alive += x->env.state[w] == RUNS || x->env.state[w] == DONE;
    need = alive < need ? alive : need;
    if (cfg.mode != PS_BACKUP || set == 0 || (unsigned)__builtin_popcountll(set) < need)
        return true;
    struct world y = *x;
    const unsigned step = x->spec.epoch[0];

    *moved = true;
    y.spec.named = (uint8_t)set;
    y.spec.counted = 0;
    must(&y, &(struct ps_event){ .kind = PS_EV_SET, .clock = step, .set = &set }, false);
    if (y.spec.partial == 0)
        y.spec.named = 0;
    return go(&y, "name", (unsigned)set, 0, step);
}
