/*
 * lane_apply.c - one optimizer step of a chunk, from the gradients that the engine has kept.
 *
 * The kernels run over pieces that stay in the first-level cache, so that looking for NaN and infinity in a
 * gradient costs no second way through memory. (on_nan skip has to know before anything is applied: it looks
 * when a gradient comes.)
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

enum { PIECE = 2048 }; /* floats */

static const char *variable_at(const struct lane *l, const struct ps_chunk *c, uint64_t offset)
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
             variable_at(l, c, c->offset + at * sizeof(float)), worker, clock);
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
static size_t gather(struct lane *l, const struct ps_action *a)
{
    size_t ng = 0;

    for (uint32_t w = 0; w < l->p.nworkers; w++) {
        const float *g = l->grad[(size_t)a->chunk * l->p.nworkers + w];

        if (g == NULL ||
            !(a->worker == PS_ALL ? ps_engine_has(l->engine, a->chunk, w) : a->worker == w))
            continue;
        l->gather[ng] = g;
        l->gathered[ng++] = w;
    }
    return ng;
}

static bool piece_finite(struct lane *l, const struct ps_action *a, size_t ng, size_t at, size_t n)
{
    for (size_t i = 0; i < ng; i++)
        if (!l->kn->all_finite(l->gather[i], KN_F32, n)) {
            say_bad(l, l->gathered[i], lane_chunk(l, a->chunk), at, a->clock);
            return false;
        }
    return true;
}

/* Steps of the schedule before this one: where each push is a step, the workers make one together. */
static uint64_t steps_before(const struct lane *l, const struct ps_action *a)
{
    return a->worker == PS_ALL ? a->updates : a->updates / l->p.nworkers;
}

void lane_apply(struct lane *l, const struct ps_action *a)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const size_t n = c->bytes / sizeof(float), per = kn_opt_state(l->p.optimizer->kind);
    float *w = lane_params(l, c), *m = per > 0 ? l->state + l->state_at[a->chunk] : NULL;
    const size_t ng = gather(l, a);
    const uint64_t of = a->worker == PS_ALL ? a->samples : l->step_samples;
    const struct kn_step s = kn_opt_step(l->p.optimizer, steps_before(l, a) + 1, of);

    for (size_t at = 0; of > 0 && ng > 0 && at < n; at += PIECE) {
        const size_t piece = VB_MIN(n - at, (size_t)PIECE);

        if (l->p.on_nan == PS_NAN_STOP && !piece_finite(l, a, ng, at, piece)) {
            l->broken = VB_INVAL;
            return;
        }
        l->kn->apply(w + at, m != NULL ? m + at : NULL, per > 1 ? m + n + at : NULL, l->gather, ng,
                     l->p.optimizer, &s, piece);
        for (size_t i = 0; i < ng; i++)
            l->gather[i] += piece;
    }
}
