#include "ps/bound.h"

enum { WINDOW = 4 }; /* steps of all workers */

bool ps_bound_tend(struct ps_bound *b, const struct ps_rule *r, uint32_t nworkers, uint32_t nchunks,
                   uint64_t *bound_out)
{
    uint64_t s = r->staleness_lo + b->above;

    if (r->mode != PS_SSP || r->staleness_lo == r->staleness_hi ||
        b->reads < (uint64_t)WINDOW * nworkers * nchunks)
        return false;
    if (4 * b->waited > b->reads && s < r->staleness_hi)
        s++;
    else if (16 * b->waited < b->reads && s > r->staleness_lo)
        s--;
    *b = (struct ps_bound){ .above = s - r->staleness_lo };
    *bound_out = s;
    return true;
}
