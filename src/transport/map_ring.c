/*
 * One message is one slot. The producer fills words 1.. and then stores word 0, whose low half is the
 * number of the message; the consumer looks for the number it expects next. A slot may be written
 * again once the consumer's tail has passed it; the producer keeps a copy of the tail and looks at
 * the shared one only when that copy says full. No read-modify-write anywhere.
 *
 * Nothing a consumer reads from a slot is trusted: it is copied out word by word, then checked.
 */
#include "transport/map.h"

#include "base/util.h"

#include <string.h>

#define LOG_MOD "transport"
#include "base/log.h"

enum {
    BURST = 64
}; /* messages of one channel in one progress, so that no channel starves another */

static bool has_room(struct map_out *o)
{
    if (o->sent - o->read_seen < TP_CHANNEL_SLOTS)
        return true;
    /* pairs with the release in take: the slot has been copied out */
    o->read_seen = (uint32_t)atomic_load_explicit(&o->tail->read, memory_order_acquire);
    return o->sent - o->read_seen < TP_CHANNEL_SLOTS;
}

enum vb_st map_send(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op)
{
    struct map_link *m = map_link_of(l);
    struct map_out *o = &m->out[channel];

    if (!atomic_load_explicit(&m->connected, memory_order_acquire))
        return VB_INVAL;
    if (!has_room(o))
        return VB_AGAIN;

    struct map_slot *s = &o->slots[o->sent % TP_CHANNEL_SLOTS];
    const uint64_t region = op->bytes > 0 ? op->region : 0;

    o->sent++;
    atomic_store_explicit(&s->word[1], op->offset, memory_order_relaxed);
    atomic_store_explicit(&s->word[2], op->bytes, memory_order_relaxed);
    for (unsigned i = 0; i * sizeof(uint64_t) < op->hdr_bytes; i++) {
        uint64_t w;

        memcpy(&w, op->hdr + i * sizeof(w), sizeof(w));
        atomic_store_explicit(&s->word[MAP_SLOT_HDR + i], w, memory_order_relaxed);
    }
    /* pairs with the acquire in map_progress: slot and payload are visible */
    atomic_store_explicit(&s->word[0],
                          (uint64_t)o->sent | (uint64_t)op->hdr_bytes << 32 | region << 48,
                          memory_order_release);
    wake_post(&o->peer);
    tp_port_done(p, op, VB_OK);
    return VB_OK;
}

static void bad_slot(struct map_in *in, const char *what, uint64_t offset, uint64_t bytes)
{
    log_error("%s sent a message with %s, offset %llu, %llu bytes: link ends", in->link->base.peer,
              what, (unsigned long long)offset, (unsigned long long)bytes);
    tp_link_fail(&in->link->base);
}

/* Takes the message whose word 0 is w0 out of its slot and delivers it. */
static void take(struct tp_port *p, struct map_in *in, struct map_slot *s, uint64_t w0)
{
    const uint32_t hdr_bytes = w0 >> 32 & 0xffff, region = (uint32_t)(w0 >> 48);
    const uint64_t offset = atomic_load_explicit(&s->word[1], memory_order_relaxed);
    const uint64_t bytes = atomic_load_explicit(&s->word[2], memory_order_relaxed);
    const struct map_peer *peer = &in->link->peer;
    uint64_t hdr[TP_HDR_MAX / sizeof(uint64_t)];

    if (hdr_bytes > TP_HDR_MAX) {
        bad_slot(in, "too long a header", offset, bytes);
        return;
    }
    for (unsigned i = 0; i * sizeof(uint64_t) < hdr_bytes; i++)
        hdr[i] = atomic_load_explicit(&s->word[MAP_SLOT_HDR + i], memory_order_relaxed);
    in->read++;
    /* pairs with the acquire in has_room */
    atomic_store_explicit(&in->tail->read, in->read, memory_order_release);

    struct tp_rx rx = { .link = &in->link->base,
                        .hdr = hdr,
                        .hdr_bytes = hdr_bytes,
                        .channel = in->channel,
                        .payload_bytes = bytes };

    if (bytes > 0) {
        if (region >= peer->nregions || !vb_inside(offset, bytes, peer->region[region].bytes)) {
            bad_slot(in, "a payload outside its regions", offset, bytes);
            return;
        }
        rx.payload = (const char *)peer->region[region].base + offset;
        rx.view = true;
    }
    tp_port_deliver(p, &rx, 0);
}

static unsigned drain(struct tp_port *p, struct map_in *in)
{
    unsigned n = 0;

    while (n < BURST) {
        struct map_slot *s = &in->slots[in->read % TP_CHANNEL_SLOTS];
        /* pairs with the release in map_send */
        const uint64_t w0 = atomic_load_explicit(&s->word[0], memory_order_acquire);

        if ((uint32_t)w0 != in->read + 1 || tp_link_failed(&in->link->base))
            break;
        take(p, in, s, w0);
        n++;
    }
    return n;
}

unsigned map_progress(struct tp_port *p, void *be, bool waiting)
{
    struct map_node *mn = be;
    struct map_in *in = mn->in[p->index];
    /* pairs with the release in map_connect */
    const unsigned nin = atomic_load_explicit(&mn->nin[p->index], memory_order_acquire);
    unsigned n = 0;

    for (unsigned i = 0; i < nin; i++)
        n += drain(p, &in[i]);
    return n;
}
