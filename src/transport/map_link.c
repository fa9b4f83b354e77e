#include "transport/map.h"

#include "base/util.h"
#include "transport/tp_mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static bool node_close(void *be)
{
    struct map_node *mn = be;

    if (mn == NULL)
        return true;
    for (unsigned i = 0; i < TP_PORTS_MAX; i++)
        if (mn->in[i] != NULL)
            munmap(mn->in[i], mn->room * sizeof(struct map_in));
    free(mn);
    return true;
}

static enum vb_st node_open(struct tp_node *n, enum tp_way way, void **be_out)
{
    struct map_node *mn = calloc(1, sizeof(*mn));

    if (mn == NULL)
        return VB_NOMEM;
    /* as many as the node's links can ever have; memory is only used where entries are */
    mn->room = TP_LINKS_MAX * ((TP_PORTS_MAX + n->nports - 1) / n->nports);
    for (unsigned i = 0; i < n->nports; i++) {
        void *in = mmap(NULL, mn->room * sizeof(struct map_in), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (in == MAP_FAILED) {
            (void)node_close(mn);
            return VB_NOMEM;
        }
        mn->in[i] = in;
    }
    *be_out = mn;
    return VB_OK;
}

void map_peer_drop(struct map_peer *peer, unsigned channels)
{
    if (peer->words != NULL)
        munmap(peer->words, TP_WORDS_BYTES);
    if (peer->rings != NULL)
        munmap(peer->rings, map_rings_bytes(channels));
    for (unsigned i = 0; i < peer->nports; i++)
        if (peer->efd[i] > 0)
            close(peer->efd[i]);
    for (unsigned i = 0; i < peer->nregions; i++) {
        if (peer->region[i].base != NULL)
            munmap(peer->region[i].base, peer->region[i].bytes);
        if (peer->region[i].fd > 0)
            close(peer->region[i].fd);
    }
    memset(peer, 0, sizeof(*peer));
}

static void link_close(struct tp_link *l)
{
    struct map_link *m = map_link_of(l);

    if (m == NULL)
        return;
    map_peer_drop(&m->peer, l->channels);
    if (m->rings != NULL) {
        munmap(m->rings, map_rings_bytes(l->channels));
        close(m->rings_fd);
    }
    free(m);
}

static enum vb_st link_new(struct tp_node *n, const struct tp_link_params *p,
                           struct tp_link **link_out)
{
    struct map_link *m = tp_link_alloc(sizeof(*m));

    if (m == NULL)
        return VB_NOMEM;

    const enum vb_st st =
        tp_mem_new(TP_MEM_RING, map_rings_bytes(p->channels), &m->rings, &m->rings_fd);

    if (st != VB_OK) {
        link_close(&m->base);
        return st;
    }
    *link_out = &m->base;
    return VB_OK;
}

static enum vb_st ready(const struct tp_link *l)
{
    const struct map_link *m = (const struct map_link *)(const void *)l;

    return atomic_load_explicit(&m->connected, memory_order_acquire) ? VB_OK : VB_AGAIN;
}

static void info(const struct tp_link *l, struct tp_link_info *out)
{
    snprintf(out->protocol, sizeof(out->protocol), "this host's memory, read in place");
}

const struct tp_backend tp_map_backend = {
    .name = "map",
    .node_open = node_open,
    .node_close = node_close,
    .link_new = link_new,
    .link_close = link_close,
    .offer = map_offer,
    .connect = map_connect,
    .ready = ready,
    .map = map_region,
    .send = map_send,
    .progress = map_progress,
    .info = info,
};
