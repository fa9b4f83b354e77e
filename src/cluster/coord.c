#include "cluster/coord.h"

#include <string.h>

enum vb_st coord_init(struct coord *c, const struct cl_spec *spec, uint32_t set_size)
{
    *c = (struct coord){ .spec = spec,
                         .task = calloc(cl_ntasks(spec), sizeof(*c->task)),
                         .set_size = set_size,
                         .ncounted = calloc(spec->nworkers, sizeof(*c->ncounted)) };
    return c->task != NULL && c->ncounted != NULL ? VB_OK : VB_NOMEM;
}

void coord_fini(struct coord *c)
{
    free(c->task);
    free(c->ncounted);
    free(c->norm_given);
    free(c->norm_sum);
    c->norm_given = NULL;
    c->norm_sum = NULL;
    c->task = NULL;
    c->ncounted = NULL;
}

enum vb_st coord_init_norms(struct coord *c, const struct coord_norms *n)
{
    c->norms = *n;
    c->norm_given = calloc(n->nps, sizeof(*c->norm_given));
    c->norm_sum = calloc(n->count, sizeof(*c->norm_sum));
    return c->norm_given != NULL && c->norm_sum != NULL ? VB_OK : VB_NOMEM;
}

void coord_in(struct coord *c, uint32_t rank)
{
    c->task[rank].in = true;
}

enum vb_st coord_ready(struct coord *c, uint32_t rank)
{
    struct coord_task *t = &c->task[rank];

    if (t->ready)
        return VB_PROTO;
    t->ready = true;
    c->nready++;
    return VB_OK;
}

enum vb_st coord_reduce(struct coord *c, uint32_t rank, const struct wire_reduce *r)
{
    struct coord_task *t = &c->task[rank];
    uint8_t *n = &c->n[r->tag % COORD_OPEN];

    if (cl_rank_job(c->spec, rank) != CL_WORKER || t->finished || !c->started)
        return VB_PROTO;
    if (r->tag != t->ntags || r->tag - c->done_tags >= COORD_OPEN)
        return VB_PROTO;
    if (r->n == 0 || r->n > WIRE_REDUCE_MAX || (*n != 0 && *n != r->n))
        return VB_PROTO;
    *n = (uint8_t)r->n;
    t->ntags++;
    memcpy(t->v[r->tag % COORD_OPEN], r->v, sizeof(r->v));
    return VB_OK;
}

enum vb_st coord_finish(struct coord *c, uint32_t rank)
{
    struct coord_task *t = &c->task[rank];

    if (cl_rank_job(c->spec, rank) != CL_WORKER || t->finished || !c->started)
        return VB_PROTO;
    t->finished = true;
    c->nfinished++;
    return VB_OK;
}

enum vb_st coord_counted(struct coord *c, const struct wire_counted *m)
{
    if (c->set_size == 0 || m->worker >= c->spec->nworkers || m->clock > c->set.clock ||
        !c->started)
        return VB_PROTO;
    if (m->clock < c->set.clock || c->nset == c->set_size)
        return VB_OK; /* too late */
    if (++c->ncounted[m->worker] > c->spec->nps)
        return VB_PROTO;
    if (c->ncounted[m->worker] == c->spec->nps) {
        c->set.bits[m->worker / 64] |= UINT64_C(1) << (m->worker % 64);
        c->nset++;
    }
    return VB_OK;
}

static uint32_t norm_piece(uint32_t count, uint32_t first)
{
    return VB_MIN(count - first, (uint32_t)WIRE_NORM_SUMS);
}

enum vb_st coord_norm(struct coord *c, uint32_t rank, const struct wire_norm *m)
{
    if (c->norms.count == 0 || rank >= c->norms.nps || !c->started || m->clock != c->norm_clock)
        return VB_PROTO;
    uint32_t *given = &c->norm_given[rank];

    if (*given == c->norms.count || m->first != *given ||
        m->n != norm_piece(c->norms.count, *given))
        return VB_PROTO;
    for (uint32_t i = 0; i < m->n; i++)
        c->norms.merge(c->norm_sum[m->first + i], m->sum[i]);
    *given += m->n;
    c->norm_whole += *given == c->norms.count;
    return VB_OK;
}

uint32_t coord_missing(const struct coord *c, uint32_t *ranks, uint32_t max)
{
    const uint32_t ntasks = cl_ntasks(c->spec);
    uint32_t n = 0;

    for (uint32_t i = 0; i < ntasks; i++)
        if (!c->task[i].in && n++ < max)
            ranks[n - 1] = i;
    if (n > 0)
        return n;
    for (uint32_t i = 0; i < ntasks; i++)
        if (!c->task[i].ready && n++ < max)
            ranks[n - 1] = i;
    return n;
}

static bool gave(const struct coord_task *t, uint32_t tag)
{
    return t->ntags > tag;
}

/* Somebody gave something under the lowest open tag, and everybody else did or has finished. */
static bool tag_is_complete(const struct coord *c)
{
    if (c->n[c->done_tags % COORD_OPEN] == 0)
        return false;
    for (uint32_t i = c->spec->nps; i < cl_ntasks(c->spec); i++)
        if (!gave(&c->task[i], c->done_tags) && !c->task[i].finished)
            return false;
    return true;
}

static struct coord_out sum_up(struct coord *c)
{
    const uint32_t tag = c->done_tags++, slot = tag % COORD_OPEN;
    struct coord_out out = { .act = COORD_REDUCED, .sum = { .tag = tag, .n = c->n[slot] } };

    c->n[slot] = 0;
    for (uint32_t i = c->spec->nps; i < cl_ntasks(c->spec); i++)
        for (uint32_t k = 0; gave(&c->task[i], tag) && k < out.sum.n; k++)
            out.sum.v[k] += c->task[i].v[slot][k];
    return out;
}

static struct coord_out next_set(struct coord *c)
{
    const struct coord_out out = { .act = COORD_SET, .set = c->set };

    c->set = (struct wire_set){ .clock = c->set.clock + 1 };
    c->nset = 0;
    memset(c->ncounted, 0, c->spec->nworkers * sizeof(*c->ncounted));
    return out;
}

static struct coord_out next_norm(struct coord *c)
{
    const uint32_t first = c->norm_told, n = norm_piece(c->norms.count, first);
    struct coord_out out = { .act = COORD_NORMED,
                             .norm = { .clock = c->norm_clock, .first = first, .n = n } };

    memcpy(out.norm.sum, c->norm_sum[first], n * sizeof(c->norm_sum[0]));
    c->norm_told += n;
    if (c->norm_told == c->norms.count) {
        c->norm_clock++;
        c->norm_told = c->norm_whole = 0;
        memset(c->norm_given, 0, c->norms.nps * sizeof(*c->norm_given));
        memset(c->norm_sum, 0, c->norms.count * sizeof(*c->norm_sum));
    }
    return out;
}

struct coord_out coord_next(struct coord *c)
{
    if (!c->started && c->nready == cl_ntasks(c->spec)) {
        c->started = true;
        return (struct coord_out){ .act = COORD_START };
    }
    if (tag_is_complete(c))
        return sum_up(c);
    if (c->set_size > 0 && c->nset == c->set_size)
        return next_set(c);
    if (c->norms.count > 0 && c->norm_whole == c->norms.nps)
        return next_norm(c);
    if (!c->told_end && c->nfinished == c->spec->nworkers) {
        c->told_end = true;
        return (struct coord_out){ .act = COORD_END };
    }
    return (struct coord_out){ .act = COORD_NOTHING };
}
