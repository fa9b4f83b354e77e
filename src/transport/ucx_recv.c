#include "transport/ucx.h"

#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

enum { DRAIN_MAX = 256 }; /* messages of one channel before the next channel's turn */

/* ---- whoever has the turn ---- */

static struct ucx_rec *rec_new(struct ucx_chan *ch)
{
    /* pairs with the release in chan_drain: the port has let go of the records before tail */
    const uint32_t tail = atomic_load_explicit(&ch->rx_tail, memory_order_acquire);

    for (; ch->rx_reclaimed != tail; ch->rx_reclaimed++) {
        struct ucx_rec *r = ch->deliver[ch->rx_reclaimed % TP_CHANNEL_SLOTS];

        r->next = ch->rec_free;
        ch->rec_free = r;
    }

    struct ucx_rec *r = ch->rec_free;

    if (r != NULL)
        ch->rec_free = r->next;
    return r;
}

static bool well_formed(const struct ucx_link *l, const struct ucx_prefix *x, size_t hdr_bytes,
                        size_t bytes, bool rndv)
{
    return x->channel < l->base.channels && x->hdr_bytes <= TP_HDR_MAX &&
           hdr_bytes == sizeof(*x) + x->hdr_bytes &&
           vb_inside(x->offset, bytes, x->payload_bytes) && (bytes > 0 || x->payload_bytes == 0) &&
           (bytes == x->payload_bytes || (!rndv && l->un->way == TP_TCP && l->nrails == 1));
}

/* The record for a message or another piece of it, or NULL with the reason: it is not one that this link
 * may send now. */
static struct ucx_rec *rec_take(struct ucx_link *l, const struct ucx_prefix *x, size_t bytes,
                                bool rndv, const char **why)
{
    struct ucx_chan *ch = &l->chan[x->channel];
    struct ucx_rec **order = &ch->order[x->seq % TP_CHANNEL_SLOTS], *r = *order;

    *why = "message out of its window";
    if (x->seq - ch->rx_next >= TP_CHANNEL_SLOTS)
        return NULL;
    if (r != NULL &&
        (rndv || r->rndv || bytes == 0 || bytes > r->missing || x->payload_bytes != r->bytes))
        return NULL;
    if (x->offset != (r != NULL ? r->bytes - r->missing : 0))
        return NULL;
    if (r == NULL && (r = rec_new(ch)) == NULL)
        return NULL;
    *why = NULL;
    if (*order != NULL)
        return r;
    *r = (struct ucx_rec){ .chan = ch,
                           .state = UCX_REC_LANDING,
                           .rndv = rndv,
                           .bytes = x->payload_bytes,
                           .missing = rndv ? 0 : x->payload_bytes };
    *order = r;
    return r;
}

static void deliver(struct ucx_rec *r)
{
    struct ucx_chan *ch = r->chan;
    const uint32_t head = atomic_load_explicit(&ch->rx_head, memory_order_relaxed);

    ch->deliver[head % TP_CHANNEL_SLOTS] = r;
    /* pairs with the acquire in chan_drain: the records before head are the port's */
    atomic_store_explicit(&ch->rx_head, head + 1, memory_order_release);
    if (!atomic_exchange_explicit(&ch->arrived_queued, true, memory_order_acq_rel))
        vb_ring_put(&ch->port->arrived, ch); /* never full: a channel is in it once */
    ucx_tell(ch->port);
}

/* Passes what need not be waited for any more: landed or parked. */
static void advance(struct ucx_chan *ch)
{
    struct ucx_rec **order = &ch->order[ch->rx_next % TP_CHANNEL_SLOTS];

    while (*order != NULL &&
           ((*order)->state == UCX_REC_LANDED || (*order)->state == UCX_REC_PARKED)) {
        struct ucx_rec *r = *order;

        *order = NULL;
        r->passed = true;
        if (r->state == UCX_REC_LANDED)
            deliver(r);
        order = &ch->order[++ch->rx_next % TP_CHANNEL_SLOTS];
    }
}

static void rec_landed(struct ucx_rec *r)
{
    r->state = UCX_REC_LANDED;
    if (r->passed)
        deliver(r);
    else
        advance(r->chan);
}

static void on_received(void *req, ucs_status_t s, size_t bytes, void *arg)
{
    struct ucx_rec *r = arg;
    struct ucx_link *l = r->chan->link;

    ucp_request_free(req);
    l->landing--;
    r->req = NULL;
    if (s == UCS_OK && bytes == r->bytes) {
        rec_landed(r);
        return;
    }
    r->state = UCX_REC_LOST;
    if (r->rail->conn != NULL)
        ucx_conn_break(r->rail->conn,
                       s == UCS_OK ? "payload of another size" : ucs_status_string(s));
}

static ucp_mem_h mem_of(const struct ucx_node *un, const void *at, uint64_t bytes)
{
    for (unsigned i = 0; i < un->node->nregions; i++) {
        const struct tp_region *g = &un->node->region[i];
        const uintptr_t base = (uintptr_t)g->base, p = (uintptr_t)at;

        if (p >= base && vb_inside(p - base, bytes, g->bytes))
            return un->mem[i];
    }
    return NULL;
}

static void rndv_start(struct ucx_rec *r, void *desc)
{
    struct ucx_link *l = r->chan->link;
    ucp_request_param_t p = { .op_attr_mask =
                                  UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                              .cb.recv_am = on_received,
                              .user_data = r };

    p.memh = mem_of(l->un, r->place, r->bytes);
    if (p.memh != NULL)
        p.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    r->state = UCX_REC_LANDING;
    l->landing++;

    void *req = ucp_am_recv_data_nbx(l->un->worker, desc, r->place, r->bytes, &p);

    if (UCS_PTR_IS_PTR(req)) {
        if (r->state == UCX_REC_LANDING) /* else it has ended inside the call, well or not */
            r->req = req;
        return;
    }
    l->landing--;
    if (req == NULL) {
        rec_landed(r);
        return;
    }
    ucx_conn_break(r->rail->conn, ucs_status_string(UCS_PTR_STATUS(req)));
}

static void park(struct ucx_rec *r, void *desc)
{
    struct ucx_port *up = r->chan->port;

    r->state = UCX_REC_PARKED;
    r->desc = desc;
    r->next = NULL;
    if (up->parked_head == NULL)
        up->parked_head = r;
    else
        up->parked_tail->next = r;
    up->parked_tail = r;
}

static void *ask(struct ucx_rec *r)
{
    const struct tp_port_params *cb = &r->chan->port->port->cb;

    return cb->place == NULL
               ? NULL
               : cb->place(cb->arg, &r->chan->link->base, r->hdr, r->hdr_bytes, r->bytes);
}

static void kept_free(struct ucx_rec *r)
{
    if (r->kept == NULL)
        return;
    free(r->kept);
    r->kept = NULL;
    r->chan->link->kept_bytes -= r->bytes;
}

/* A parked payload has got its place. */
static void unpark(struct ucx_rec *r, void *place)
{
    void *desc = r->desc;

    r->desc = NULL;
    r->place = place;
    if (r->rndv) {
        rndv_start(r, desc);
        return;
    }
    memcpy(place, r->kept, r->bytes);
    r->copied_bytes += r->bytes;
    kept_free(r);
    rec_landed(r);
}

static void drop(struct ucx_rec *r)
{
    if (r->desc != NULL)
        ucp_am_data_release(r->chan->link->un->worker, r->desc);
    r->desc = NULL;
    kept_free(r);
}

/* Asks for the place of a payload that has none. */
static void settle(struct ucx_rec *r)
{
    void *place = ask(r);

    if (place == TP_PLACE_LATER) {
        park(r, r->desc);
    } else if (place == NULL) {
        ucx_conn_break(r->rail->conn, "payload that nobody wants");
        drop(r);
    } else {
        unpark(r, place);
    }
}

/* Memory of our own for pieces that have no place yet; from now on the peer shall announce such. */
static void *keep(struct ucx_rec *r)
{
    struct ucx_link *l = r->chan->link;

    /* what is never announced is bounded by the window */
    if (r->bytes >= UCX_RNDV_BYTES && l->kept_bytes + r->bytes > UCX_KEPT_MAX)
        return NULL;
    r->kept = malloc(r->bytes);
    if (r->kept == NULL)
        return NULL;
    l->kept_bytes += r->bytes;
    if (!l->choke_said && r->bytes >= UCX_RNDV_BYTES)
        l->choke_said = ucx_post(l->un, r->rail->conn->ep, UCX_AM_CHOKE, "choke", 5);
    return r->kept;
}

/* The header, and where the payload goes. NULL, or why the message is not wanted. */
static const char *begin(struct ucx_rec *r, const void *hdr, uint32_t hdr_bytes)
{
    r->hdr_bytes = hdr_bytes;
    memcpy(r->hdr, hdr, hdr_bytes);
    if (r->bytes == 0)
        return NULL;
    r->place = ask(r);
    if (r->place == NULL)
        return "payload that nobody wants";
    if (r->place == TP_PLACE_LATER && !r->rndv)
        r->place = keep(r);
    return r->place == NULL ? "more payload without a place than is kept here" : NULL;
}

static void piece_land(struct ucx_rec *r, uint64_t offset, const void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy((char *)r->place + offset, data, bytes);
    r->missing -= bytes;
    r->copied_bytes += bytes;
    if (r->missing > 0)
        return;
    if (r->kept == NULL) {
        rec_landed(r);
        return;
    }
    settle(r); /* there may be one since the first piece came */
    advance(r->chan);
}

static void announced(struct ucx_rec *r, void *desc)
{
    if (r->place != TP_PLACE_LATER) {
        rndv_start(r, desc);
        return;
    }
    park(r, desc);
    advance(r->chan);
}

ucs_status_t ucx_on_msg(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                        const ucp_am_recv_param_t *param)
{
    const bool rndv = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    struct ucx_prefix x;
    const char *why = "malformed message";

    if (hdr_bytes < sizeof(x))
        return UCS_OK;
    memcpy(&x, hdr, sizeof(x));

    struct ucx_rail *rail = ucx_sender(arg, x.link, param);

    if (rail == NULL)
        return UCS_OK;

    struct ucx_rec *r = well_formed(rail->link, &x, hdr_bytes, bytes, rndv)
                            ? rec_take(rail->link, &x, bytes, rndv, &why)
                            : NULL;

    if (r != NULL && r->rail == NULL) { /* the first of it */
        r->rail = rail;
        why = begin(r, (const unsigned char *)hdr + sizeof(x), x.hdr_bytes);
    }
    if (r == NULL || why != NULL) {
        if (r != NULL)
            r->missing = 0; /* no further piece of it */
        ucx_conn_break(rail->conn, why);
        return UCS_OK;
    }
    if (rndv) {
        announced(r, data);
        return UCS_INPROGRESS;
    }
    piece_land(r, x.offset, data, bytes);
    return UCS_OK;
}

bool ucx_places_retry(struct ucx_port *up)
{
    if (!atomic_load_explicit(&up->retry, memory_order_relaxed))
        return false;
    /* pairs with the release in retry: what place reads is new enough */
    atomic_exchange_explicit(&up->retry, false, memory_order_acquire);

    struct ucx_rec *r = up->parked_head, *next;

    up->parked_head = NULL;
    up->parked_tail = NULL;
    for (; r != NULL; r = next) {
        next = r->next;
        settle(r);
    }
    return true;
}

static void parked_drop(struct ucx_port *up, const struct ucx_link *l)
{
    struct ucx_rec *r = up->parked_head, *next;

    up->parked_head = NULL;
    up->parked_tail = NULL;
    for (; r != NULL; r = next) {
        next = r->next;
        if (r->chan->link == l)
            drop(r);
        else
            park(r, r->desc);
    }
}

void ucx_recvs_give_up(struct ucx_link *l, bool forget)
{
    for (unsigned i = 0; i < l->un->nports; i++)
        parked_drop(&l->un->port[i], l);
    for (unsigned c = 0; c < l->base.channels; c++) {
        for (unsigned i = 0; i < TP_CHANNEL_SLOTS; i++) {
            struct ucx_rec *r = &l->chan[c].rec[i];

            kept_free(r);
            if (!forget || r->req == NULL)
                continue;
            ucp_request_free(r->req);
            r->req = NULL;
            l->landing--;
        }
    }
}

/* ---- the port's thread ---- */

/* Returns how many messages it has delivered. */
static unsigned chan_drain(struct ucx_chan *ch)
{
    uint32_t tail = atomic_load_explicit(&ch->rx_tail, memory_order_relaxed);
    unsigned n = 0;

    /* pairs with the release in deliver */
    while (n < DRAIN_MAX && !tp_link_failed(&ch->link->base) &&
           atomic_load_explicit(&ch->rx_head, memory_order_acquire) != tail) {
        const struct ucx_rec *r = ch->deliver[tail % TP_CHANNEL_SLOTS];
        const struct tp_rx rx = { .link = &ch->link->base,
                                  .hdr = r->hdr,
                                  .hdr_bytes = r->hdr_bytes,
                                  .channel = ch->index,
                                  .payload = r->bytes > 0 ? r->place : NULL,
                                  .payload_bytes = r->bytes };

        tp_port_deliver(ch->port->port, &rx, r->copied_bytes);
        tail++;
        n++;
        /* pairs with the acquire in rec_new */
        atomic_store_explicit(&ch->rx_tail, tail, memory_order_release);
        if (tail % UCX_CREDIT_EVERY == 0 &&
            !atomic_exchange_explicit(&ch->credit_queued, true, memory_order_acq_rel)) {
            vb_ring_put(&ch->port->credits, ch); /* never full: a channel is in it once */
            (void)ucx_turn(ch->port->un, false);
        }
    }
    return n;
}

static unsigned chan_visit(struct ucx_port *up, struct ucx_chan *ch)
{
    const unsigned n = chan_drain(ch);

    if (n == DRAIN_MAX && !ch->in_again) {
        ch->in_again = true;
        ch->again = up->again;
        up->again = ch;
    }
    return n;
}

unsigned ucx_arrived_take(struct ucx_port *up)
{
    struct ucx_chan *ch = up->again, *next;
    unsigned n = 0;

    up->again = NULL;
    for (; ch != NULL; ch = next) {
        next = ch->again;
        ch->in_again = false;
        n += chan_visit(up, ch);
    }
    while ((ch = vb_ring_get(&up->arrived)) != NULL) {
        /* pairs with the exchange in deliver: cleared before head is read */
        atomic_exchange_explicit(&ch->arrived_queued, false, memory_order_acq_rel);
        n += chan_visit(up, ch);
    }
    return n;
}
