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

uint64_t ps_pull_place(const struct ps_class *c, uint64_t chunk_bytes)
{
    return vb_round_up(kn_codec_bytes(c->pull, chunk_bytes / sizeof(float)), PS_ALIGN);
}

/* A chunk is at most PS_CHUNK_MAX and workers are counted in 16 bits: no overflow. */
uint64_t ps_pull_room(const struct ps_class *c, uint64_t chunk_bytes, uint32_t nworkers)
{
    return c->pull == NULL ? 0
                           : ps_pull_place(c, chunk_bytes) * (ps_class_shared(c) ? 1 : nworkers);
}

uint64_t ps_pull_bytes(const struct ps_table *t, const struct ps_class *c, uint32_t ps,
                       uint32_t nworkers)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < t->nchunks; i++)
        if (t->chunk[i].ps == ps &&
            !vb_add(at, ps_pull_room(&c[t->chunk[i].cls], t->chunk[i].bytes, nworkers), &at))
            return UINT64_MAX;
    return at;
}
