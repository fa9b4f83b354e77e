/*
 * control_norm.c - sums over all parameters, for each step: lanes give their parts, a ps merges those of its
 * lanes and tells the coordinator, which merges those of all ps and tells every ps, whose lanes fetch them.
 * What is summed and how is the caller's business.
 *
 * A lane gives its part of a step when it has fetched the sums of the one before, so one place for each is
 * enough: what is fetched is not written before all lanes have given again.
 */
#include "cluster/control_int.h"

#include <assert.h>
#include <string.h>

static_assert((int)CTL_NORM_WORDS == (int)WIRE_NORM_WORDS, "a sum has one size");

enum vb_st norm_init(struct ctl *c)
{
    const struct ctl_norms *n = &c->p.norms;

    if (n->count == 0)
        return VB_OK;
    c->norm.own = calloc(n->count, sizeof(*c->norm.own));
    c->norm.out = calloc(n->count, sizeof(*c->norm.out));
    c->norm.whole = calloc(n->count, sizeof(*c->norm.whole));
    if (c->norm.own == NULL || c->norm.out == NULL || c->norm.whole == NULL)
        return VB_NOMEM;
    return coord_init_norms(
        &c->coord, &(struct coord_norms){ .count = n->count, .nps = n->nps, .merge = n->merge });
}

void norm_fini(struct ctl *c)
{
    free(c->norm.own);
    free(c->norm.out);
    free(c->norm.whole);
}

void ctl_norm(struct ctl *c, const uint32_t *sum)
{
    struct ctl_norm_sums *s = &c->norm;
    bool whole;

    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < c->p.norms.count; i++)
        c->p.norms.merge(s->own[i], sum + (size_t)i * CTL_NORM_WORDS);
    whole = ++s->lanes == c->p.norms.lanes;
    if (whole) {
        uint32_t(*own)[WIRE_NORM_WORDS] = s->own;

        s->own = s->out;
        s->out = own;
        memset(s->own, 0, c->p.norms.count * sizeof(*s->own));
        s->lanes = 0;
        s->given++;
        s->tell = true;
    }
    pthread_mutex_unlock(&c->mu);
    if (whole)
        ctl_wake(c);
}

bool ctl_normed(struct ctl *c, uint64_t clock, uint32_t (*sum)[CTL_NORM_WORDS])
{
    bool there;

    pthread_mutex_lock(&c->mu);
    there = clock + 1 == c->norm.normed;
    if (there)
        memcpy(sum, c->norm.whole, c->p.norms.count * sizeof(*sum));
    pthread_mutex_unlock(&c->mu);
    return there;
}

static uint32_t piece_at(const struct ctl *c, uint32_t first)
{
    return VB_MIN(c->p.norms.count - first, (uint32_t)WIRE_NORM_SUMS);
}

/* `out` stands still until the lanes have given again, which they do not before all of it is told. */
void norm_tell(struct ctl *c)
{
    struct wire_norm m = { 0 };
    bool tell;

    pthread_mutex_lock(&c->mu);
    tell = c->norm.tell;
    c->norm.tell = false;
    m.clock = c->norm.given - 1;
    pthread_mutex_unlock(&c->mu);
    for (uint32_t at = 0; tell && at < c->p.norms.count; at += m.n) {
        m.first = at;
        m.n = piece_at(c, at);
        memset(m.sum, 0, sizeof(m.sum));
        memcpy(m.sum, c->norm.out[at], m.n * sizeof(m.sum[0]));
        if (c->p.rank != 0)
            peer_send(c, 0, WIRE_NORM, &m);
        else if (coord_norm(&c->coord, 0, &m) == VB_OK)
            peer_coord(c);
    }
}

enum vb_st norm_on(struct ctl *c, const struct wire_norm *m)
{
    struct ctl_norm_sums *s = &c->norm;
    enum vb_st st = VB_PROTO;
    bool whole = false;

    pthread_mutex_lock(&c->mu);
    if (c->p.norms.count > 0 && m->clock == s->normed && s->given == s->normed + 1 &&
        m->first == s->arrived && m->n == piece_at(c, s->arrived)) {
        memcpy(s->whole[m->first], m->sum, m->n * sizeof(m->sum[0]));
        s->arrived += m->n;
        whole = s->arrived == c->p.norms.count;
        if (whole) {
            s->arrived = 0;
            s->normed++;
        }
        st = VB_OK;
    }
    pthread_mutex_unlock(&c->mu);
    for (unsigned i = 0; whole && i < c->p.channels; i++)
        tp_wake(tp_port(c->p.node, i));
    return st;
}
