/*
 * ring.h - a bounded queue of pointers from one thread to one other (single producer, single
 * consumer). Wait-free, never grows: full is an answer. Capacity is a power of two.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct vb_ring {
    _Alignas(64) atomic_size_t head; /* producer writes */
    size_t tail_seen;                /* producer's copy of tail */
    _Alignas(64) atomic_size_t tail; /* consumer writes */
    size_t head_seen;                /* consumer's copy of head */
    _Alignas(64) size_t mask;
    void **slot; /* mask + 1 of them */
};

/* false: no memory. nslots is a power of two. */
static inline bool vb_ring_init(struct vb_ring *r, size_t nslots)
{
    *r = (struct vb_ring){ .mask = nslots - 1 };
    r->slot = calloc(nslots, sizeof(*r->slot));
    return r->slot != NULL;
}

static inline void vb_ring_fini(struct vb_ring *r)
{
    free(r->slot);
    r->slot = NULL;
}

/* thread: producer. false: full. */
static inline bool vb_ring_put(struct vb_ring *r, void *item)
{
    const size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

    if (head - r->tail_seen > r->mask) {
        /* pairs with the release in vb_ring_get: the slot is free once tail moved */
        r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (head - r->tail_seen > r->mask)
            return false;
    }
    r->slot[head & r->mask] = item;
    /* pairs with the acquire in vb_ring_get: the item is visible before head moves */
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

/* thread: consumer. NULL: empty. */
static inline void *vb_ring_get(struct vb_ring *r)
{
    const size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

    if (tail == r->head_seen) {
        /* pairs with the release in vb_ring_put */
        r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
        if (tail == r->head_seen)
            return NULL;
    }
    void *item = r->slot[tail & r->mask];
    /* pairs with the acquire in vb_ring_put */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return item;
}

#endif
