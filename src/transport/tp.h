/*
 * tp.h - bytes between tasks: regions, links, ports, messages, waiting. Knows nothing of tensors or
 * parameter servers.
 *
 * A task has one *node*. Its memory that others may see is in *regions*. Each thread that talks has
 * a *port* and is the only one that uses it. A *link* joins the node to one peer over one way:
 *   map   same host; messages in shared rings, the payload is read in place by the receiver
 *   rdma  other hosts, InfiniBand or RoCE; never anything else
 *   tcp   other hosts, where there is no RDMA
 *   loop  two nodes in one process; can delay, reorder, duplicate and drop by a seed (tests)
 * A link has `channels` channels; channel c joins port c % nports of one end with port c % nports of
 * the other. On one channel messages arrive once and in the order of sending (loop can be told to
 * break that), but where their senders give them a need.
 *
 * A message is a header of at most 64 bytes, kept in the op, and a payload: a piece of one of the
 * sender's regions. Set-up (node, regions, links) is one thread's work and comes first; from then on
 * nothing here allocates, registers, locks or looks up.
 *
 * When may the payload be changed? When the protocol above has the peer's answer to this message. A
 * receiver on `map` looks at the sender's memory itself, so `done` there says only that the op may be
 * used again; on `rdma` and `tcp` it also says that the payload has been read.
 */
#ifndef TRANSPORT_TP_H
#define TRANSPORT_TP_H

#include "verbena/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TP_HDR_MAX = 64,
    TP_REGIONS_MAX = 16,
    TP_PORTS_MAX = 16,
    TP_OFFER_BYTES = 512,
    TP_OFFER_FDS = 40,
    TP_RAILS_MAX = 4,
    TP_CALLERS_MAX = 2,
    TP_WHY = 240,
    TP_CHANNEL_SLOTS = 1024, /* messages in flight on one channel and direction, at most */
    TP_CREDIT_BYTES = 4 << 20,
    TP_CREDIT_MAX = 16 << 20
};

enum tp_way { TP_MAP, TP_RDMA, TP_TCP, TP_LOOP }; /* the best first */

struct tp_node;
struct tp_port;
struct tp_link;

/* One send in flight. The caller owns it, zeroes it once, fills the upper part before each send and
 * leaves it alone until done. */
struct tp_op {
    /* Runs exactly once per accepted send, from tp_progress or tp_wait of the sending port, never
     * from inside tp_send. It marks and queues; it may send. NULL: nobody wants to know. */
    void (*done)(struct tp_op *op, enum vb_st st);
    uint64_t offset, bytes; /* payload: this piece of the region, 0 bytes: none */
    uint32_t region;
    uint32_t hdr_bytes;
    uint32_t need; /* tcp: of what waits for credit the lowest leaves first, of equals the oldest */
    /* 24 bytes of the back end's, directly before the header so that both leave in one piece */
    uint64_t prefix[3];
    _Alignas(8) unsigned char hdr[TP_HDR_MAX];
    /* the back end's */
    struct tp_op *next;
    struct tp_link *link;
    void *request;
    enum vb_st st;
};

/* A message that arrived. Valid during on_msg only, but the payload stays: it is the peer's memory
 * (view) until this side answers, or the place that `place` gave. */
struct tp_rx {
    struct tp_link *link;
    const void *hdr; /* aligned to 8 */
    uint32_t hdr_bytes;
    uint32_t channel;
    const void *payload; /* NULL: none */
    uint64_t payload_bytes;
    bool view; /* payload is the peer's own memory */
};

/* place: park it, ask again at tp_retry_places. Later messages of its channel may overtake it. */
#define TP_PLACE_LATER ((void *)1)

struct tp_port_params {
    void *arg;

    /* thread: the port's, from tp_progress or tp_wait. A message has arrived, payload and all. */
    void (*on_msg)(void *arg, const struct tp_rx *rx);

    /*
     * thread: the back end's own (rdma, tcp: communication thread; loop: the port's). Says where a
     * payload goes that cannot be viewed: payload_bytes of memory inside one of the node's regions
     * or any memory that outlives the link. NULL: such a message is not allowed; the link fails
     * with VB_PROTO. Must check the header against the caller's own tables (sizes from the peer are
     * hostile), must not block, and may read only what does not change or is atomic. NULL slot: no
     * payload is ever accepted by place.
     */
    void *(*place)(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes);
};

struct tp_node_params {
    const char *name; /* task name, for messages; copied */
    unsigned nports;  /* 1..TP_PORTS_MAX */
    uint64_t spin_ns; /* how long a wait spins before it sleeps (wake_spin_ns) */
    /* tcp: bytes of payloads of a link that may be on their way while others wait; what waits can be overtaken by
     * what is needed sooner. What is announced (rdma) waits for its receiver alone. 0: TP_CREDIT_BYTES; at most
     * TP_CREDIT_MAX. */
    uint64_t credit_bytes;
    uint64_t loop_seed; /* loop: 0 delivers in order and at once; else see tp_loop.h */
};

VB_MUST_CHECK enum vb_st tp_node_open(const struct tp_node_params *p, struct tp_node **node_out);
/* After every port's thread has ended. Takes NULL. Ends links, unmaps regions; from then on nothing is
 * received into any place. false: a library's thread could not be ended (logged): whatever place has
 * given must stay too. */
bool tp_node_close(struct tp_node *n);

/*
 * A region: zeroed memory of our own (memfd, sealed against resizing, populated: shortage is VB_NOMEM
 * and a logged line here, never SIGBUS). huge: 2 MiB pages where there are any; the size is a
 * multiple, and so must be any address that a peer maps it at. Ids count from 0 in order of creation.
 * Before the first link. Page-aligned.
 */
VB_MUST_CHECK enum vb_st tp_region_new(struct tp_node *n, uint64_t bytes, bool huge,
                                       uint32_t *id_out);
void *tp_region_base(const struct tp_node *n, uint32_t id);
uint64_t tp_region_bytes(const struct tp_node *n, uint32_t id);

/* Port i of the node; the callbacks must be set before its thread makes progress. */
struct tp_port *tp_port(struct tp_node *n, unsigned i);
void tp_port_set(struct tp_port *p, const struct tp_port_params *params);

/*
 * Links. Both ends make the link, exchange offers over a connection that has said hello, and connect.
 * An offer is a blob and file descriptors. thread: the one that sets up (control), also while ports
 * of other links are running.
 */
struct tp_offer {
    uint32_t bytes, nfds;
    unsigned char blob[TP_OFFER_BYTES];
    int fds[TP_OFFER_FDS]; /* of the offer: closed by tp_offer_close once sent; received ones too */
};
void tp_offer_close(struct tp_offer *o); /* closes the descriptors, empties the offer */

struct tp_link_params {
    enum tp_way way;
    const char *peer;  /* peer's task name; copied */
    void *user;        /* tp_link_user gives it back */
    unsigned channels; /* 1..TP_PORTS_MAX, the same at both ends */
    bool initiator;    /* exactly one end; on rdma and tcp it connects, the other listens */
    /* rdma, tcp: a rail is a connection of its own over a device of its own; rail i of one end meets
     * rail i of the other. host: numeric address, the peer's; listening end: its own. from: initiator:
     * own address to connect from; NULL: the route's. A rail but
     * the first may have no host: it is not used. */
    struct tp_rail_params {
        const char *host, *from;
    } rail[TP_RAILS_MAX];
    unsigned nrails; /* 0: 1 */
    /* tcp: the only addresses that the peer may connect from; NULL: none further. None at all: any address,
     * until the link is up. */
    const char *caller[TP_CALLERS_MAX];
    unsigned char key[32]; /* rdma, tcp: both ends hold it from hello; proves the data connection */
};
VB_MUST_CHECK enum vb_st tp_link_new(struct tp_node *n, const struct tp_link_params *p,
                                     struct tp_link **link_out);
/* gives: tp_offer_close. */
VB_MUST_CHECK enum vb_st tp_link_offer(struct tp_link *l, struct tp_offer *offer_out);
/* Checks the peer's offer as hostile and connects. Takes nothing: descriptors are duplicated. */
VB_MUST_CHECK enum vb_st tp_link_connect(struct tp_link *l, const struct tp_offer *peer);
/* VB_AGAIN: not yet (rdma and tcp connect asynchronously). VB_OK: messages may be sent. thread: any. */
enum vb_st tp_link_ready(const struct tp_link *l);
/* The peer is lost: every op ends with VB_UNREACHABLE at its port's next progress, later sends are
 * refused, all ports wake. thread: any, any number of times. */
void tp_link_fail(struct tp_link *l);
bool tp_link_failed(const struct tp_link *l);
void *tp_link_user(const struct tp_link *l);
enum tp_way tp_link_way(const struct tp_link *l);

/*
 * map only: a part of the peer's region `id`, read-only: where connect has mapped it (NULL; stays until
 * the node closes), or mapped once more at `at`, address space that the caller has reserved: replaced, and
 * the caller's to unmap. `at` and offset are page-aligned (huge regions: to 2 MiB).
 * VB_INVAL: not a connected map link, no such region, or it ends before. thread: set-up.
 */
VB_MUST_CHECK enum vb_st tp_link_map(struct tp_link *l, uint32_t id, uint64_t offset,
                                     uint64_t bytes, void *at, const void **addr_out);

struct tp_link_stats {
    uint64_t sent_msgs, sent_bytes; /* bytes: payload */
    uint64_t recv_msgs, recv_bytes;
    uint64_t copied_bytes; /* of those, how many our own code copied */
};
/* Sums over channels; exact once the ports rest. thread: any. */
struct tp_link_stats tp_link_stats(const struct tp_link *l);

/* What a link is. Text that is not known or that the way has not got is "". */
struct tp_link_info {
    enum tp_way way;
    char device[64];            /* "eth0", "mlx5_0:1" */
    char local[64], remote[64]; /* "10.0.0.1:5000", "[fd00::1]:5000" */
    char gid[48];               /* rdma: "fe80:...", the local one */
    uint32_t mtu;               /* 0: not known */
    char protocol[96];          /* by size of the payload */
    unsigned nrails;
    struct tp_rail {
        char name[64];
        uint64_t sent_bytes; /* payload */
    } rail[TP_RAILS_MAX];
    char why[TP_WHY]; /* why not something faster (tp_link_set_why); of a link that is down: why */
};
/* thread: any. */
void tp_link_info(const struct tp_link *l, struct tp_link_info *out);
/* Once, before the link is ready; copied. */
void tp_link_set_why(struct tp_link *l, const char *why);
/* One line of it: way, device, addresses, protocol. Text into buf. */
void tp_link_describe(const struct tp_link *l, char *buf, size_t buf_bytes);
const char *tp_way_name(enum tp_way way);

/*
 * Starts a send on a channel of the link that belongs to this port. thread: the port's. Never
 * blocks. VB_AGAIN: nothing was started, the ring is full, progress and retry. VB_UNREACHABLE: the
 * link is dead, for good, nothing was started. Any other status is a caller's mistake (VB_INVAL: the
 * piece is not inside the region).
 */
VB_MUST_CHECK enum vb_st tp_send(struct tp_port *p, struct tp_link *l, unsigned channel,
                                 struct tp_op *op);

/* Runs due callbacks, returns how many. 0: idle. Never sleeps. thread: the port's. */
unsigned tp_progress(struct tp_port *p);
/* Progress until at least one callback ran (returns how many), or tp_wake, or the deadline (0).
 * Spins spin_ns, then sleeps. thread: the port's. */
unsigned tp_wait(struct tp_port *p, uint64_t deadline_ns);
/* Makes a tp_wait of that port return. thread: any. */
void tp_wake(struct tp_port *p);
/* Parked payloads of this port are asked for again (TP_PLACE_LATER). thread: the port's. */
void tp_retry_places(struct tp_port *p);

#endif
