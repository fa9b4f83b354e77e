#include "transport/ucx.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

#define FLUSH_NS (1 * VB_SEC) /* closing: what was sent may still leave */
#define QUIET_NS (2 * VB_SEC) /* closing: until UCX has let go of everything */

enum { OFFER_MAGIC = 0x76624f32 };

struct offer {
    uint32_t magic;
    uint16_t link; /* the sender's number of this link */
    uint16_t nrails;
    uint32_t channels;
    uint16_t port[TP_RAILS_MAX]; /* 0: nobody listens there, as at the end that connects */
};
static_assert(sizeof(struct offer) == 20, "offer is 20 bytes on the wire");

/* ---- the communication thread ---- */

void ucx_link_down(struct ucx_link *l)
{
    if (atomic_load_explicit(&l->state, memory_order_relaxed) == UCX_LINK_DOWN)
        return;
    atomic_store_explicit(&l->state, UCX_LINK_DOWN, memory_order_release);
    ucx_sends_give_up(l, false);
    ucx_recvs_give_up(l, false);
    for (unsigned i = 0; i < l->nrails; i++) {
        if (l->rail[i].conn != NULL)
            ucx_conn_close(l->rail[i].conn);
        l->rail[i].conn = NULL;
    }
    ucx_attend(l->un);
}

static void on_flushed(void *req, ucs_status_t s, void *arg)
{
    /* ucx_link_tend looks at the request */
}

/* Says bye and lets leave what UCX has; payloads that it has only a part of may end as unreachable. */
static void close_begin(struct ucx_link *l, uint64_t now)
{
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                    .cb.send = on_flushed };

    struct ucx_rail *first = ucx_rail_first(l);

    l->cmd.deadline_ns = now + FLUSH_NS;
    l->cmd.flushing = true;
    if (first != NULL)
        (void)ucx_post(l->un, first->conn->ep, UCX_AM_BYE, "bye", 3);
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_lives(&l->rail[i]))
            l->rail[i].flush_req = ucp_ep_flush_nbx(l->rail[i].conn->ep, &p);
}

static bool is_flushing(const struct ucx_link *l)
{
    for (unsigned i = 0; i < l->nrails; i++)
        if (UCS_PTR_IS_PTR(l->rail[i].flush_req) && ucx_rail_lives(&l->rail[i]) &&
            ucp_request_check_status(l->rail[i].flush_req) == UCS_INPROGRESS)
            return true;
    return false;
}

static void flush_end(struct ucx_link *l)
{
    for (unsigned i = 0; i < l->nrails; i++) {
        if (UCS_PTR_IS_PTR(l->rail[i].flush_req))
            ucp_request_free(l->rail[i].flush_req);
        l->rail[i].flush_req = NULL;
    }
    l->cmd.flushing = false;
}

void ucx_link_tend(struct ucx_link *l, uint64_t now)
{
    struct ucx_cmd *c = &l->cmd;

    if (c->deadline_ns == 0)
        close_begin(l, now);
    if (c->flushing) {
        if (now < c->deadline_ns && is_flushing(l))
            return;
        flush_end(l);
        c->deadline_ns = now + QUIET_NS;
    }
    ucx_link_down(l);
    if ((l->tx != NULL || l->landing > 0) && now < c->deadline_ns)
        return;
    ucx_sends_give_up(l, true);
    ucx_recvs_give_up(l, true);
    l->un->closing = NULL;
    if (l->un->link[l->base.id] == l)
        l->un->link[l->base.id] = NULL;
    ucx_cmd_end(l, VB_OK);
}

/* ---- other threads ---- */

static bool chan_init(struct ucx_chan *ch, struct ucx_link *l, unsigned index,
                      struct ucx_port *port)
{
    ch->link = l;
    ch->port = port;
    ch->index = index;
    ch->rec = calloc(TP_CHANNEL_SLOTS, sizeof(*ch->rec));
    ch->order = calloc(TP_CHANNEL_SLOTS, sizeof(struct ucx_rec *));
    ch->deliver = calloc(TP_CHANNEL_SLOTS, sizeof(struct ucx_rec *));
    if (ch->rec == NULL || ch->order == NULL || ch->deliver == NULL)
        return false;
    for (unsigned i = 0; i < TP_CHANNEL_SLOTS; i++) {
        ch->rec[i].next = ch->rec_free;
        ch->rec_free = &ch->rec[i];
    }
    return true;
}

static void chan_fini(struct ucx_chan *ch)
{
    free(ch->rec);
    free(ch->order);
    free(ch->deliver);
}

static void link_free(struct ucx_link *l)
{
    for (unsigned c = 0; c < TP_PORTS_MAX; c++)
        chan_fini(&l->chan[c]);
    free(l);
}

static bool rails_init(struct ucx_link *l, const struct tp_link_params *p)
{
    for (unsigned i = 0; i < l->nrails; i++) {
        struct ucx_rail *r = &l->rail[i];
        const char *host = p->rail[i].host, *from = p->rail[i].from;

        r->link = l;
        r->index = i;
        if (host == NULL && i > 0) {
            atomic_store_explicit(&r->state, UCX_RAIL_SKIPPED, memory_order_relaxed);
            continue;
        }
        if (host == NULL || strlen(host) >= sizeof(r->host) ||
            (from != NULL && strlen(from) >= sizeof(r->from)))
            return false;
        snprintf(r->host, sizeof(r->host), "%s", host);
        snprintf(r->from, sizeof(r->from), "%s", from != NULL ? from : "");
    }
    return true;
}

static bool callers_init(struct ucx_link *l, const struct tp_link_params *p)
{
    while (l->ncallers < TP_CALLERS_MAX && p->caller[l->ncallers] != NULL) {
        if (!net_addr_parse(p->caller[l->ncallers], &l->caller[l->ncallers]))
            return false;
        l->ncallers++;
    }
    return true;
}

static enum vb_st link_new(struct tp_node *n, const struct tp_link_params *p,
                           struct tp_link **link_out)
{
    struct ucx_node *un = n->be_node[p->way];
    struct ucx_link *l;

    if (p->nrails > TP_RAILS_MAX)
        return VB_INVAL;
    l = tp_link_alloc(sizeof(*l));
    if (l == NULL)
        return VB_NOMEM;
    l->un = un;
    l->peer_id = UCX_NO_PEER;
    l->nrails = VB_MAX(p->nrails, 1u);
    if (!rails_init(l, p) || !callers_init(l, p)) {
        log_error("%s: a link to another host needs a numeric address", p->peer);
        link_free(l);
        return VB_INVAL;
    }
    for (unsigned c = 0; c < p->channels; c++) {
        if (!chan_init(&l->chan[c], l, c, &un->port[c % n->nports])) {
            link_free(l);
            return VB_NOMEM;
        }
    }
    *link_out = &l->base;
    return VB_OK;
}

static void link_close(struct tp_link *base)
{
    struct ucx_link *l = (struct ucx_link *)base;

    if (l == NULL)
        return;
    if (atomic_load_explicit(&l->state, memory_order_relaxed) != UCX_LINK_NEW &&
        ucx_cmd(l, UCX_CMD_CLOSE) != VB_OK)
        return; /* the thread hangs in UCX and may still use it: left behind */
    link_free(l);
}

static enum vb_st offer(struct tp_link *base, struct tp_offer *out)
{
    struct ucx_link *l = (struct ucx_link *)base;
    struct offer o = { .magic = OFFER_MAGIC,
                       .link = (uint16_t)base->id,
                       .nrails = (uint16_t)l->nrails,
                       .channels = base->channels };

    if (!base->initiator) {
        const enum vb_st st = ucx_cmd(l, UCX_CMD_LISTEN);

        if (st != VB_OK)
            return st;
        for (unsigned i = 0; i < l->nrails; i++)
            o.port[i] = l->rail[i].port;
    }
    memcpy(out->blob, &o, sizeof(o));
    out->bytes = sizeof(o);
    return VB_OK;
}

static bool has_port(const struct offer *o)
{
    for (unsigned i = 0; i < TP_RAILS_MAX; i++)
        if (o->port[i] != 0)
            return true;
    return false;
}

static enum vb_st link_connect(struct tp_link *base, const struct tp_offer *peer)
{
    struct ucx_link *l = (struct ucx_link *)base;
    struct offer o;

    if (peer->bytes != sizeof(o) || peer->nfds != 0)
        return VB_PROTO;
    memcpy(&o, peer->blob, sizeof(o));
    if (o.magic != OFFER_MAGIC || o.link >= TP_LINKS_MAX || o.nrails < 1 ||
        o.nrails > TP_RAILS_MAX || has_port(&o) != base->initiator ||
        o.channels != base->channels) {
        log_error("%s: malformed offer of a link", base->peer);
        return VB_PROTO;
    }
    if (!base->initiator)
        return VB_OK; /* the token says the same and is proved */
    l->peer_id = o.link;
    for (unsigned i = 0; i < l->nrails; i++)
        l->rail[i].port = i < o.nrails ? o.port[i] : 0;
    return ucx_cmd(l, UCX_CMD_CONNECT);
}

static enum vb_st ready(const struct tp_link *base)
{
    const struct ucx_link *l = (const struct ucx_link *)base;

    /* pairs with the release in proved */
    switch (atomic_load_explicit(&l->state, memory_order_acquire)) {
    case UCX_LINK_PROVED:
        return VB_OK;
    case UCX_LINK_DOWN:
        return VB_UNREACHABLE;
    default:
        return VB_AGAIN;
    }
}

static void fail(struct tp_link *base)
{
    struct ucx_link *l = (struct ucx_link *)base;

    atomic_store_explicit(&l->fail_asked, true, memory_order_relaxed);
    ucx_attend(l->un);
}

static void retry(struct tp_port *p, void *be)
{
    struct ucx_node *un = be;

    /* pairs with the acquire in ucx_places_retry */
    atomic_store_explicit(&un->port[p->index].retry, true, memory_order_release);
    (void)ucx_turn(un, false);
}

#define BACKEND(its_name)                                                                          \
    {                                                                                              \
        .name = its_name, .node_open = ucx_node_open, .node_close = ucx_node_close,                \
        .link_new = link_new, .link_close = link_close, .offer = offer, .connect = link_connect,   \
        .ready = ready, .fail = fail, .send = ucx_send, .progress = ucx_progress,                  \
        .watch = ucx_watch, .leave = ucx_leave, .retry = retry, .info = ucx_info,                  \
    }

const struct tp_backend tp_rdma_backend = BACKEND("rdma");
const struct tp_backend tp_tcp_backend = BACKEND("tcp");
