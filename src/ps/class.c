#include "ps/class.h"

/* Of the classes before k: those that are shared, or those of which each worker has a copy. */
static uint64_t pages(const struct ps_table *t, const struct ps_class *c, uint32_t k, uint32_t ps,
                      bool shared)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < k; i++)
        if (!ps_class_in_place(&c[i]) && ps_class_shared(&c[i]) == shared)
            n += ps_range_pages(t, i, ps);
    return n;
}

/* First what is shared, then each worker's. */
uint64_t ps_copy_at(const struct ps_table *t, const struct ps_class *c, uint32_t k, uint32_t ps,
                    uint32_t worker)
{
    if (ps_class_shared(&c[k]))
        return pages(t, c, k, ps, true);
    return pages(t, c, t->nclasses, ps, true) + worker * pages(t, c, t->nclasses, ps, false) +
           pages(t, c, k, ps, false);
}

uint64_t ps_copy_bytes(const struct ps_table *t, const struct ps_class *c, uint32_t ps,
                       uint32_t nworkers)
{
    uint64_t all = 0;

    if (!vb_mul(pages(t, c, t->nclasses, ps, false), nworkers, &all) ||
        !vb_add(all, pages(t, c, t->nclasses, ps, true), &all))
        return UINT64_MAX;
    return all;
}
