/*
 * A message waits in the sending link, in the ring of its channel; the receiving port takes it from
 * there. An entry stays until its last copy is delivered, so a ring may have gaps; it is full when
 * the oldest entry still waited for is TP_CHANNEL_SLOTS behind. An offer is the serial number of a
 * link in a list of all loop links of this process, so garbage finds nothing.
 */
#include "transport/tp_loop.h"

#include "base/random.h"
#include "base/util.h"
#include "transport/backend.h"

#include <stdio.h>
#include <string.h>

#define LOG_MOD "transport"
#include "base/log.h"

#define OFFER_MAGIC UINT64_C(0x706f6f6c61627276)

enum { DELAY_STEPS = 8 };
enum draw { DRAW_DROP, DRAW_DUPLICATE, DRAW_REORDER, DRAW_DELAY, DRAW_STEPS, DRAW_LATE, NDRAWS };

struct entry {
    unsigned char hdr[TP_HDR_MAX];
    uint32_t hdr_bytes;
    unsigned copies; /* still to be delivered; 0: a gap */
    bool place, parked;
    bool loose;    /* later ones need not wait for it */
    uint64_t due;  /* step of the receiving node */
    uint64_t late; /* how many steps after the first copy the second comes */
    const void *payload;
    uint64_t payload_bytes;
    struct tp_op *op; /* done waits for the last copy; NULL: done already */
};

struct channel {
    struct entry *entry; /* TP_CHANNEL_SLOTS */
    uint64_t head, tail; /* next to be written; oldest one that is no gap */
    uint64_t sent;       /* counts drops too: the random numbers go by it */
};

struct loop_link {
    struct tp_link base;
    uint64_t serial;
    struct loop_link *peer, *next_alive;
    struct tp_loop_knobs knobs;
    struct channel channel[TP_PORTS_MAX];
};

struct loop_node {
    uint64_t steps;
};

struct loop_offer {
    uint64_t magic, serial;
    uint32_t channels, reserved;
};

static struct loop_link *alive; /* one thread, says the header */
static uint64_t last_serial;

static struct loop_link *loop_of(struct tp_link *l)
{
    return (struct loop_link *)(void *)l;
}

static struct loop_node *node_of(const struct tp_node *n)
{
    return n->be_node[TP_LOOP];
}

static enum vb_st node_open(struct tp_node *n, enum tp_way way, void **be_out)
{
    *be_out = calloc(1, sizeof(struct loop_node));
    return *be_out != NULL ? VB_OK : VB_NOMEM;
}

static void link_close(struct tp_link *l)
{
    struct loop_link *k = loop_of(l);

    if (k == NULL)
        return;
    for (struct loop_link **at = &alive; *at != NULL;) {
        if ((*at)->peer == k)
            (*at)->peer = NULL;
        if (*at == k)
            *at = k->next_alive;
        else
            at = &(*at)->next_alive;
    }
    for (unsigned c = 0; c < TP_PORTS_MAX; c++)
        free(k->channel[c].entry);
    free(k);
}

static enum vb_st link_new(struct tp_node *n, const struct tp_link_params *p,
                           struct tp_link **link_out)
{
    struct loop_link *k = tp_link_alloc(sizeof(*k));

    if (k == NULL)
        return VB_NOMEM;
    for (unsigned c = 0; c < p->channels; c++) {
        k->channel[c].entry = calloc(TP_CHANNEL_SLOTS, sizeof(struct entry));
        if (k->channel[c].entry == NULL) {
            link_close(&k->base);
            return VB_NOMEM;
        }
    }
    k->serial = ++last_serial;
    k->next_alive = alive;
    alive = k;
    *link_out = &k->base;
    return VB_OK;
}

static enum vb_st offer(struct tp_link *l, struct tp_offer *offer_out)
{
    const struct loop_offer o = { OFFER_MAGIC, loop_of(l)->serial, l->channels, 0 };

    memcpy(offer_out->blob, &o, sizeof(o));
    offer_out->bytes = sizeof(o);
    return VB_OK;
}

static enum vb_st connect(struct tp_link *l, const struct tp_offer *peer)
{
    struct loop_link *k = loop_of(l), *found = alive;
    struct loop_offer o;

    if (k->peer != NULL)
        return VB_INVAL;
    memcpy(&o, peer->blob, sizeof(o));
    while (found != NULL && found->serial != o.serial)
        found = found->next_alive;
    if (peer->bytes != sizeof(o) || peer->nfds != 0 || o.magic != OFFER_MAGIC ||
        o.channels != l->channels || o.reserved != 0 || found == NULL || found == k ||
        (found->peer != NULL && found->peer != k)) {
        log_error("offer of %s cannot be used", l->peer);
        return VB_PROTO;
    }
    k->peer = found;
    return VB_OK;
}

static enum vb_st ready(const struct tp_link *l)
{
    return ((const struct loop_link *)(const void *)l)->peer != NULL ? VB_OK : VB_AGAIN;
}

static void fail(struct tp_link *l)
{
    struct loop_link *k = loop_of(l);

    for (unsigned c = 0; c < l->channels; c++) {
        struct channel *ch = &k->channel[c];

        for (; ch->tail != ch->head; ch->tail++) {
            struct entry *e = &ch->entry[ch->tail % TP_CHANNEL_SLOTS];

            e->copies = 0;
            if (e->op != NULL)
                tp_port_done(&l->node->port[c % l->node->nports], e->op, VB_UNREACHABLE);
            e->op = NULL;
        }
    }
}

static float draw(const struct loop_link *k, unsigned c, enum draw what)
{
    const uint64_t stream = ((uint64_t)k->base.id << 8 | c) << 1 | k->base.initiator;

    return vb_random_f32(k->base.node->loop_seed, stream, k->channel[c].sent * NDRAWS + what);
}

static uint64_t draw_steps(const struct loop_link *k, unsigned c, enum draw what)
{
    const uint32_t most = k->knobs.delay_steps != 0 ? k->knobs.delay_steps : DELAY_STEPS;

    return 1 + (uint64_t)(draw(k, c, what) * (float)most);
}

/* What the seed does to this message; false: it is lost. */
static bool schedule(const struct loop_link *k, unsigned c, struct entry *e)
{
    const struct tp_loop_knobs *knobs = &k->knobs;

    e->copies = 1;
    if (k->base.node->loop_seed == 0)
        return true;
    if (draw(k, c, DRAW_DROP) < knobs->drop)
        return false;
    if (draw(k, c, DRAW_DUPLICATE) < knobs->duplicate)
        e->copies = 2;
    e->late = draw_steps(k, c, DRAW_LATE);
    e->loose = draw(k, c, DRAW_REORDER) < knobs->reorder;
    if (e->loose || draw(k, c, DRAW_DELAY) < knobs->delay)
        e->due = draw_steps(k, c, DRAW_STEPS);
    return true;
}

static enum vb_st send(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op)
{
    struct loop_link *k = loop_of(l);
    struct channel *ch = &k->channel[channel];
    struct entry *e = &ch->entry[ch->head % TP_CHANNEL_SLOTS];

    if (k->peer == NULL)
        return VB_INVAL;
    if (ch->head - ch->tail == TP_CHANNEL_SLOTS)
        return VB_AGAIN;
    *e = (struct entry){ .hdr_bytes = op->hdr_bytes, .payload_bytes = op->bytes };
    memcpy(e->hdr, op->hdr, op->hdr_bytes);
    if (op->bytes > 0) {
        e->payload = (const char *)l->node->region[op->region].base + op->offset;
        e->place = k->knobs.place;
    }

    const bool lost = !schedule(k, channel, e);

    ch->sent++;
    e->due += node_of(k->peer->base.node)->steps;
    if (!lost)
        ch->head++;
    if (!lost && e->place)
        e->op = op;
    else
        tp_port_done(p, op, VB_OK);
    return VB_OK;
}

/* Where the payload is for the receiver; NULL: not now, or never and the link has failed. */
static const void *place(struct tp_port *p, struct tp_link *l, struct entry *e)
{
    void *dst = NULL;

    if (!e->place)
        return e->payload;
    if (p->cb.place != NULL)
        dst = p->cb.place(p->cb.arg, l, e->hdr, e->hdr_bytes, e->payload_bytes);
    if (dst == NULL) {
        log_error("%s sent a payload of %llu bytes that has no place: link ends", l->peer,
                  (unsigned long long)e->payload_bytes);
        tp_link_fail(l);
    } else if (dst == TP_PLACE_LATER) {
        e->parked = e->loose = true;
        dst = NULL;
    } else {
        memcpy(dst, e->payload, e->payload_bytes);
    }
    return dst;
}

/* False: it waits on, or the link has failed. */
static bool deliver(struct tp_port *p, struct loop_link *k, unsigned c, struct entry *e)
{
    struct tp_node *sender = k->peer->base.node;
    _Alignas(8) unsigned char hdr[TP_HDR_MAX];
    struct tp_rx rx = { .link = &k->base,
                        .hdr = hdr,
                        .hdr_bytes = e->hdr_bytes,
                        .channel = c,
                        .payload_bytes = e->payload_bytes,
                        .view = e->payload != NULL && !e->place };

    if (e->payload != NULL) {
        rx.payload = place(p, &k->base, e);
        if (rx.payload == NULL)
            return false;
    }
    memcpy(hdr, e->hdr, e->hdr_bytes);
    e->copies--;
    e->loose = true;
    e->due = node_of(k->base.node)->steps + e->late;
    if (e->copies == 0 && e->op != NULL) {
        tp_port_done(&sender->port[c % sender->nports], e->op, VB_OK);
        e->op = NULL;
    }
    tp_port_deliver(p, &rx, e->place ? rx.payload_bytes : 0);
    return true;
}

/* Delivers what is due; *later_out: something waits for a later step. */
static unsigned drain(struct tp_port *p, struct loop_link *k, unsigned c, bool *later_out)
{
    struct channel *ch = &k->peer->channel[c];
    unsigned n = 0;

    for (uint64_t i = ch->tail; i != ch->head && !tp_link_failed(&k->base); i++) {
        struct entry *e = &ch->entry[i % TP_CHANNEL_SLOTS];
        const bool due = e->due <= node_of(k->base.node)->steps;

        if (e->copies == 0)
            continue;
        if (due && !e->parked && deliver(p, k, c, e))
            n++;
        *later_out |= !due || (e->copies > 0 && !e->parked);
        if (e->copies > 0 && !e->loose)
            break;
    }
    while (ch->tail != ch->head && ch->entry[ch->tail % TP_CHANNEL_SLOTS].copies == 0)
        ch->tail++;
    return n;
}

/* The links of this node that can bring something. */
static struct loop_link *usable(const struct tp_node *n, unsigned i)
{
    struct tp_link *l = n->link[i];

    if (l->be != &tp_loop_backend || tp_link_failed(l) || loop_of(l)->peer == NULL)
        return NULL;
    return loop_of(l);
}

static unsigned progress(struct tp_port *p, void *be, bool waiting)
{
    const struct tp_node *node = p->node;
    struct loop_node *ln = be;
    bool later = false;
    unsigned n = 0;

    ln->steps++;
    for (unsigned i = 0; i < atomic_load_explicit(&node->nlinks, memory_order_acquire); i++) {
        struct loop_link *k = usable(node, i);

        for (unsigned c = p->index; k != NULL && c < k->base.channels; c += node->nports)
            n += drain(p, k, c, &later);
    }
    if (later)
        wake_post(&p->wake); /* steps do not pass while the port sleeps */
    return n;
}

static void retry(struct tp_port *p, void *be)
{
    const struct tp_node *node = p->node;

    for (unsigned i = 0; i < atomic_load_explicit(&node->nlinks, memory_order_acquire); i++) {
        struct loop_link *k = usable(node, i);

        for (unsigned c = p->index; k != NULL && c < k->base.channels; c += node->nports)
            for (unsigned s = 0; s < TP_CHANNEL_SLOTS; s++)
                k->peer->channel[c].entry[s].parked = false;
    }
}

static void info(const struct tp_link *l, struct tp_link_info *out)
{
    snprintf(out->protocol, sizeof(out->protocol), "in process, seed %llu, payloads %s",
             (unsigned long long)l->node->loop_seed,
             ((const struct loop_link *)(const void *)l)->knobs.place ? "copied" : "read in place");
}

void tp_loop_set(struct tp_link *l, const struct tp_loop_knobs *knobs)
{
    loop_of(l)->knobs = *knobs;
}

uint64_t tp_loop_steps(const struct tp_node *n)
{
    const struct loop_node *ln = node_of(n);

    return ln != NULL ? ln->steps : 0;
}

static bool node_close(void *be)
{
    free(be);
    return true;
}

const struct tp_backend tp_loop_backend = {
    .name = "loop",
    .node_open = node_open,
    .node_close = node_close,
    .link_new = link_new,
    .link_close = link_close,
    .offer = offer,
    .connect = connect,
    .ready = ready,
    .fail = fail,
    .send = send,
    .progress = progress,
    .retry = retry,
    .info = info,
};
