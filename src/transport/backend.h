/*
 * backend.h - what a way of the transport must give. For src/transport only.
 *
 * A back end's private part sits in a struct whose first member is the base. tp.c does what is the
 * same everywhere (checks, regions, ports, waiting, done queues, counters) and calls these slots. A
 * slot that is NULL is said to be optional.
 */
#ifndef TRANSPORT_BACKEND_H
#define TRANSPORT_BACKEND_H

#include "base/ring.h"
#include "transport/tp.h"
#include "transport/wake.h"

#include <assert.h>
#include <stdatomic.h>

struct tp_region {
    void *base;
    uint64_t bytes;
    int fd;
};

struct tp_port {
    struct tp_node *node;
    unsigned index;
    struct tp_port_params cb;
    struct wake wake;                    /* word in the node's shared port page */
    uint64_t usual_wait_ns;              /* how long waits that found something took lately */
    atomic_bool nudged;                  /* tp_wake was called */
    struct tp_op *done_head, *done_tail; /* finished ops whose done has not run yet */
};

struct tp_counts { /* one per channel; written by one thread, read by any */
    _Alignas(64) atomic_uint_fast64_t sent_msgs, sent_bytes, recv_msgs, recv_bytes, copied_bytes;
};

struct tp_backend;

struct tp_link {
    const struct tp_backend *be;
    struct tp_node *node;
    unsigned id; /* index in node->links */
    char peer[64];
    char why[TP_WHY];
    void *user;
    unsigned channels;
    bool initiator;
    unsigned char key[32];
    atomic_bool failed;
    struct tp_counts counts[TP_PORTS_MAX];
};

enum { TP_LINKS_MAX = 1024, TP_NWAYS = 4, TP_WORDS_BYTES = 4096 };
static_assert(TP_PORTS_MAX * sizeof(struct wake_word) <= TP_WORDS_BYTES, "a page holds the words");

struct tp_node {
    char name[64];
    unsigned nports, nregions;
    atomic_uint nlinks; /* grows only; release after the slot is filled */
    uint64_t spin_ns, loop_seed, credit_bytes;
    bool credit_given;
    struct tp_region region[TP_REGIONS_MAX];
    struct tp_port port[TP_PORTS_MAX];
    struct wake_word *words; /* nports words, shared page */
    int words_fd;
    struct tp_link *link[TP_LINKS_MAX];
    void *_Atomic be_node[TP_NWAYS]; /* by enum tp_way; made by node_open at that way's first link,
                                        while ports may be running */
};

enum { TP_WATCH_NONE = -1, TP_WATCH_BUSY = -2 };

struct tp_backend {
    const char *name; /* what --transport takes */

    /* The node's private part for this way (UCX context, threads); once, before its first link. */
    enum vb_st (*node_open)(struct tp_node *n, enum tp_way way, void **be_out);
    /* Takes NULL and half-built. All links of this way are closed before. false: a thread could not be
     * ended and still uses the node; nothing of it may be freed. */
    bool (*node_close)(void *be);

    /* Allocates the private link (base zeroed, filled by tp.c afterwards). */
    enum vb_st (*link_new)(struct tp_node *n, const struct tp_link_params *p,
                           struct tp_link **link_out);
    void (*link_close)(struct tp_link *l); /* takes half-built; frees it */
    enum vb_st (*offer)(struct tp_link *l, struct tp_offer *offer_out);
    enum vb_st (*connect)(struct tp_link *l, const struct tp_offer *peer);
    enum vb_st (*ready)(const struct tp_link *l);
    /* Optional. The link's failed flag has just been set; thread: any. */
    void (*fail)(struct tp_link *l);
    /* Optional, map only: contract in tp.h. */
    enum vb_st (*map)(struct tp_link *l, uint32_t id, uint64_t offset, uint64_t bytes, void *at,
                      const void **out);

    /* Contract of tp_send; arguments are checked, the link is not failed. The back end ends the op by
     * tp_port_done, at once (then it runs in the next progress) or later. */
    enum vb_st (*send)(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op);
    /* Delivers what has arrived for this port over all links of this way; returns callbacks run.
     * waiting: the port does nothing else, so it may do the way's own work as well. */
    unsigned (*progress)(struct tp_port *p, void *be, bool waiting);
    /* Optional. The port is about to sleep: another descriptor that shall wake it; TP_WATCH_NONE;
     * TP_WATCH_BUSY: progress once more before sleeping. */
    int (*watch)(struct tp_port *p, void *be);
    /* Optional: the wait is over, the port turns to other things. */
    void (*leave)(struct tp_port *p, void *be);
    /* Optional: tp_retry_places. */
    void (*retry)(struct tp_port *p, void *be);
    /* Fills what it knows of a zeroed *out; tp.c adds way, rails and why. */
    void (*info)(const struct tp_link *l, struct tp_link_info *out);
};

extern const struct tp_backend tp_map_backend, tp_rdma_backend, tp_tcp_backend, tp_loop_backend;

/* By enum tp_way; NULL: not built in. */
extern const struct tp_backend *const tp_backends[TP_NWAYS];

/* The op is finished: its done runs in the port's next progress. thread: the port's. */
void tp_port_done(struct tp_port *p, struct tp_op *op, enum vb_st st);

/* A message is complete: counts it and runs on_msg. thread: the port's. */
void tp_port_deliver(struct tp_port *p, const struct tp_rx *rx, uint64_t copied_bytes);

/* Zeroed memory for a private link, aligned as struct tp_link wants. gives: free. */
void *tp_link_alloc(size_t bytes);

#endif
