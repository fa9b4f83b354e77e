/*
 * ucx.h - the ways rdma and tcp, for the ucx_*.c files only. Each has a UCX context of its own, so that
 * what is called rdma cannot be anything less.
 *
 * One communication thread per node and way owns the UCX worker and everything made of it. Ports reach it by
 * rings and it reaches them by rings:
 *   port -> comm   port.sends   ops to send
 *                  port.credits channels whose consumed count the peer should learn
 *                  port.retry   parked payloads are to be asked for again
 *   comm -> port   port.finished ops that have ended
 *                  port.arrived  channels at whose front a message has landed
 * Set-up and closing are commands that their caller waits for.
 *
 * A message is numbered per channel by its sender. The receiver has TP_CHANNEL_SLOTS records per
 * channel. They may land in any order and are delivered in the order of their numbers, except that a
 * parked one is passed over and delivered when it has landed. The sender never has more than
 * TP_CHANNEL_SLOTS messages of a channel that the peer's port has not consumed; the peer says how
 * many it has consumed by credit messages.
 */
#ifndef TRANSPORT_UCX_H
#define TRANSPORT_UCX_H

#include "transport/backend.h"
#include "transport/net_dev.h"

#include "base/clock.h"
#include "base/util.h"

#include <assert.h>
#include <pthread.h>
#include <ucp/api/ucp.h>

enum {
    UCX_AM_TOKEN = 1,
    UCX_AM_MSG = 2,
    UCX_AM_CREDIT = 3,
    UCX_AM_BYE = 4,
    UCX_AM_CHOKE = 5,
    UCX_RNDV_BYTES = 65536,     /* payloads from here on go by rendezvous, over tcp by pieces, */
    UCX_PIECES_MAX = 1 << 20,   /* up to here, */
    UCX_PIECE_BYTES = 60 << 10, /* of this size */
    UCX_KEPT_MAX = 64 << 20,    /* pieces without a place from one link */
    UCX_LISTENERS_MAX = 8,
    UCX_DOORS_MAX = 256, /* listening sockets */
    UCX_POSTS = 512,
    UCX_UNPROVED_MAX = 64, /* beside those that are waited for */
    UCX_CONNS_MAX = 2 * TP_LINKS_MAX + UCX_UNPROVED_MAX,
    UCX_PORT_OPS = TP_PORTS_MAX * TP_CHANNEL_SLOTS, /* ops of one port in flight, at most */
    UCX_PORT_CHANS = TP_PORTS_MAX * TP_LINKS_MAX,
    UCX_CREDIT_EVERY = TP_CHANNEL_SLOTS / 4
};

struct ucx_node;
struct ucx_link;
struct ucx_port;

/* What leaves before the header, little-endian like all we run on. */
struct ucx_prefix {
    uint16_t link; /* the receiver's number of this link */
    uint8_t channel;
    uint8_t hdr_bytes;
    uint32_t seq;           /* counts from 0 in its channel */
    uint64_t payload_bytes; /* of the whole message */
    uint64_t offset;        /* of this piece */
};
static_assert(sizeof(struct ucx_prefix) == sizeof(((struct tp_op *)0)->prefix), "prefix fits");
static_assert(offsetof(struct tp_op, hdr) ==
                  offsetof(struct tp_op, prefix) + sizeof(struct ucx_prefix),
              "prefix and header leave in one piece");

/* An arrived message. The communication thread's, while it is in deliver the port's. */
/* lost: its receive has failed, and the link with it */
enum ucx_rec_state { UCX_REC_PARKED, UCX_REC_LANDING, UCX_REC_LANDED, UCX_REC_LOST };
struct ucx_rec {
    struct ucx_chan *chan;
    struct ucx_rail *rail; /* it came over */
    enum ucx_rec_state state;
    bool rndv, passed; /* passed: its turn in the order is over */
    uint32_t hdr_bytes;
    uint64_t bytes, copied_bytes;
    uint64_t missing; /* bytes of pieces that have not come */
    void *place;
    void *desc;           /* parked: UCX's descriptor of the payload, if it is announced */
    void *kept;           /* a payload that came before it had a place: a copy of our own */
    void *req;            /* landing: UCX's request */
    struct ucx_rec *next; /* parked: in order of arrival; or free */
    _Alignas(8) unsigned char hdr[TP_HDR_MAX];
};

struct ucx_chan {
    struct ucx_link *link;
    struct ucx_port *port;
    unsigned index;
    struct ucx_rec *rec;      /* TP_CHANNEL_SLOTS of them, as of the two below */
    struct ucx_rec **order;   /* arrived but not passed, by number */
    struct ucx_rec **deliver; /* from rx_tail to rx_head: the port's */
    /* the port's */
    _Alignas(64) uint32_t tx_taken; /* messages accepted; they are numbered when they leave */
    bool in_again;
    struct ucx_chan *again;
    atomic_uint rx_tail; /* consumed by the port */
    /* the communication thread's */
    _Alignas(64) atomic_uint tx_credit; /* consumed by the peer's port */
    atomic_uint rx_head;                /* given to the port */
    uint32_t tx_started;
    uint32_t rx_next;      /* the number whose turn it is */
    uint32_t rx_reclaimed; /* of deliver, free again */
    struct ucx_rec *rec_free;
    /* in the port's ring already; set by the producer, cleared by the consumer */
    _Alignas(64) atomic_bool arrived_queued, credit_queued;
};

/* One of a link's connections. Of whoever has the turn; atomic what others read. */
enum ucx_rail_state { UCX_RAIL_WAITING, UCX_RAIL_PROVED, UCX_RAIL_SKIPPED };
struct ucx_rail {
    struct ucx_link *link;
    unsigned index;
    atomic_int state;
    char host[64], from[64]; /* as in tp_rail_params */
    uint16_t port;           /* listening port: ours or the peer's; 0: nobody listens */
    struct ucx_conn *conn;   /* NULL: none */
    struct net_addr local;   /* set, like name, before the state is proved */
    char name[64];           /* the own address */
    void *flush_req;
    atomic_uint_fast64_t sent_bytes;
    /* its speed, from the sends that end */
    uint64_t inside_bytes; /* given to UCX and not ended */
    uint64_t ended_ns;     /* when the last one did */
    double ns_per_byte;
};

enum ucx_conn_state { UCX_CONN_FREE, UCX_CONN_UNPROVED, UCX_CONN_BOUND };
struct ucx_conn {
    struct ucx_node *un;
    struct ucx_rail *rail; /* bound: whose */
    ucp_ep_h ep;
    enum ucx_conn_state state;
    bool broken; /* UCX has reported an error, or the peer broke the protocol */
    const char *why;
    uint64_t deadline_ns; /* unproved: until when */
};

#define UCX_PROVE_NS (5 * VB_SEC) /* how long a connection may take to prove itself */
#define UCX_DOOR_NS (1 * VB_SEC)  /* how long after the proof a link's other connections may come */
enum { UCX_NO_PEER = UINT16_MAX };

enum ucx_link_state { UCX_LINK_NEW, UCX_LINK_WAITING, UCX_LINK_PROVED, UCX_LINK_DOWN };
enum ucx_cmd_what { UCX_CMD_LISTEN, UCX_CMD_CONNECT, UCX_CMD_CLOSE };
struct ucx_cmd {
    enum ucx_cmd_what what;
    enum vb_st st;
    bool done;
    struct ucx_link *next;
    /* close */
    uint64_t deadline_ns; /* of the present stage; 0: not begun */
    bool flushing;
};

struct ucx_link {
    struct tp_link base;
    struct ucx_node *un;
    atomic_int state; /* the communication thread writes */
    atomic_bool fail_asked;
    uint32_t peer_id; /* the peer's number of this link */
    bool leaving;     /* the peer has said bye */
    struct ucx_rail rail[TP_RAILS_MAX];
    unsigned nrails, ncallers;
    struct net_addr caller[TP_CALLERS_MAX]; /* as in tp_link_params */
    uint64_t door_until_ns;                 /* proved: connections may still come until then */
    uint64_t rails_until_ns; /* proved: when rails that still wait are skipped; 0: none does */
    struct ucx_tx *tx;       /* sends inside UCX */
    struct tp_op *waiting;   /* for credit, by need */
    uint64_t
        leaving_bytes;   /* of payloads that leave at once and have not left: what credit is for */
    bool pumping;        /* what waits is being sent */
    unsigned landing;    /* receives inside UCX */
    uint64_t kept_bytes; /* came before they had a place */
    bool choke_said, choked; /* this side said, the peer said: announce what is large first */
    struct ucx_cmd cmd;
    struct tp_link_info info; /* before the state is PROVED */
    const char *_Atomic why;  /* its connection ended; a literal */
    struct ucx_chan chan[TP_PORTS_MAX];
};

/* A send inside UCX. It has its own copy of the header, so that the op is free as soon as the link
 * is given up, whatever UCX still does. */
struct ucx_tx {
    struct tp_op *op; /* NULL: ended already */
    struct ucx_link *link;
    struct ucx_rail *rail;
    struct ucx_port *port;
    uint64_t bytes, begun_ns;   /* for the rail's speed */
    uint64_t left, piece_bytes; /* what UCX has not got yet; 0: it is announced */
    struct ucx_tx *prev, *next;
    void *req;
    uint32_t wire_bytes;
    _Alignas(8) unsigned char wire[sizeof(struct ucx_prefix) + TP_HDR_MAX];
};

struct ucx_port {
    struct tp_port *port;
    struct ucx_node *un;
    struct vb_ring sends, credits, finished, arrived;
    /* the port's */
    _Alignas(64) uint32_t taken;       /* sends accepted */
    uint32_t popped;                   /* of those, seen in finished */
    struct ucx_chan *again;            /* channels left with messages by the last progress */
    atomic_uint_fast64_t off_since_ns; /* when the last wait as driver ended */
    bool found;                        /* since its last sleep as driver it has found something */
    uint64_t off_ns;                   /* how long it is off between two waits, at most */
    atomic_bool retry;
    /* the communication thread's */
    _Alignas(64) atomic_uint returned; /* sends whose ucx_tx is free again */
    bool dirty;                        /* something was put into finished or arrived */
    struct ucx_tx *tx, *tx_free;
    uint32_t tx_used; /* of tx, the first so many have been used */
    struct ucx_rec *parked_head, *parked_tail;
    struct ucx_chan *credit_held; /* no room for its credit message yet */
};

/* A message of our own (token, credit, bye) inside UCX. */
struct ucx_post {
    struct ucx_node *un;
    struct ucx_post *next;
    unsigned char bytes[48];
};

struct ucx_listener {
    struct ucx_node *un;
    char host[64];
    uint16_t port;
    ucp_listener_h h; /* NULL: slot is free */
};

struct ucx_node {
    struct tp_node *node;
    enum tp_way way;
    struct wake_word word;
    struct wake wake; /* the communication thread's */
    pthread_t thread;
    bool started;       /* by the first command of a link */
    bool ipv6;          /* that link's host is */
    unsigned offs_seen; /* the communication thread's */
    uint64_t next_ns;   /* the communication thread's: when control is due again at the latest */
    atomic_bool stop;
    atomic_bool broken;    /* UCX has stopped: nobody goes inside any more */
    atomic_bool attention; /* commands, links that failed, connections that broke */
    atomic_bool open;      /* UCX is there */
    atomic_bool turn;      /* somebody is inside UCX */
    atomic_bool pending;   /* work was left for whoever is */
    atomic_bool wanted;    /* the communication thread has found the turn taken */
    atomic_uint driver;    /* the port that waits and does the work: ucx_turn.c */
    atomic_uint offs;      /* how often the driver was off for a moment */
    atomic_bool watched;   /* the communication thread looks after an off driver */

    pthread_mutex_t lock; /* cmds, opened, ended, open_st; cmd.st and cmd.done of links */
    pthread_cond_t cond;
    struct ucx_link *cmds;
    bool opened, ended;
    enum vb_st open_st;

    /* all below: of whoever has the turn */
    int gate_fd; /* epoll: wake.efd; ucx_fd too while the gate is open */
    atomic_bool gate_open;
    ucp_context_h ctx;
    ucp_worker_h worker;
    int ucx_fd;
    ucp_mem_h mem[TP_REGIONS_MAX];
    struct ucx_listener listener[UCX_LISTENERS_MAX];
    int door[UCX_DOORS_MAX]; /* over tcp, sockets on which UCX listens: data's first */
    unsigned ndoors, ndata;
    bool door_said;
    unsigned nunproved;
    struct ucx_link *closing; /* whose close command runs */
    struct ucx_link *link[TP_LINKS_MAX];
    unsigned nlinks;
    struct ucx_conn conn[UCX_CONNS_MAX];
    unsigned nconns; /* conn slots ever used */
    struct ucx_post post[UCX_POSTS], *posts;
    unsigned nports;
    struct ucx_port port[];
};

/* ucx_conf.c: context, worker and registered regions; from the communication thread. */
VB_MUST_CHECK enum vb_st ucx_open(struct ucx_node *un, bool ipv6);
void ucx_close(struct ucx_node *un); /* takes half-built */

/* ucx_turn.c: who is inside UCX. thread: any. */
/* Does what is due, UCX's own progress too if asked; false: nothing was, or somebody else is inside and
 * does it. */
bool ucx_turn(struct ucx_node *un, bool progress);
/* The same for the communication thread, with what only it does: ucx_control. */
bool ucx_turn_comm(struct ucx_node *un);
/* May the communication thread sleep, and at what? UCX is armed then, or the gate closed, or somebody is inside
 * who wakes it afterwards. */
bool ucx_may_rest(struct ucx_node *un, int *fd, uint64_t *until_ns);
void ucx_turn_first(struct ucx_node *un); /* UCX is open: lets the others in */
void ucx_turn_last(struct ucx_node *un);  /* nobody else comes in any more */
bool ucx_is_driven(const struct ucx_node *un);
unsigned ucx_progress(struct tp_port *p, void *be, bool waiting);
int ucx_watch(struct tp_port *p, void *be);
void ucx_leave(struct tp_port *p, void *be);
/* The communication thread shall look at commands, links and connections. */
void ucx_attend(struct ucx_node *un);

/* ucx_guard.c. Runs what goes inside UCX; `otherwise` is the answer once UCX has stopped (un->broken). thread:
 * whoever has the turn. */
bool ucx_inside(struct ucx_node *un, bool (*what)(struct ucx_node *un), bool otherwise);

/* ucx_node.c */
enum vb_st ucx_node_open(struct tp_node *n, enum tp_way way, void **be_out);
bool ucx_node_close(void *be);
/* Runs the link's command in the communication thread and waits for its end. thread: set-up. */
enum vb_st ucx_cmd(struct ucx_link *l, enum ucx_cmd_what what);
void ucx_cmd_end(struct ucx_link *l, enum vb_st st);
/* The communication thread's part of its turns. false: nothing was due. */
bool ucx_control(struct ucx_node *un);
void ucx_cmds_refuse(struct ucx_node *un); /* instead, once UCX has stopped */
/* A port is told at the end of this round. */
static inline void ucx_tell(struct ucx_port *up)
{
    up->dirty = true;
}

/* ucx_conn.c: endpoints and their proof. thread: whoever has the turn. */
struct ucx_conn *ucx_conn_take(struct ucx_node *un); /* NULL: too many */
VB_MUST_CHECK enum vb_st ucx_conn_open(struct ucx_conn *c, ucp_ep_params_t *p);
void ucx_conn_close(struct ucx_conn *c);
/* The peer broke the protocol, or is gone: the link fails, or does without a rail that was not proved
 * yet. why: a literal. */
void ucx_conn_break(struct ucx_conn *c, const char *why);
bool ucx_token_send(struct ucx_rail *r, struct ucx_conn *c);
ucs_status_t ucx_on_token(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                          const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_bye(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                        const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_choke(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                          const ucp_am_recv_param_t *param);
/* Sends a small message without payload; the bytes are copied. false: no room now. */
bool ucx_post(struct ucx_node *un, ucp_ep_h ep, unsigned am, const void *hdr, size_t hdr_bytes);

/* ucx_listen.c: where connections come from. thread: communication. */
enum vb_st ucx_listen(struct ucx_link *l);
enum vb_st ucx_connect(struct ucx_link *l);
void ucx_listeners_close(struct ucx_node *un);
/* Closes what is broken, not proved in time or not allowed, and listeners without need. Returns when to
 * look again at the latest. */
uint64_t ucx_conns_tend(struct ucx_node *un, uint64_t now);

/* ucx_rail.c: the rails of a link. thread: whoever has the turn. */
static inline bool ucx_rail_lives(const struct ucx_rail *r)
{
    return r->conn != NULL && !r->conn->broken &&
           atomic_load_explicit(&r->state, memory_order_relaxed) == UCX_RAIL_PROVED;
}
static inline bool ucx_rail_waits(const struct ucx_rail *r)
{
    return atomic_load_explicit(&r->state, memory_order_relaxed) == UCX_RAIL_WAITING;
}
/* The rail over which a message with this receiver's number came, of a proved link; or NULL. */
struct ucx_rail *ucx_sender(struct ucx_node *un, unsigned id, const ucp_am_recv_param_t *param);
/* The first that lives; NULL: none. */
struct ucx_rail *ucx_rail_first(struct ucx_link *l);
/* The one on which a payload of so many bytes will have left first; NULL: none lives. */
struct ucx_rail *ucx_rail_for(struct ucx_link *l, uint64_t bytes);
void ucx_rail_begun(struct ucx_tx *tx, struct ucx_rail *r, uint64_t bytes);
void ucx_rail_ended(struct ucx_tx *tx, bool sent);
/* The link does without it. */
void ucx_rail_skip(struct ucx_rail *r, const char *why);
/* false: none is proved or may still be. */
bool ucx_rails_left(const struct ucx_link *l);

/* ucx_door.c: over tcp, who may reach the sockets on which UCX listens. */
/* The TCP sockets of this process that listen now. */
unsigned ucx_door_fds(int fds[UCX_DOORS_MAX]);
/* Those that do and did not are UCX's. Not those of a listener that is closed again: ndoors goes back. */
void ucx_door_add(struct ucx_node *un, const int *before, unsigned nbefore);
/* After the links that wait have changed. */
void ucx_door_set(struct ucx_node *un);

/* ucx_link.c */
void ucx_link_down(struct ucx_link *l);
/* Takes the close command one stage further when that is due. */
void ucx_link_tend(struct ucx_link *l, uint64_t now);

/* ucx_info.c */
void ucx_info_rail(struct ucx_rail *r); /* its name; before it is proved */
void ucx_info_fill(struct ucx_link *l, const struct ucx_rail *first);
void ucx_info(const struct tp_link *l, struct tp_link_info *out);

/* ucx_send.c */
enum vb_st ucx_send(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op);
bool ucx_sends_start(struct ucx_port *up);       /* false: nothing to do */
void ucx_sends_refuse(struct ucx_port *up);      /* instead, once UCX has stopped */
unsigned ucx_finished_take(struct ucx_port *up); /* thread: the port's */
void ucx_sends_give_up(struct ucx_link *l, bool forget);
ucs_status_t ucx_on_credit(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                           const ucp_am_recv_param_t *param);

/* ucx_recv.c */
ucs_status_t ucx_on_msg(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                        const ucp_am_recv_param_t *param);
bool ucx_places_retry(struct ucx_port *up);     /* false: nothing to do */
bool ucx_credits_send(struct ucx_port *up);     /* false: nothing to do */
unsigned ucx_arrived_take(struct ucx_port *up); /* thread: the port's */
void ucx_recvs_give_up(struct ucx_link *l, bool forget);

#endif
