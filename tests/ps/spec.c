#include "spec.h"

#include <string.h>

static bool has(unsigned set, unsigned i)
{
    return i < 8 && (set >> i & 1) != 0;
}

void spec_joins(struct spec *s, unsigned w, unsigned clock)
{
    s->live |= 1u << w;
    s->clock[w] = (uint8_t)clock;
    for (unsigned k = 0; k < s->nk; k++) {
        const bool over = s->mode == SPEC_SYNC && s->epoch[k] > clock;

        s->entry[w][k] = over ? s->epoch[k] : (uint8_t)clock;
        s->sent[w][k] = s->in[w][k] = s->used[w][k] = s->asked[w][k] = s->told[w][k] = 0;
    }
}

void spec_dies(struct spec *s, unsigned w)
{
    s->live &= ~(1u << w);
}

void spec_pushes(struct spec *s, unsigned w, unsigned k, unsigned clock)
{
    s->sent[w][k] |= 1u << clock;
}

void spec_moves(struct spec *s, unsigned w, unsigned clock)
{
    s->clock[w] = (uint8_t)clock;
}

void spec_asks(struct spec *s, unsigned w, unsigned k, unsigned clock)
{
    if (clock + 1 > s->asked[w][k])
        s->asked[w][k] = (uint8_t)(clock + 1);
}

void spec_arrives(struct spec *s, unsigned w, unsigned k, unsigned clock)
{
    if (!has(s->live, w) || has(s->in[w][k], clock))
        return;
    s->in[w][k] |= 1u << clock;
    /* a late push is answered again, though its sender has been told of a later clock */
    if (s->told[w][k] > clock + 1)
        s->told[w][k] = (uint8_t)(clock + 1);
    spec_asks(s, w, k, clock + 1);
}

void spec_first_value(struct spec *s)
{
    memset(s->asked, 1, sizeof(s->asked));
    memset(s->told, 1, sizeof(s->told));
}

/* Can v still bring an update of this clock that is not in? */
static bool open(const struct spec *s, unsigned v, unsigned k, unsigned clock)
{
    if (!has(s->live, v) || clock < s->entry[v][k] || has(s->used[v][k], clock))
        return false;
    return has(s->sent[v][k], clock) || s->clock[v] <= clock;
}

static bool allowed(const struct spec *s, unsigned w, unsigned k, unsigned clock, unsigned stale)
{
    if (s->mode == SPEC_NAMED)
        return clock <= s->epoch[k];
    for (unsigned v = 0; v < s->nw; v++)
        for (unsigned t = 0; t < clock && t < 8; t++)
            if ((t + stale < clock || v == w) && open(s, v, k, t))
                return false;
    return true;
}

const char *spec_told(struct spec *s, unsigned w, unsigned k, unsigned clock, unsigned behind)
{
    if (!has(s->live, w))
        return "an answer for nobody";
    if (s->mode == SPEC_BOUNDED && clock + 1 != s->asked[w][k])
        return "an answer that was not asked for";
    if (s->mode != SPEC_SYNC && (clock < s->told[w][k] || s->asked[w][k] <= s->told[w][k]))
        return "a second answer";
    if (s->mode == SPEC_NAMED && clock != s->epoch[k])
        return "an epoch that is not";
    if (!allowed(s, w, k, clock, s->s))
        return "an answer too early";
    if (behind > s->s || !allowed(s, w, k, clock, behind))
        return "a wrong staleness";
    s->told[w][k] = (uint8_t)(clock + 1);
    return NULL;
}

/* Is this what a step of the chunk is to be made of? */
static bool whole(const struct spec *s, unsigned k, unsigned clock, unsigned set)
{
    for (unsigned v = 0; v < s->nw; v++) {
        if (s->mode == SPEC_SYNC && !has(set, v) && open(s, v, k, clock))
            return false;
        if (s->mode == SPEC_NAMED && has(set, v) != (has(s->named, v) && has(s->in[v][k], clock)))
            return false;
    }
    return true;
}

const char *spec_applied(struct spec *s, unsigned k, unsigned clock, unsigned set)
{
    if (s->mode != SPEC_BOUNDED && clock != s->epoch[k])
        return "a step out of order";
    if (!whole(s, k, clock, set) || (s->two_phase && set != s->of[k]))
        return "a step of the wrong workers";
    if (s->two_phase && (!has(s->partial, k) || s->reduced != clock + 1))
        return "a step without its value";
    for (unsigned w = 0; w < s->nw; w++) {
        if (!has(set, w))
            continue;
        if (has(s->used[w][k], clock))
            return "an update twice";
        if (!has(s->in[w][k], clock))
            return "an update that was not sent";
        if ((s->sent[w][k] & ~s->used[w][k] & ((1u << clock) - 1)) != 0 && s->mode != SPEC_NAMED)
            return "an update before an earlier one";
        s->used[w][k] |= 1u << clock;
    }
    s->epoch[k]++;
    s->partial &= ~(1u << k);
    return NULL;
}

/* The event is told before its actions, so a gradient that has come is in. */
const char *spec_dropped(struct spec *s, unsigned w, unsigned k, unsigned clock)
{
    const bool late = s->mode != SPEC_BOUNDED && clock < s->epoch[k];
    const bool left_out =
        clock == s->epoch[k] && s->mode == SPEC_NAMED && s->named != 0 && !has(s->named, w);

    if (has(s->live, w) && !late && !left_out)
        return "an update lost";
    s->sent[w][k] &= ~(1u << clock);
    return NULL;
}

const char *spec_partial(struct spec *s, unsigned k, unsigned clock, unsigned set)
{
    if (clock != s->epoch[k] || has(s->partial, k))
        return "a reduction out of order";
    if (!whole(s, k, clock, set))
        return "a reduction of the wrong workers";
    s->partial |= 1u << k;
    s->of[k] = (uint8_t)set;
    return NULL;
}

const char *spec_counted(struct spec *s, unsigned w, unsigned clock)
{
    if (s->clock[w] <= clock || clock != s->epoch[0])
        return "counted before it was done";
    for (unsigned k = 0; k < s->nk; k++)
        for (unsigned t = 0; t <= clock; t++)
            if (has(s->sent[w][k], t) && !has(s->in[w][k], t))
                return "counted before all is in";
    s->counted |= 1u << w;
    return NULL;
}

const char *spec_owes(const struct spec *s)
{
    for (unsigned k = 0; k < s->nk; k++) {
        unsigned set = 0;

        for (unsigned w = 0; w < s->nw; w++) {
            set |= (unsigned)has(s->in[w][k] & ~s->used[w][k], s->epoch[k]) << w;
            if (s->mode != SPEC_SYNC && has(s->live, w) && s->clock[w] != SPEC_OVER &&
                s->asked[w][k] > s->told[w][k] && allowed(s, w, k, s->asked[w][k] - 1u, s->s))
                return "no answer";
        }
        if (s->mode == SPEC_SYNC && set != 0 && !has(s->partial, k)) {
            bool due = true;

            for (unsigned w = 0; w < s->nw; w++)
                due &= has(set, w) || !open(s, w, k, s->epoch[k]);
            if (due)
                return "no step";
        }
    }
    return NULL;
}
