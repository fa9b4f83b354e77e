/*
 * bound.h - the bound of `ssp:L-H`, chosen while it runs, by each lane for its own chunks: it rises by one when more
 * than a quarter of the lately answered reads had to wait, and falls by one when fewer than a sixteenth had. So slack
 * is given as long as it saves waiting, and taken back when all keep step. Pure.
 */
#ifndef PS_BOUND_H
#define PS_BOUND_H

#include "ps/rule.h"

struct ps_bound { /* zeroed: L */
    uint64_t above, reads, waited;
};

/* A read was answered; waited: not by its own worker's push. */
static inline void ps_bound_note(struct ps_bound *b, bool waited)
{
    b->reads++;
    b->waited += waited;
}

/* Looks at it after so many reads. true: *bound_out is the bound from now on. */
bool ps_bound_tend(struct ps_bound *b, const struct ps_rule *r, uint32_t nworkers, uint32_t nchunks,
                   uint64_t *bound_out);

#endif
