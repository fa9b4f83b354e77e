/*
 * lane_apply.c - one optimizer step of a chunk, from the gradients that the engine has kept.
 *
 * The kernel notices NaN and infinity in their sum while it is in registers; only then are they looked for,
 * to say whose. (on_nan skip has to know before anything is applied: it looks when a gradient comes.)
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

enum { PIECE = 2048 }; /* floats that are looked at at once */

const char *lane_variable(const struct lane *l, const struct ps_chunk *c, uint64_t offset)
{
    const struct ps_table *t = l->p.table;
    uint32_t v = c->first_var;

    while (v + 1 < c->first_var + c->nvars && t->var[v + 1].offset <= offset)
        v++;
    return t->var[v].name;
}

static void say_bad(struct lane *l, uint32_t worker, const struct ps_chunk *c, uint64_t at,
                    uint64_t clock)
{
    snprintf(l->why, sizeof(l->why),
             "the gradient of %s from /job:worker/task:%" PRIu32 " has a NaN or infinity in step "
             "%" PRIu64,
             lane_variable(l, c, c->offset + at * sizeof(float)), worker, clock);
}

bool lane_finite(struct lane *l, uint32_t worker, uint32_t chunk, uint64_t clock, const float *g)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const size_t n = c->bytes / sizeof(float);

    for (size_t at = 0; at < n; at += PIECE)
        if (!l->kn->all_finite(g + at, KN_F32, VB_MIN(n - at, (size_t)PIECE))) {
            say_bad(l, worker, c, at, clock);
            return false;
        }
    return true;
}

/* The kept gradients of this step, and whose they are. */
size_t lane_gather(struct lane *l, const struct ps_action *a)
{
    const struct lane_class *k = lane_class(l, a->chunk);
    size_t ng = 0;

    for (uint32_t w = 0; w < l->p.nworkers; w++) {
        const float *g = l->grad[(size_t)a->chunk * l->p.nworkers + w];

        if (g == NULL || !(a->worker == PS_ALL ? ps_engine_has(k->engine, a->chunk - k->first, w)
                                               : a->worker == w))
            continue;
        l->gather[ng] = g;
        l->gathered[ng++] = w;
    }
    return ng;
}

/* Whose is it? None's own: together they are too large. */
void lane_blame(struct lane *l, const struct ps_action *a)
{
    const size_t ng = lane_gather(l, a);

    l->broken = VB_INVAL;
    for (size_t i = 0; i < ng; i++)
        if (!lane_finite(l, l->gathered[i], a->chunk, a->clock, l->gather[i]))
            return;
    snprintf(l->why, sizeof(l->why), "the gradients of step %" PRIu64 " add up to infinity",
             a->clock);
}

/* Steps of the schedule before this one: where each push is a step, the workers make one together. */
static uint64_t steps_before(const struct lane *l, const struct ps_action *a)
{
    return a->worker == PS_ALL ? a->updates : a->updates / l->p.nworkers;
}

/* How many steps other workers' gradients have been applied beyond those that go with this one: W - 1 others
 * in between are no delay. */
static double steps_behind(const struct lane *l, const struct ps_action *a)
{
    const uint64_t others = l->p.nworkers - 1,
                   since = a->updates - l->read_at[(size_t)a->chunk * l->p.nworkers + a->worker];

    return since > others ? (double)(since - others) / l->p.nworkers : 0;
}

/* A gradient of parameters that have changed since: what it would be of those that there are now. */
static void compensate(struct lane *l, const struct ps_action *a, const float *w, size_t n)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const float *old = lane_copy(l, a->worker, c);

    l->kn->compensate(l->scratch, l->gather[0], w, old,
                      l->cls[c->cls].c->async.compensation / (float)VB_MAX(a->samples, 1u), n);
    l->gather[0] = l->scratch;
}

void lane_shift(struct lane *l, size_t ng, size_t floats)
{
    for (size_t i = 0; i < ng; i++)
        l->gather[i] += floats;
}

/* Elements [at, end) of the chunk, which the gathered gradients stand at. false: some sum was infinite or a NaN. */
static bool apply_part(struct lane *l, uint32_t chunk, size_t ng, const struct kn_opt *o,
                       const struct kn_step *s, size_t at, size_t end)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const size_t n = c->bytes / sizeof(float), per = kn_opt_state(o->kind);
    float *w = lane_params(l, c), *m = per > 0 ? l->state + l->state_at[chunk] : NULL;

    return l->kn->apply(w + at, m != NULL ? m + at : NULL, per > 1 ? m + n + at : NULL, l->gather,
                        ng, o, s, end - at);
}

/* Each variable of the chunk with its own trust. */
static bool apply_lamb(struct lane *l, uint32_t chunk, size_t ng, const struct kn_opt *o,
                       struct kn_step s)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    size_t before = 0;
    bool finite = true;

    for (uint32_t v = c->first_var; v < c->first_var + c->nvars; v++) {
        size_t end;
        const size_t at = lane_var_part(l, c, v, &end);

        lane_shift(l, ng, at - before);
        before = at;
        s.trust = l->norm.trust[v];
        finite &= apply_part(l, chunk, ng, o, &s, at, end);
    }
    return finite;
}

void lane_apply(struct lane *l, const struct ps_action *a)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const size_t n = c->bytes / sizeof(float), ng = lane_gather(l, a);
    const bool alone = a->worker != PS_ALL;
    const struct ps_class *k = l->cls[c->cls].c;
    struct kn_opt o = k->optimizer;

    if (ng == 0 || a->samples == 0)
        return;
    if (alone && k->async.rate_over_staleness)
        o.rate = (float)((double)o.rate / (1 + steps_behind(l, a)));
    struct kn_step s =
        kn_opt_step(&o, steps_before(l, a) + 1, alone ? l->step_samples : a->samples);

    s.norm = o.clip_norm > 0 ? l->norm.factor : 1;
    if (alone && k->async.compensation > 0)
        compensate(l, a, lane_params(l, c), n);
    const bool finite = o.kind == KN_LAMB ? apply_lamb(l, a->chunk, ng, &o, s)
                                          : apply_part(l, a->chunk, ng, &o, &s, 0, n);
    if (!finite && l->p.on_nan == PS_NAN_STOP)
        lane_blame(l, a);
}
