/*
 * map.h - private to the map back end: links between processes of one host.
 *
 * Each end makes the memory of its inbound rings and offers it, so that a receiver looks only at
 * memory whose size it chose itself. Layout: one page with a line per channel where the consumer
 * says how far it has read, then TP_CHANNEL_SLOTS slots per channel.
 */
#ifndef TRANSPORT_MAP_H
#define TRANSPORT_MAP_H

#include "transport/backend.h"

enum {
    MAP_TAILS_BYTES = 4096,
    MAP_SLOT_WORDS = 16,
    MAP_SLOT_HDR = 3, /* the word at which the header starts */
    MAP_OFFER_VERSION = 1
};

struct map_tail {
    _Alignas(128) atomic_uint_fast32_t read; /* messages read so far, modulo 2^32 */
};

/*
 * Word 0: sequence number (low half; message i, from 0, carries i + 1), header bytes (16 bits) and
 * region (16 bits); stored last and at once. Words 1 and 2: offset and bytes of the payload. Then
 * the header: 40 bytes of it in the first cache line, so the second is only touched beyond that.
 */
struct map_slot {
    _Alignas(128) atomic_uint_fast64_t word[MAP_SLOT_WORDS];
};
static_assert(sizeof(struct map_slot) == 128, "a slot is two cache lines");
static_assert(TP_PORTS_MAX * sizeof(struct map_tail) <= MAP_TAILS_BYTES,
              "one page holds the tails");
static_assert((TP_CHANNEL_SLOTS & (TP_CHANNEL_SLOTS - 1)) == 0, "sequence numbers wrap");

static inline uint64_t map_rings_bytes(unsigned channels)
{
    return MAP_TAILS_BYTES + (uint64_t)channels * TP_CHANNEL_SLOTS * sizeof(struct map_slot);
}
static inline struct map_tail *map_tail_at(void *rings, unsigned channel)
{
    return (struct map_tail *)rings + channel;
}
static inline struct map_slot *map_slots_at(void *rings, unsigned channel)
{
    return (struct map_slot *)(void *)((char *)rings + MAP_TAILS_BYTES) +
           (size_t)channel * TP_CHANNEL_SLOTS;
}

/* Of an offer's blob. Descriptors in this order: words, one eventfd a port, rings, regions. */
struct map_offer {
    uint8_t version;
    uint8_t nports, channels, nregions;
    uint32_t reserved;                     /* zero */
    uint64_t region_bytes[TP_REGIONS_MAX]; /* zero from nregions on */
};
static_assert(sizeof(struct map_offer) == 136, "map_offer has no hidden padding");
static_assert(sizeof(struct map_offer) <= TP_OFFER_BYTES, "the blob fits");
static_assert(2 + TP_PORTS_MAX + TP_REGIONS_MAX <= (int)TP_OFFER_FDS, "the descriptors fit");

/* Sending end of a channel; the port's thread alone. */
struct map_out {
    _Alignas(64) struct map_slot *slots; /* in the peer's memory */
    struct map_tail *tail;
    uint32_t sent, read_seen;
    struct wake peer;
};

/* Receiving end of a channel; the port's thread alone. */
struct map_in {
    _Alignas(64) struct map_slot *slots; /* in our memory, the peer writes */
    struct map_tail *tail;
    struct map_link *link;
    uint32_t read, channel;
};

/* What a peer's offer became. Written at connect, constant afterwards. */
struct map_peer {
    struct wake_word *words;
    void *rings;
    unsigned nports, nregions;
    int efd[TP_PORTS_MAX];
    struct tp_region region[TP_REGIONS_MAX];
};

struct map_link {
    struct tp_link base;
    void *rings; /* our inbound rings */
    int rings_fd;
    atomic_bool connected;
    struct map_peer peer;
    struct map_out out[TP_PORTS_MAX];
};

struct map_node {
    unsigned room;                   /* entries of each in[port] */
    atomic_uint nin[TP_PORTS_MAX];   /* grows only; release after the entry is filled */
    struct map_in *in[TP_PORTS_MAX]; /* what this port's progress looks at */
};

static inline struct map_link *map_link_of(struct tp_link *l)
{
    return (struct map_link *)(void *)l;
}

/* map_link.c. Forgets a peer, also half made. */
void map_peer_drop(struct map_peer *peer, unsigned channels);

/* map_offer.c */
enum vb_st map_offer(struct tp_link *l, struct tp_offer *offer_out);
enum vb_st map_connect(struct tp_link *l, const struct tp_offer *peer);
enum vb_st map_region(struct tp_link *l, uint32_t id, uint64_t offset, uint64_t bytes, void *at,
                      const void **out);

/* map_ring.c */
enum vb_st map_send(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op);
unsigned map_progress(struct tp_port *p, void *be, bool waiting);

#endif
