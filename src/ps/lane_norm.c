/*
 * lane_norm.c - steps that need a norm before they can be applied: clipping by the global norm, and lamb's
 * trust in each variable. The engine asks for each chunk when it is complete; when all chunks of the lane
 * have been asked for, the lane's sums go to the coordinator, and come back as those of all lanes and ps.
 *
 * The sums are exact (kernels/exact.h), so nobody's number or order matters.
 */
#include "ps/lane_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(PS_ALIGN == KN_SQ_GROUP * sizeof(float), "variables and chunks begin at groups");

static bool needs_norms(const struct ps_class *c)
{
    return c->optimizer.kind == KN_LAMB || c->optimizer.clip_norm > 0;
}

/* The first class that is clipped by the norm of all such: its optimizer says how much. NULL: none is. */
static const struct kn_opt *who_clips(const struct ps_class *c, const struct ps_table *t)
{
    for (uint32_t k = 0; k < t->nclasses; k++)
        if (c[k].optimizer.clip_norm > 0)
            return &c[k].optimizer;
    return NULL;
}

uint32_t lane_norms(const struct ps_class *c, const struct ps_table *t)
{
    bool lamb = false;

    for (uint32_t k = 0; k < t->nclasses; k++)
        lamb |= c[k].optimizer.kind == KN_LAMB;
    return (who_clips(c, t) != NULL ? 1 : 0) + (lamb ? 2 * t->nvars : 0);
}

bool lane_gives_norms(const struct ps_class *c, const struct ps_table *t, uint32_t ps,
                      uint32_t lane)
{
    for (uint32_t i = 0; i < t->nchunks; i++)
        if (t->chunk[i].ps == ps && t->chunk[i].lane == lane && needs_norms(&c[t->chunk[i].cls]))
            return true;
    return false;
}

enum vb_st lane_norm_init(struct lane *l)
{
    l->norm.n = lane_norms(l->p.cls, l->p.table);
    l->norm.clip = who_clips(l->p.cls, l->p.table);
    l->norm.trust_at = l->norm.clip != NULL ? 1 : 0;
    l->norm.factor = 1;
    for (uint32_t i = 0; i < l->p.table->nclasses; i++) {
        l->cls[i].two_phase = needs_norms(&l->p.cls[i]);
        l->norm.of += l->cls[i].two_phase ? l->cls[i].n : 0;
    }
    if (l->norm.n == 0)
        return VB_OK;
    l->norm.sum = calloc(l->norm.n, sizeof(*l->norm.sum));
    l->norm.trust = calloc(l->p.table->nvars, sizeof(*l->norm.trust));
    return l->norm.sum != NULL && l->norm.trust != NULL ? VB_OK : VB_NOMEM;
}

void lane_norm_fini(struct lane *l)
{
    free(l->norm.sum);
    free(l->norm.trust);
}

size_t lane_var_part(const struct lane *l, const struct ps_chunk *c, uint32_t v, size_t *end_out)
{
    const struct ps_var *var = &l->p.table->var[v];
    const uint64_t from = VB_MAX(var->offset, c->offset),
                   to = VB_MIN(var->offset + var->elems * sizeof(float), c->offset + c->bytes);

    *end_out = (VB_MAX(to, from) - c->offset) / sizeof(float);
    return (from - c->offset) / sizeof(float);
}

/* Elements [at, end) of the chunk, of variable v. false: some were infinite or a NaN. */
static bool sum_part(struct lane *l, const struct ps_action *a, size_t ng, const struct kn_step *s,
                     uint32_t v, size_t at, size_t end)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const size_t n = c->bytes / sizeof(float);
    const struct kn_grads g = { .type = KN_F32, .n = ng, .f32 = l->gather };
    const struct kn_opt *o = &lane_class(l, a->chunk)->c->optimizer;
    struct kn_exact *sum = l->norm.sum;

    if (o->kind != KN_LAMB) {
        kn_sq_norm(sum, l->kn, &g, s->scale, end - at);
        return sum->odd == 0;
    }
    sum += l->norm.trust_at;
    const float *m = l->state + l->state_at[a->chunk];

    kn_lamb_norms(&sum[2 * v], &sum[2 * v + 1], l->kn, lane_params(l, c) + at, m + at, m + n + at,
                  &g, o, s, end - at);
    return sum[2 * v].odd == 0 && sum[2 * v + 1].odd == 0;
}

static bool sum_chunk(struct lane *l, const struct ps_action *a, size_t ng)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const struct kn_step s =
        kn_opt_step(&lane_class(l, a->chunk)->c->optimizer, a->updates + 1, a->samples);
    size_t before = 0;
    bool finite = true;

    for (uint32_t v = c->first_var; v < c->first_var + c->nvars; v++) {
        size_t end;
        const size_t at = lane_var_part(l, c, v, &end);

        lane_shift(l, ng, at - before);
        before = at;
        finite &= sum_part(l, a, ng, &s, v, at, end);
    }
    return finite;
}

void lane_partial(struct lane *l, const struct ps_action *a)
{
    const size_t ng = lane_gather(l, a);

    if (a->samples > 0 && ng > 0 && !sum_chunk(l, a, ng) && l->p.on_nan == PS_NAN_STOP)
        lane_blame(l, a);
    if (l->broken != VB_OK || ++l->norm.chunks < l->norm.of)
        return;
    l->norm.chunks = 0;
    l->norm.clock = a->clock;
    l->norm.asked = true;
    l->p.norm(l->p.arg, l->norm.sum);
    memset(l->norm.sum, 0, l->norm.n * sizeof(*l->norm.sum));
}

bool lane_wants_norms(const struct lane *l, uint64_t *clock_out)
{
    *clock_out = l->norm.clock;
    return l->norm.asked;
}

enum vb_st lane_normed(struct lane *l, const struct kn_exact *sum)
{
    const struct kn_exact *lamb = sum + l->norm.trust_at;

    if (l->norm.clip != NULL)
        l->norm.factor = kn_opt_norm(l->norm.clip, sum);
    for (uint32_t v = 0; l->norm.n > l->norm.trust_at && v < l->p.table->nvars; v++)
        l->norm.trust[v] = kn_opt_trust(&lamb[2 * v], &lamb[2 * v + 1]);
    l->norm.asked = false;
    l->by = 0;
    for (uint32_t i = 0; i < l->p.table->nclasses; i++)
        if (l->cls[i].two_phase && l->cls[i].n > 0)
            lane_step(l, &l->cls[i],
                      &(struct ps_event){
                          .kind = PS_EV_REDUCED, .clock = l->norm.clock, .value = l->norm.factor },
                      NULL);
    return l->broken;
}
