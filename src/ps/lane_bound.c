/*
 * lane_bound.c - the bound of `ssp:L-H`, chosen while it runs, by each lane for its own chunks: it rises by one
 * when more than a quarter of the lately answered reads had to wait, and falls by one when fewer than a
 * sixteenth had. So slack is given as long as it saves waiting, and taken back when all keep step.
 */
#include "ps/lane_priv.h"

enum { WINDOW = 4 }; /* steps of all workers */

void lane_bound_note(struct lane *l, const struct ps_action *a)
{
    l->bound.reads++;
    l->bound.waited += a->worker + 1 != l->by; /* else its own push let it go at once */
}

void lane_bound_tend(struct lane *l)
{
    const struct ps_rule *r = l->p.rule;
    uint64_t s = r->staleness_lo + l->bound.above;

    if (r->mode != PS_SSP || r->staleness_lo == r->staleness_hi ||
        l->bound.reads < (uint64_t)WINDOW * l->p.nworkers * l->nchunks)
        return;
    if (4 * l->bound.waited > l->bound.reads && s < r->staleness_hi)
        s++;
    else if (16 * l->bound.waited < l->bound.reads && s > r->staleness_lo)
        s--;
    l->bound = (struct lane_bound){ .above = s - r->staleness_lo };
    l->by = 0;
    lane_step(l, &(struct ps_event){ .kind = PS_EV_BOUND, .count = s }, NULL);
}
