#include "ps/landing.h"

#include "base/util.h"

#include <sys/mman.h>

static size_t pow2_up(size_t n)
{
    size_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

enum vb_st landing_init(struct landing *l, uint32_t nchunks, uint32_t nworkers,
                        uint64_t chunk_bytes, uint64_t budget_bytes)
{
    uint64_t slot_bytes = 0;

    *l = (struct landing){ .chunk_bytes = chunk_bytes, .nworkers = nworkers, .nchunks = nchunks };
    if (nchunks == 0)
        return VB_OK;
    if (!vb_mul(chunk_bytes, nworkers, &slot_bytes))
        return VB_NOMEM;
    l->nslots = (uint32_t)VB_MIN(VB_MAX(budget_bytes / slot_bytes, 1), (uint64_t)nchunks);
    if (!vb_mul(slot_bytes, l->nslots, &l->map_bytes))
        return VB_NOMEM;
    l->slot = calloc(nchunks, sizeof(*l->slot));
    l->landed = calloc((size_t)nchunks * nworkers, sizeof(*l->landed));
    l->base = mmap(NULL, l->map_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (l->base == MAP_FAILED)
        l->base = NULL;
    if (!vb_ring_init(&l->free, pow2_up(l->nslots)) || l->slot == NULL || l->landed == NULL ||
        l->base == NULL) {
        landing_fini(l);
        return VB_NOMEM;
    }
    for (uint32_t c = 0; c < nchunks; c++)
        atomic_init(&l->slot[c], -1);
    for (uintptr_t s = 0; s < l->nslots; s++)
        vb_ring_put(&l->free, (void *)(s + 1));
    return VB_OK;
}

void landing_fini(struct landing *l)
{
    if (l->base != NULL)
        munmap(l->base, l->map_bytes);
    free(l->slot);
    free(l->landed);
    vb_ring_fini(&l->free);
    *l = (struct landing){ 0 };
}

enum vb_st landing_open(struct landing *l, uint32_t chunk, uint32_t worker, void **place_out)
{
    atomic_uchar *landed = &l->landed[(size_t)chunk * l->nworkers + worker];
    /* pairs with the release in landing_close and landing_drop: the old gradient is used up */
    if (atomic_load_explicit(landed, memory_order_acquire) != 0)
        return VB_PROTO;
    int slot = atomic_load_explicit(&l->slot[chunk], memory_order_acquire);

    if (slot < 0) {
        const uintptr_t got = (uintptr_t)vb_ring_get(&l->free);

        if (got == 0)
            return VB_AGAIN;
        slot = (int)(got - 1);
        atomic_store_explicit(&l->slot[chunk], slot, memory_order_relaxed);
    }
    atomic_store_explicit(landed, 1, memory_order_relaxed);
    *place_out = l->base + ((uint64_t)(unsigned)slot * l->nworkers + worker) * l->chunk_bytes;
    return VB_OK;
}

bool landing_close(struct landing *l, uint32_t chunk)
{
    const int slot = atomic_load_explicit(&l->slot[chunk], memory_order_relaxed);

    if (slot < 0)
        return false;
    atomic_store_explicit(&l->slot[chunk], -1, memory_order_relaxed);
    for (uint32_t w = 0; w < l->nworkers; w++)
        atomic_store_explicit(&l->landed[(size_t)chunk * l->nworkers + w], 0, memory_order_release);
    /* cannot be full: there are as many places as slots */
    (void)vb_ring_put(&l->free, (void *)(uintptr_t)(slot + 1));
    return true;
}

void landing_drop(struct landing *l, uint32_t chunk, uint32_t worker)
{
    atomic_store_explicit(&l->landed[(size_t)chunk * l->nworkers + worker], 0,
                          memory_order_release);
}
