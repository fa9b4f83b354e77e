/*
 * rule.h - how the steps of the workers are kept together: `mode` of a job, for engines and for people.
 *
 *   sync      all workers make a step; its sum is applied once
 *   sync+B    the first W - B of W workers make it, the others' gradients are dropped
 *   ssp:S     each gradient is applied as it comes; no worker is more than S steps ahead of the slowest
 *             (Ho et al., NIPS 2013); ssp:0 is sync
 *   ssp:L-H   the same with a bound that is chosen at run time (bound.h)
 *   async     the same without a bound
 */
#ifndef PS_RULE_H
#define PS_RULE_H

#include "base/util.h"
#include "ps/engine.h"

enum { PS_RULE_TEXT = 32, PS_STALENESS_MAX = 1000000 };

struct ps_rule { /* zeroed: sync */
    enum ps_mode mode;
    uint32_t staleness_lo, staleness_hi; /* PS_SSP; PS_UNBOUNDED: async */
    uint32_t backups;                    /* PS_BACKUP */
};

/* VB_INVAL: no such mode, or not for so many workers; err says which there are. */
VB_MUST_CHECK enum vb_st ps_rule_parse(const char *text, uint64_t nworkers, struct ps_rule *out,
                                       struct vb_err *err);
/* As it is written; ssp:0 is "sync". */
const char *ps_rule_text(const struct ps_rule *r, char buf[PS_RULE_TEXT]);
#endif
