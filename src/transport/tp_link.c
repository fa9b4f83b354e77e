#include "transport/backend.h"

#include "base/util.h"

#include <stdio.h>
#include <string.h>

#define LOG_MOD "transport"
#include "base/log.h"

static const char *const way_names[TP_NWAYS] = {
    [TP_MAP] = "map", [TP_RDMA] = "rdma", [TP_TCP] = "tcp", [TP_LOOP] = "loop"
};

void tp_offer_close(struct tp_offer *o)
{
    for (uint32_t i = 0; i < o->nfds && i < TP_OFFER_FDS; i++)
        if (o->fds[i] >= 0)
            close(o->fds[i]);
    o->bytes = 0;
    o->nfds = 0;
}

void *tp_link_alloc(size_t bytes)
{
    const size_t room = vb_round_up(bytes, _Alignof(struct tp_link));
    void *l = aligned_alloc(_Alignof(struct tp_link), room);

    if (l != NULL)
        memset(l, 0, room);
    return l;
}

static void fill_base(struct tp_link *l, struct tp_node *n, const struct tp_link_params *p)
{
    l->be = tp_backends[p->way];
    l->node = n;
    snprintf(l->peer, sizeof(l->peer), "%s", p->peer != NULL ? p->peer : "");
    l->user = p->user;
    l->channels = p->channels;
    l->initiator = p->initiator;
    memcpy(l->key, p->key, sizeof(l->key));
}

enum vb_st tp_link_new(struct tp_node *n, const struct tp_link_params *p, struct tp_link **link_out)
{
    const unsigned id = atomic_load_explicit(&n->nlinks, memory_order_relaxed);
    struct tp_link *l = NULL;
    enum vb_st st;

    if ((unsigned)p->way >= TP_NWAYS || p->channels < 1 || p->channels > TP_PORTS_MAX)
        return VB_INVAL;

    const struct tp_backend *be = tp_backends[p->way];

    if (be == NULL) {
        log_error("way %s is not built in", way_names[p->way]);
        return VB_NOFABRIC;
    }
    if (id == TP_LINKS_MAX) {
        log_error("%s is one link too many: %u are the limit", p->peer, TP_LINKS_MAX);
        return VB_NOMEM;
    }
    if (n->be_node[p->way] == NULL) {
        void *be_node;

        st = be->node_open(n, p->way, &be_node);
        if (st != VB_OK)
            return st;
        /* pairs with the acquire in tp_progress */
        atomic_store_explicit(&n->be_node[p->way], be_node, memory_order_release);
    }
    st = be->link_new(n, p, &l);
    if (st != VB_OK)
        return st;
    fill_base(l, n, p);
    l->id = id;
    n->link[id] = l;
    atomic_store_explicit(&n->nlinks, id + 1, memory_order_release);
    *link_out = l;
    return VB_OK;
}

enum vb_st tp_link_offer(struct tp_link *l, struct tp_offer *offer_out)
{
    memset(offer_out, 0, sizeof(*offer_out));

    const enum vb_st st = l->be->offer(l, offer_out);

    if (st != VB_OK)
        tp_offer_close(offer_out);
    return st;
}

enum vb_st tp_link_connect(struct tp_link *l, const struct tp_offer *peer)
{
    if (peer->bytes > TP_OFFER_BYTES || peer->nfds > TP_OFFER_FDS) {
        log_error("offer of %s: %u bytes and %u descriptors are too many", l->peer, peer->bytes,
                  peer->nfds);
        return VB_PROTO;
    }
    if (tp_link_failed(l))
        return VB_UNREACHABLE;
    return l->be->connect(l, peer);
}

enum vb_st tp_link_ready(const struct tp_link *l)
{
    return tp_link_failed(l) ? VB_UNREACHABLE : l->be->ready(l);
}

void tp_link_fail(struct tp_link *l)
{
    if (atomic_exchange_explicit(&l->failed, true, memory_order_acq_rel))
        return;
    if (l->be->fail != NULL)
        l->be->fail(l);
    for (unsigned i = 0; i < l->node->nports; i++)
        tp_wake(&l->node->port[i]);
}

bool tp_link_failed(const struct tp_link *l)
{
    return atomic_load_explicit(&l->failed, memory_order_acquire);
}

void *tp_link_user(const struct tp_link *l)
{
    return l->user;
}

enum tp_way tp_link_way(const struct tp_link *l)
{
    unsigned w = 0;

    while (tp_backends[w] != l->be)
        w++;
    return (enum tp_way)w;
}

enum vb_st tp_link_map(struct tp_link *l, uint32_t id, uint64_t offset, uint64_t bytes, void *at,
                       const void **addr_out)
{
    if (l->be->map == NULL)
        return VB_INVAL;
    return l->be->map(l, id, offset, bytes, at, addr_out);
}

struct tp_link_stats tp_link_stats(const struct tp_link *l)
{
    struct tp_link_stats s = { 0 };

    for (unsigned c = 0; c < l->channels; c++) {
        const struct tp_counts *k = &l->counts[c];

        s.sent_msgs += atomic_load_explicit(&k->sent_msgs, memory_order_relaxed);
        s.sent_bytes += atomic_load_explicit(&k->sent_bytes, memory_order_relaxed);
        s.recv_msgs += atomic_load_explicit(&k->recv_msgs, memory_order_relaxed);
        s.recv_bytes += atomic_load_explicit(&k->recv_bytes, memory_order_relaxed);
        s.copied_bytes += atomic_load_explicit(&k->copied_bytes, memory_order_relaxed);
    }
    return s;
}

const char *tp_way_name(enum tp_way way)
{
    return (unsigned)way < TP_NWAYS ? way_names[way] : "?";
}

void tp_link_set_why(struct tp_link *l, const char *why)
{
    snprintf(l->why, sizeof(l->why), "%s", why);
}

void tp_link_info(const struct tp_link *l, struct tp_link_info *out)
{
    *out = (struct tp_link_info){ 0 };
    l->be->info(l, out);
    out->way = tp_link_way(l);
    if (out->why[0] == '\0')
        memcpy(out->why, l->why, sizeof(out->why));
    if (out->device[0] == '\0' || out->nrails > 0)
        return;
    out->nrails = 1;
    memcpy(out->rail[0].name, out->device, sizeof(out->rail[0].name));
    out->rail[0].sent_bytes = tp_link_stats(l).sent_bytes;
}

void tp_link_describe(const struct tp_link *l, char *buf, size_t buf_bytes)
{
    struct tp_link_info i;

    tp_link_info(l, &i);
    snprintf(buf, buf_bytes, "%s%s%s%s%s%s%s%s%s", tp_way_name(i.way), i.device[0] ? " " : "",
             i.device, i.local[0] ? " " : "", i.local, i.local[0] ? " -> " : "", i.remote,
             i.protocol[0] ? ", " : "", i.protocol);
}
