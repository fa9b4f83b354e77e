/*
 * class.h - what the variables of one class have in common, as its ps and its workers use it.
 */
#ifndef PS_CLASS_H
#define PS_CLASS_H

#include "kernels/codec.h"
#include "kernels/kn.h"
#include "ps/rule.h"
#include "ps/table.h"

/* Modes ssp and async: what is done about gradients of parameters that have changed since. All zero: nothing. */
struct ps_async {
    bool rate_over_staleness; /* the rate is divided by 1 + the steps that the gradient is behind */
    float compensation;       /* lambda of DC-ASGD (Zheng et al. 2017) */
};

struct ps_class {     /* zeroed: sync, plain SGD with rate 0, nothing encoded */
    const char *name; /* for reports; borrowed */
    struct ps_rule rule;
    const struct kn_codec *push; /* how gradients travel; NULL: as they are; borrowed */
    const struct kn_codec
        *pull; /* the same of what parameters have changed by; not with PS_BACKUP */
    struct kn_opt optimizer;
    struct ps_async async;
    /* The workers' own optimizer, in sync: the ps's is KN_SUM then, which makes the chunk the mean gradient;
     * NULL: the ps has it; borrowed. */
    const struct kn_opt *local;
};

/* Does a worker read the ps's own memory, on one host? Else there is a copy at the ps of what it has. */
static inline bool ps_class_in_place(const struct ps_class *c)
{
    return c->rule.mode == PS_SYNC && c->pull == NULL;
}

/* One copy for all workers, since all have the same? */
static inline bool ps_class_shared(const struct ps_class *c)
{
    return c->rule.mode == PS_SYNC && c->pull != NULL;
}

/* Where the copy of class k's range for a worker begins in the region of copies. */
uint64_t ps_copy_at(const struct ps_table *t, const struct ps_class *c, uint32_t k, uint32_t ps,
                    uint32_t worker);
/* The region's bytes; 0: all is read in place. UINT64_MAX: more than 64 bits hold. */
uint64_t ps_copy_bytes(const struct ps_table *t, const struct ps_class *c, uint32_t ps,
                       uint32_t nworkers);

/* Encoded parameters leave from one region of the ps, with a place for each reader of a chunk, chunk after chunk of the
 * table: the bytes of one place, of a chunk's, and of the region (0: nothing is encoded; UINT64_MAX as above). */
uint64_t ps_pull_place(const struct ps_class *c, uint64_t chunk_bytes);
uint64_t ps_pull_room(const struct ps_class *c, uint64_t chunk_bytes, uint32_t nworkers);
uint64_t ps_pull_bytes(const struct ps_table *t, const struct ps_class *c, uint32_t ps,
                       uint32_t nworkers);

#endif
