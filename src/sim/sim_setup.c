#include "sim/sim_priv.h"

#include "base/util.h"

#include <stdlib.h>

static enum vb_st start_engine(struct sim *s, struct lane *l)
{
    size_t n = 0;
    enum vb_st st = VB_OK;

    for (uint32_t w = 0; st == VB_OK && w < s->p->nworkers; w++)
        st = ps_engine_step(l->engine, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w },
                            s->action, &n);
    for (uint32_t k = 0; st == VB_OK && k < l->nchunks; k++)
        st = ps_engine_step(l->engine, &(struct ps_event){ .kind = PS_EV_INIT, .chunk = k },
                            s->action, &n);
    return st;
}

static enum vb_st make_engine(struct sim *s, struct lane *l)
{
    const struct ps_rule *r = s->p->rule;
    const struct ps_engine_params ep = { .nworkers = s->p->nworkers,
                                         .nchunks = l->nchunks,
                                         .mode = r->mode,
                                         .backups = r->backups,
                                         .staleness_lo = r->staleness_lo,
                                         .staleness_hi = r->staleness_hi };
    const size_t bytes = ps_engine_bytes(&ep);

    if (bytes == 0)
        return VB_INVAL;
    void *mem = calloc(1, bytes);
    /* lanes differ in size: each asks for room for its own actions */
    struct ps_action *a = reallocarray(s->action, ps_engine_max_actions(&ep), sizeof(*a));

    s->action = a != NULL ? a : s->action;
    l->pushed = calloc(s->p->nworkers, sizeof(*l->pushed));
    if (mem == NULL || a == NULL || l->pushed == NULL) {
        free(mem);
        return VB_NOMEM;
    }
    l->engine = ps_engine_init(mem, &ep);
    return start_engine(s, l);
}

static enum vb_st make_lanes(struct sim *s)
{
    const struct ps_table *t = s->p->table;
    uint32_t most = 0;
    enum vb_st st = VB_OK;

    for (uint32_t i = 0; i < s->nlanes; i++) {
        struct lane *l = &s->lane[i];
        const uint32_t n = ps_lane_chunks(t, i / t->nlanes, i % t->nlanes);

        l->chunk = calloc(n + 1, sizeof(*l->chunk));
        if (l->chunk == NULL)
            return VB_NOMEM;
        s->nused += n > 0;
        most = VB_MAX(most, n);
    }
    for (uint32_t k = 0; k < t->nchunks; k++) {
        struct lane *l = &s->lane[t->chunk[k].ps * t->nlanes + t->chunk[k].lane];

        s->local[k] = l->nchunks;
        l->chunk[l->nchunks++] = k;
    }
    /* the largest last, so that the room for actions is enough for all */
    for (uint32_t n = 1; n <= most; n++)
        for (uint32_t i = 0; st == VB_OK && i < s->nlanes; i++)
            if (s->lane[i].nchunks == n)
                st = make_engine(s, &s->lane[i]);
    return st;
}

static enum vb_st make_workers(struct sim *s)
{
    for (uint32_t w = 0; w < s->p->nworkers; w++) {
        struct worker *me = &s->worker[w];

        me->asked = calloc(s->p->table->nchunks, sizeof(*me->asked));
        me->epoch = calloc(s->p->table->nchunks, sizeof(*me->epoch));
        if (me->asked == NULL || me->epoch == NULL)
            return VB_NOMEM;
    }
    return VB_OK;
}

enum vb_st sim_set_up(struct sim *s)
{
    const struct ps_table *t = s->p->table;
    enum vb_st st = VB_NOMEM;

    s->nlanes = t->nps * t->nlanes;
    s->live = s->p->nworkers;
    s->lane = calloc(s->nlanes, sizeof(*s->lane));
    s->local = calloc(t->nchunks, sizeof(*s->local));
    s->worker = calloc(s->p->nworkers, sizeof(*s->worker));
    s->port = calloc((size_t)t->nps + s->p->nworkers, sizeof(*s->port));
    s->counted = calloc(s->p->nworkers, sizeof(*s->counted));
    s->set = calloc((s->p->nworkers + 63) / 64, sizeof(*s->set));
    if (s->lane != NULL && s->local != NULL && s->worker != NULL && s->port != NULL &&
        s->counted != NULL && s->set != NULL)
        st = make_workers(s);
    return st == VB_OK ? make_lanes(s) : st;
}

void sim_tear_down(struct sim *s)
{
    for (uint32_t i = 0; s->lane != NULL && i < s->nlanes; i++) {
        free(s->lane[i].engine);
        free(s->lane[i].chunk);
        free(s->lane[i].pushed);
    }
    for (uint32_t w = 0; s->worker != NULL && w < s->p->nworkers; w++) {
        free(s->worker[w].asked);
        free(s->worker[w].epoch);
    }
    free(s->lane);
    free(s->local);
    free(s->worker);
    free(s->port);
    free(s->counted);
    free(s->set);
    free(s->action);
    queue_fini(&s->queue);
}
