#include "transport/map.h"

#include "base/util.h"
#include "transport/tp_mem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_MOD "transport"
#include "base/log.h"

static bool offer_fd(struct tp_offer *o, int fd)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0) {
        log_error("cannot duplicate a descriptor for an offer: %m");
        return false;
    }
    o->fds[o->nfds++] = copy;
    return true;
}

enum vb_st map_offer(struct tp_link *l, struct tp_offer *offer_out)
{
    const struct tp_node *n = l->node;
    struct map_offer b = { .version = MAP_OFFER_VERSION,
                           .nports = (uint8_t)n->nports,
                           .channels = (uint8_t)l->channels,
                           .nregions = (uint8_t)n->nregions };

    for (unsigned i = 0; i < n->nregions; i++)
        b.region_bytes[i] = n->region[i].bytes;
    memcpy(offer_out->blob, &b, sizeof(b));
    offer_out->bytes = sizeof(b);
    if (!offer_fd(offer_out, n->words_fd))
        return VB_NOMEM;
    for (unsigned i = 0; i < n->nports; i++)
        if (!offer_fd(offer_out, n->port[i].wake.efd))
            return VB_NOMEM;
    if (!offer_fd(offer_out, map_link_of(l)->rings_fd))
        return VB_NOMEM;
    for (unsigned i = 0; i < n->nregions; i++)
        if (!offer_fd(offer_out, n->region[i].fd))
            return VB_NOMEM;
    return VB_OK;
}

/* After this the counts are true and there is a descriptor for everything they name. */
static enum vb_st blob_check(const struct tp_link *l, const struct tp_offer *o, struct map_offer *b)
{
    if (o->bytes != sizeof(*b))
        return VB_PROTO;
    memcpy(b, o->blob, sizeof(*b));
    if (b->version != MAP_OFFER_VERSION || b->reserved != 0 || b->channels != l->channels)
        return VB_PROTO;
    if (b->nports < 1 || b->nports > TP_PORTS_MAX || b->nregions > TP_REGIONS_MAX)
        return VB_PROTO;
    for (unsigned i = b->nregions; i < TP_REGIONS_MAX; i++)
        if (b->region_bytes[i] != 0)
            return VB_PROTO;
    return o->nfds == 2u + b->nports + b->nregions ? VB_OK : VB_PROTO;
}

/* A descriptor that a post may write to without blocking: of no file type, as an eventfd is. */
static enum vb_st take_efd(int fd, int *efd_out)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || (st.st_mode & S_IFMT) != 0)
        return VB_PROTO;
    *efd_out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (*efd_out < 0)
        return VB_NOMEM;
    return fcntl(*efd_out, F_SETFL, O_NONBLOCK) == 0 ? VB_OK : VB_PROTO;
}

static enum vb_st take_region(int fd, uint64_t bytes, struct tp_region *r)
{
    enum vb_st st = tp_mem_check(TP_MEM_REGION, fd, bytes);

    if (st == VB_OK)
        st = tp_mem_map(TP_MEM_REGION, fd, 0, bytes, NULL, &r->base);
    if (st != VB_OK)
        return st;
    r->bytes = bytes;
    r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return r->fd >= 0 ? VB_OK : VB_NOMEM;
}

static enum vb_st take_all(const struct map_offer *b, const int *fds, struct map_peer *peer)
{
    const int *efds = fds + 1, *rings = efds + b->nports, *regions = rings + 1;
    const uint64_t rings_bytes = map_rings_bytes(b->channels);
    void *words;
    enum vb_st st = tp_mem_check(TP_MEM_WORDS, fds[0], TP_WORDS_BYTES);

    if (st == VB_OK)
        st = tp_mem_check(TP_MEM_RING, *rings, rings_bytes);
    if (st == VB_OK)
        st = tp_mem_map(TP_MEM_WORDS, fds[0], 0, TP_WORDS_BYTES, NULL, &words);
    if (st != VB_OK)
        return st;
    peer->words = words;
    for (; peer->nports < b->nports && st == VB_OK; peer->nports++)
        st = take_efd(efds[peer->nports], &peer->efd[peer->nports]);
    if (st == VB_OK)
        st = tp_mem_map(TP_MEM_RING, *rings, 0, rings_bytes, NULL, &peer->rings);
    for (; peer->nregions < b->nregions && st == VB_OK; peer->nregions++)
        st = take_region(regions[peer->nregions], b->region_bytes[peer->nregions],
                         &peer->region[peer->nregions]);
    return st;
}

/* From here on ports of this link may send and see what arrives. */
static void open_channels(struct map_link *m)
{
    struct tp_node *n = m->base.node;
    struct map_node *mn = n->be_node[TP_MAP];

    for (unsigned c = 0; c < m->base.channels; c++) {
        const unsigned port = c % m->peer.nports;

        m->out[c] = (struct map_out){ .slots = map_slots_at(m->peer.rings, c),
                                      .tail = map_tail_at(m->peer.rings, c),
                                      .peer = { &m->peer.words[port], m->peer.efd[port] } };
    }
    for (unsigned c = 0; c < m->base.channels; c++) {
        atomic_uint *nin = &mn->nin[c % n->nports];
        const unsigned at = atomic_load_explicit(nin, memory_order_relaxed);

        mn->in[c % n->nports][at] = (struct map_in){ .slots = map_slots_at(m->rings, c),
                                                     .tail = map_tail_at(m->rings, c),
                                                     .link = m,
                                                     .channel = c };
        /* pairs with the acquire in map_progress */
        atomic_store_explicit(nin, at + 1, memory_order_release);
    }
    atomic_store_explicit(&m->connected, true, memory_order_release);
}

enum vb_st map_connect(struct tp_link *l, const struct tp_offer *peer)
{
    struct map_link *m = map_link_of(l);
    struct map_offer b;

    if (atomic_load_explicit(&m->connected, memory_order_relaxed))
        return VB_INVAL;

    enum vb_st st = blob_check(l, peer, &b);

    if (st == VB_OK)
        st = take_all(&b, peer->fds, &m->peer);
    if (st != VB_OK) {
        log_error("offer of %s cannot be used: %s", l->peer, vb_st_str(st));
        map_peer_drop(&m->peer, l->channels);
        return st;
    }
    open_channels(m);
    for (unsigned i = 0; i < l->node->nports; i++)
        wake_post(&l->node->port[i].wake); /* something may be there already */
    return VB_OK;
}

enum vb_st map_region(struct tp_link *l, uint32_t id, uint64_t offset, uint64_t bytes, void *at,
                      const void **out)
{
    const struct map_link *m = map_link_of(l);
    void *base;

    if (!atomic_load_explicit(&m->connected, memory_order_acquire) || id >= m->peer.nregions ||
        !vb_inside(offset, bytes, m->peer.region[id].bytes) || offset % 4096 != 0 ||
        (uintptr_t)at % 4096 != 0)
        return VB_INVAL;
    if (at == NULL) {
        *out = (const char *)m->peer.region[id].base + offset;
        return VB_OK;
    }

    const enum vb_st st =
        tp_mem_map(TP_MEM_REGION, m->peer.region[id].fd, offset, bytes, at, &base);

    if (st == VB_OK)
        *out = base;
    return st;
}
