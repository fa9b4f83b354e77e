/*
 * wire.h - frames of control connections (docs/wire.md). Fixed structs, little-endian, checked here
 * completely before anybody looks inside.
 */
#ifndef CLUSTER_WIRE_H
#define CLUSTER_WIRE_H

#include "transport/tp.h"
#include "verbena/status.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structs are little-endian");

enum {
    WIRE_VERSION = 3,
    WIRE_FRAME_MAX = 1024,
    WIRE_TEXT = 256,
    WIRE_REDUCE_MAX = 8,
    WIRE_MISSING_MAX = 16,
    WIRE_SET_WORDS = 16,  /* 1024 workers */
    WIRE_NORM_WORDS = 21, /* of one sum; only who merges them knows what it is */
    WIRE_NORM_SUMS = 10,  /* in a frame */
    WIRE_HOSTS_MAX = 4
};

enum wire_kind {
    WIRE_HELLO = 1, /* hello: nothing else before it succeeds */
    WIRE_CHALLENGE,
    WIRE_PROOF,
    WIRE_WELCOME,
    WIRE_REFUSED,
    WIRE_OFFER = 16, /* data link: from the ps, which chooses its way, then from the worker */
    WIRE_PING,       /* every second, both ways */
    WIRE_READY,      /* to the coordinator: all links of this task are up */
    WIRE_MISSING,    /* from it, until START: who is not in yet */
    WIRE_START,      /* from it: everybody is ready */
    WIRE_REDUCE,     /* worker to the coordinator */
    WIRE_REDUCED,    /* from it to all workers */
    WIRE_FINISHED,   /* worker to every ps: nothing more to send */
    WIRE_END,        /* how the run ended, before the sender closes */
    WIRE_ASK,        /* worker to a ps: offer me a link; this is what I can */
    WIRE_COUNTED,    /* ps to the coordinator: it has all pushes of a worker for a step */
    WIRE_SET,        /* from it to every ps: who makes a step */
    WIRE_NORM,       /* ps to the coordinator: its part of sums over all parameters, for a step */
    WIRE_NORMED,     /* from it to every ps: the whole sums */
    WIRE_KINDS
};

struct wire_hdr {
    uint32_t bytes; /* of the frame, this header included */
    uint8_t version;
    uint8_t kind;
    uint16_t reserved; /* zero */
};
static_assert(sizeof(struct wire_hdr) == 8, "wire_hdr is 8 bytes");

#define WIRE_MAGIC "verbena" /* with its final zero: 8 bytes */
enum { WIRE_NO_AUTH = 1 };   /* flags */

struct wire_hello {
    char magic[8];
    uint32_t flags, from, to; /* ranks */
    uint32_t reserved;
    unsigned char nonce[32], config[32];
};
struct wire_challenge {
    unsigned char nonce[32], config[32], mac[32];
};
struct wire_proof {
    unsigned char mac[32];
};
struct wire_refused {
    uint32_t reason; /* enum hello_reason */
};
struct wire_can {     /* what the sender can do for this link */
    uint32_t rdma;    /* 1: it has a device for it */
    uint32_t mtu;     /* of that device */
    char device[48];  /* as "mlx5_0:1" */
    char why[TP_WHY]; /* rdma 0: why not; in an offer: why its way is not a faster one */
};
struct wire_ask {
    struct wire_can can;
    char from[48]; /* own address of the control connection, where that is TCP; without scope */
};
struct wire_offer {
    uint32_t blob_bytes, nfds; /* the descriptors come with the frame's first byte */
    uint32_t way;              /* enum tp_way */
    uint32_t nhosts;           /* from the ps, over rdma and tcp: where it listens */
    char host[WIRE_HOSTS_MAX][48];
    struct wire_can can;
    unsigned char blob[TP_OFFER_BYTES];
};
struct wire_missing {
    uint32_t total, nranks;
    uint32_t rank[WIRE_MISSING_MAX];
};
struct wire_counted {
    uint64_t clock;
    uint32_t worker, zero; /* index among the workers */
};
struct wire_set {
    uint64_t clock;
    uint64_t bits[WIRE_SET_WORDS]; /* bit w % 64 of word w / 64: worker w */
};
struct wire_norm {
    uint64_t clock;
    uint32_t first, n; /* sums first .. first + n - 1; the rest is zero */
    uint32_t sum[WIRE_NORM_SUMS][WIRE_NORM_WORDS];
};
struct wire_reduce {
    uint32_t tag, n;
    double v[WIRE_REDUCE_MAX];
};
struct wire_end {
    uint32_t code;
    char text[WIRE_TEXT];
};
static_assert(sizeof(struct wire_hello) == 88, "wire_hello");
static_assert(sizeof(struct wire_challenge) == 96, "wire_challenge");
static_assert(sizeof(struct wire_ask) == 344, "wire_ask");
static_assert(sizeof(struct wire_offer) == 1016, "wire_offer");
static_assert(sizeof(struct wire_missing) == 72, "wire_missing");
static_assert(sizeof(struct wire_counted) == 16, "wire_counted");
static_assert(sizeof(struct wire_set) == 136, "wire_set");
static_assert(sizeof(struct wire_norm) == 856, "wire_norm");
static_assert(sizeof(struct wire_reduce) == 72, "wire_reduce");
static_assert(sizeof(struct wire_end) == 260, "wire_end");

/* How many bytes the body of a kind has; -1: no such kind. */
int wire_body_bytes(unsigned kind);

/* Is there a whole frame at the beginning of buf? VB_AGAIN: not yet. VB_PROTO: never. VB_REFUSED:
 * of another version. After VB_OK hdr_out->bytes is right for its kind. */
VB_MUST_CHECK enum vb_st wire_cut(const void *buf, size_t buf_bytes, struct wire_hdr *hdr_out);

/* Writes a frame; buf has room for 8 bytes more than the body. Returns the frame's bytes. */
size_t wire_put(void *buf, enum wire_kind kind, const void *body);

#endif
