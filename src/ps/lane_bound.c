/*
 * lane_bound.c - the bound of `ssp:L-H`, chosen while it runs, by each lane for its own chunks: it rises by one
 * when more than a quarter of the lately answered reads had to wait, and falls by one when fewer than a
 * sixteenth had. So slack is given as long as it saves waiting, and taken back when all keep step.
 */
#include "ps/lane_priv.h"

enum { WINDOW = 4 }; /* steps of all workers */

void lane_bound_note(struct lane *l, struct lane_class *k, const struct ps_action *a)
{
    k->bound.reads++;
    k->bound.waited += a->worker + 1 != l->by; /* else its own push let it go at once */
}

static void tend(struct lane *l, struct lane_class *k)
{
    const struct ps_rule *r = &k->c->rule;
    struct lane_bound *b = &k->bound;
    uint64_t s = r->staleness_lo + b->above;

    if (r->mode != PS_SSP || r->staleness_lo == r->staleness_hi ||
        b->reads < (uint64_t)WINDOW * l->p.nworkers * k->n)
        return;
    if (4 * b->waited > b->reads && s < r->staleness_hi)
        s++;
    else if (16 * b->waited < b->reads && s > r->staleness_lo)
        s--;
    *b = (struct lane_bound){ .above = s - r->staleness_lo };
    l->by = 0;
    lane_step(l, k, &(struct ps_event){ .kind = PS_EV_BOUND, .count = s }, NULL);
}

void lane_bound_tend(struct lane *l)
{
    for (uint32_t i = 0; i < l->p.table->nclasses; i++)
        tend(l, &l->cls[i]);
}
