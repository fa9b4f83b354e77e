#include "transport/ucx.h"

#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

#if VB_UCX_COPY_HEADER
#define COPY_HEADER UCP_AM_SEND_FLAG_COPY_HEADER
#else
#define COPY_HEADER 0
#endif

struct credit {
    uint16_t link, channel;
    uint32_t consumed; /* messages of the channel, modulo 2^32 */
};
static_assert(sizeof(struct credit) == 8, "credit is 8 bytes on the wire");

/* ---- the port's thread ---- */

enum vb_st ucx_send(struct tp_port *p, struct tp_link *base, unsigned channel, struct tp_op *op)
{
    struct ucx_link *l = (struct ucx_link *)base;
    struct ucx_chan *ch = &l->chan[channel];
    struct ucx_port *up = ch->port;
    /* pairs with the release in ucx_on_credit */
    const uint32_t credit = atomic_load_explicit(&ch->tx_credit, memory_order_acquire);
    const uint32_t returned = atomic_load_explicit(&up->returned, memory_order_acquire);

    if (atomic_load_explicit(&l->state, memory_order_acquire) < UCX_LINK_PROVED ||
        ch->tx_taken - credit >= TP_CHANNEL_SLOTS || up->taken - returned >= UCX_PORT_OPS ||
        up->taken - up->popped >= UCX_PORT_OPS)
        return VB_AGAIN;

    const struct ucx_prefix prefix = { .link = (uint16_t)l->peer_id,
                                       .channel = (uint8_t)channel,
                                       .hdr_bytes = (uint8_t)op->hdr_bytes,
                                       .payload_bytes = op->bytes };

    memcpy(op->prefix, &prefix, sizeof(prefix));
    if (!vb_ring_put(&up->sends, op))
        return VB_AGAIN;
    ch->tx_taken++;
    up->taken++;
    (void)ucx_turn(up->un, false);
    return VB_OK;
}

unsigned ucx_finished_take(struct ucx_port *up)
{
    struct tp_op *op;

    while ((op = vb_ring_get(&up->finished)) != NULL) {
        up->popped++;
        tp_port_done(up->port, op, op->st);
    }
    return 0; /* their done runs in the port's next progress */
}

/* ---- whoever has the turn ---- */

static void op_finish(struct ucx_port *up, struct tp_op *op, enum vb_st st)
{
    op->st = st;
    vb_ring_put(&up->finished, op); /* never full: ucx_send counts */
    ucx_tell(up);
}

static void tx_returned(struct ucx_port *up)
{
    /* pairs with the acquire in ucx_send */
    atomic_store_explicit(&up->returned,
                          atomic_load_explicit(&up->returned, memory_order_relaxed) + 1,
                          memory_order_release);
}

static struct ucx_tx *tx_take(struct ucx_port *up, struct ucx_link *l, struct tp_op *op)
{
    struct ucx_tx *tx = up->tx_free;

    if (tx != NULL)
        up->tx_free = tx->next;
    else
        tx = &up->tx[up->tx_used++]; /* never more than UCX_PORT_OPS: ucx_send counts */
    tx->op = op;
    tx->link = l;
    tx->port = up;
    tx->req = NULL;
    tx->prev = NULL;
    tx->next = l->tx;
    if (l->tx != NULL)
        l->tx->prev = tx;
    l->tx = tx;
    return tx;
}

static void pump(struct ucx_link *l);

static void tx_end(struct ucx_tx *tx, enum vb_st st)
{
    struct ucx_link *l = tx->link;
    struct ucx_port *up = tx->port;

    ucx_rail_ended(tx, st == VB_OK);
    l->leaving_bytes -= tx->piece_bytes != 0 ? tx->bytes : 0;
    if (tx->prev != NULL)
        tx->prev->next = tx->next;
    else
        tx->link->tx = tx->next;
    if (tx->next != NULL)
        tx->next->prev = tx->prev;
    if (tx->op != NULL)
        op_finish(up, tx->op, st);
    tx->op = NULL;
    tx->next = up->tx_free;
    up->tx_free = tx;
    tx_returned(up);
    if (l->waiting != NULL && !l->pumping)
        pump(l);
}

static void tx_failed(struct ucx_tx *tx, ucs_status_t s)
{
    if (tx->rail->conn != NULL)
        ucx_conn_break(tx->rail->conn, ucs_status_string(s));
    tx_end(tx, VB_UNREACHABLE);
}

/* Prefix and header in one piece, where they stay as long as UCX needs them. */
static const void *wire_of(struct ucx_tx *tx, const struct tp_op *op)
{
    const unsigned char *from = (const unsigned char *)op + offsetof(struct tp_op, prefix);

#if VB_UCX_COPY_HEADER
    return from; /* UCX copies them where it has to */
#else
    return memcpy(tx->wire, from, sizeof(struct ucx_prefix) + op->hdr_bytes);
#endif
}

/* How a payload leaves: in pieces of so many bytes, each at once, or (0) announced. Over TCP an announced
 * one waits for three messages and its sender for the last one; pieces do not, and the receiver copies them
 * to their place while they are in its cache. It has to keep those that have none, so it may ask for
 * announcements (choke); what is given to UCX before that is heard is a credit, less than it keeps. With several rails an end must mean that all has arrived: it is their speed. */
static uint64_t piece_bytes(const struct ucx_link *l, uint64_t bytes)
{
    if (bytes < UCX_RNDV_BYTES)
        return UCX_RNDV_BYTES;
    return l->un->way == TP_TCP && bytes <= UCX_PIECES_MAX && l->nrails == 1 && !l->choked
               ? UCX_PIECE_BYTES
               : 0;
}

static void on_sent(void *req, ucs_status_t s, void *arg);

/* The next piece of a payload, or all of one that is announced. */
static void *send_piece(struct ucx_tx *tx, uint64_t bytes, uint32_t flag)
{
    struct tp_op *op = tx->op;
    const struct ucx_node *un = tx->link->un;
    const uint64_t at = op->bytes - tx->left;
    ucp_request_param_t p = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_AM_SEND_FLAG_REPLY | COPY_HEADER | flag,
        .cb.send = on_sent,
        .user_data = tx,
    };
    const size_t wire_bytes = sizeof(struct ucx_prefix) + op->hdr_bytes;
    const unsigned char *payload = NULL;

    if (op->bytes > 0) {
        payload = (const unsigned char *)un->node->region[op->region].base + op->offset + at;
        p.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        p.memh = un->mem[op->region];
    }
    ((struct ucx_prefix *)op->prefix)->offset = at;
    tx->left -= bytes;
    return ucp_am_send_nbx(tx->rail->conn->ep, UCX_AM_MSG, wire_of(tx, op), wire_bytes, payload,
                           bytes, &p);
}

/* Gives UCX what is left until it wants to be waited for; on_sent goes on then. */
static void send_rest(struct ucx_tx *tx)
{
    void *req;

    do
        req = tx->piece_bytes == 0
                  ? send_piece(tx, tx->left, UCP_AM_SEND_FLAG_RNDV)
                  : send_piece(tx, VB_MIN(tx->left, tx->piece_bytes), UCP_AM_SEND_FLAG_EAGER);
    while (req == NULL && tx->left > 0);
    if (req == NULL)
        tx_end(tx, VB_OK);
    else if (UCS_PTR_IS_ERR(req))
        tx_failed(tx, UCS_PTR_STATUS(req));
    else
        tx->req = req;
}

static void on_sent(void *req, ucs_status_t s, void *arg)
{
    struct ucx_tx *tx = arg;

    ucp_request_free(req);
    tx->req = NULL;
    if (s != UCS_OK)
        tx_failed(tx, s);
    else if (tx->left == 0)
        tx_end(tx, VB_OK);
    else if (tx->op != NULL && ucx_rail_lives(tx->rail))
        send_rest(tx);
    else
        tx_end(tx, VB_UNREACHABLE);
}

static struct ucx_chan *chan_of(const struct tp_op *op)
{
    struct ucx_link *l = (struct ucx_link *)op->link;

    return &l->chan[((const struct ucx_prefix *)op->prefix)->channel];
}

static void refuse(struct ucx_port *up, struct tp_op *op)
{
    op_finish(up, op, VB_UNREACHABLE);
    tx_returned(up);
}

static void send_start(struct tp_op *op)
{
    struct ucx_link *l = (struct ucx_link *)op->link;
    struct ucx_chan *ch = chan_of(op);
    struct ucx_rail *rail = ucx_rail_for(l, op->bytes);

    if (rail == NULL) {
        refuse(ch->port, op);
        return;
    }

    struct ucx_tx *tx = tx_take(ch->port, l, op);

    tx->left = op->bytes;
    tx->piece_bytes = piece_bytes(l, op->bytes);
    l->leaving_bytes += tx->piece_bytes != 0 ? op->bytes : 0;
    ((struct ucx_prefix *)op->prefix)->seq = ch->tx_started++;
    ucx_rail_begun(tx, rail, op->bytes);
    send_rest(tx);
}

/* What is announced needs none: it moves when the receiver has a place, and must not keep others from theirs. */
static bool has_credit(const struct ucx_link *l, const struct tp_op *op)
{
    return l->leaving_bytes == 0 || op->bytes == 0 || piece_bytes(l, op->bytes) == 0 ||
           l->leaving_bytes + op->bytes <= l->un->node->credit_bytes;
}

/* What waits and may leave does. A send that ends at once comes back here by tx_end: one loop does them all. */
static void pump(struct ucx_link *l)
{
    l->pumping = true;
    while (l->waiting != NULL && has_credit(l, l->waiting)) {
        struct tp_op *op = l->waiting;

        l->waiting = op->next;
        send_start(op);
    }
    l->pumping = false;
}

static void wait_for_credit(struct ucx_link *l, struct tp_op *op)
{
    struct tp_op **at = &l->waiting;

    while (*at != NULL && (*at)->need <= op->need)
        at = &(*at)->next;
    op->next = *at;
    *at = op;
}

bool ucx_sends_start(struct ucx_port *up)
{
    struct tp_op *op;
    bool any = false;

    while ((op = vb_ring_get(&up->sends)) != NULL) {
        struct ucx_link *l = (struct ucx_link *)op->link;

        wait_for_credit(l, op);
        if (!l->pumping)
            pump(l);
        any = true;
    }
    return any;
}

void ucx_sends_refuse(struct ucx_port *up)
{
    struct tp_op *op;

    while ((op = vb_ring_get(&up->sends)) != NULL)
        refuse(up, op);
}

void ucx_sends_give_up(struct ucx_link *l, bool forget)
{
    struct ucx_tx *next;

    for (struct tp_op *op = l->waiting, *then; op != NULL; op = then) {
        then = op->next;
        refuse(chan_of(op)->port, op);
    }
    l->waiting = NULL;
    for (struct ucx_tx *tx = l->tx; tx != NULL; tx = next) {
        next = tx->next;
        if (tx->op != NULL)
            op_finish(tx->port, tx->op, VB_UNREACHABLE);
        tx->op = NULL;
        if (forget) {
            ucp_request_free(tx->req);
            tx_end(tx, VB_UNREACHABLE);
        }
    }
}

/* ---- credits ---- */

ucs_status_t ucx_on_credit(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                           const ucp_am_recv_param_t *param)
{
    struct credit c;

    if (hdr_bytes != sizeof(c))
        return UCS_OK;
    memcpy(&c, hdr, sizeof(c));

    struct ucx_rail *rail = ucx_sender(arg, c.link, param);

    if (rail == NULL)
        return UCS_OK;

    struct ucx_link *l = rail->link;

    if (c.channel >= l->base.channels) {
        ucx_conn_break(rail->conn, "credit for no channel");
        return UCS_OK;
    }

    struct ucx_chan *ch = &l->chan[c.channel];
    const uint32_t before = atomic_load_explicit(&ch->tx_credit, memory_order_relaxed);

    if (c.consumed - before > ch->tx_started - before) {
        ucx_conn_break(rail->conn, "credit for messages never sent");
        return UCS_OK;
    }
    atomic_store_explicit(&ch->tx_credit, c.consumed, memory_order_release);
    ucx_tell(ch->port); /* somebody may wait for room */
    return UCS_OK;
}

static bool credit_send(struct ucx_chan *ch, uint32_t consumed)
{
    struct ucx_link *l = ch->link;
    const struct credit c = { .link = (uint16_t)l->peer_id,
                              .channel = (uint16_t)ch->index,
                              .consumed = consumed };

    struct ucx_rail *rail = ucx_rail_first(l);

    return rail == NULL || ucx_post(l->un, rail->conn->ep, UCX_AM_CREDIT, &c, sizeof(c));
}

bool ucx_credits_send(struct ucx_port *up)
{
    bool any = false;
    struct ucx_chan *ch = up->credit_held;

    up->credit_held = NULL;
    if (ch == NULL)
        ch = vb_ring_get(&up->credits);
    for (; ch != NULL; ch = vb_ring_get(&up->credits)) {
        /* pairs with the exchange in chan_drain: cleared before the count is read */
        atomic_exchange_explicit(&ch->credit_queued, false, memory_order_acq_rel);

        if (!credit_send(ch, atomic_load_explicit(&ch->rx_tail, memory_order_acquire))) {
            up->credit_held = ch;
            break;
        }
        any = true;
    }
    return any;
}
