/*
 * control_int.h - the control thread's state, for control*.c only.
 *
 *   control.c       what other threads call; start and stop
 *   control_loop.c  the loop: poll, timers, heartbeats, who is missing, the farewell
 *   control_join.c  connections that have not said hello yet, both roles
 *   control_peer.c  connections that have: messages, the coordinator
 *   control_link.c  the data links between workers and ps: who says what
 *   control_way.c   addresses and devices for them
 */
#ifndef CLUSTER_CONTROL_INT_H
#define CLUSTER_CONTROL_INT_H

#include "cluster/conn.h"
#include "cluster/control.h"
#include "cluster/coord.h"
#include "cluster/hello.h"
#include "cluster/net.h"

#include <pthread.h>
#include <stdatomic.h>

struct pollfd;

enum {
    CTL_PENDING = 64,   /* connections that have not proved who they are */
    CTL_RESULTS = 128,  /* sums kept for ctl_reduced */
    CTL_SOURCES = 64,   /* refused connections that were logged */
    CTL_RETRY_MS = 100, /* between attempts to connect */
    CTL_HELLO_MS = 5000,
    CTL_ANSWER_MS = 30000, /* for the answers of who has accepted the connection */
    CTL_LOOKUP_MS = 50, /* an attempt that took longer asked a name server: peers come first then */
    CTL_OLD_MS = 500,   /* so old a pending connection makes room for a new one */
    CTL_LINK_MS = 2,    /* between looks at a link that comes up */
    CTL_RDMA_MS = 10000,  /* a link by RDMA that is not up by then becomes one by TCP */
    CTL_MISSING_MS = 250, /* between heartbeats until the start; they say who is missing */
    CTL_REPORT_MS = 10000,
    CTL_FAREWELL_MS = 200
};

/* A connection before hello has succeeded. */
struct talk {
    struct conn conn;
    struct hello hello;
    bool connecting; /* TCP, not established yet */
    uint64_t since_ns;
    char from[NET_TEXT]; /* accepted: the other end's address */
};

enum link_step {
    LINK_NONE,
    LINK_ASKED,    /* worker */
    LINK_OFFERED,  /* ps */
    LINK_CONNECTED /* comes up by itself */
};

struct peer {
    bool planned;     /* there is a connection with this task */
    bool linked;      /* and a data link */
    bool in;          /* hello has succeeded */
    bool finished;    /* said FINISHED: its closing is no loss */
    bool ready;       /* the link */
    struct conn conn; /* once in; closed when the peer has left */
    struct talk talk; /* while this side tries to connect */
    unsigned char key[32];
    struct tp_link *link;
    enum link_step step;
    enum tp_way way;     /* of the link */
    uint64_t link_ns;    /* worker: connected since */
    struct wire_can can; /* of this task for the link; why: it is not RDMA */
    /* for data over a network, one for each rail: of the ps, at both ends; at the worker also its own, ""
     * for the first: the route's. A rail without host is not used. */
    char host[TP_RAILS_MAX][NET_TEXT], from[TP_RAILS_MAX][NET_TEXT];
    unsigned nhosts;
    char asked_from[48]; /* the ps: in the worker's ASK */
    uint32_t attempts;   /* by TCP */
    uint64_t try_ns;     /* next attempt */
    uint64_t heard_ns;   /* last sign of life */
    char why[80];        /* why the last attempt failed; static once in */
};

struct refused_source {
    char from[NET_TEXT];
    enum hello_reason reason;
};

struct ctl {
    /* does not change while the thread runs */
    struct ctl_params p;
    struct hello_self self;
    int efd, listen_fd, unix_fd;
    uint32_t ntasks;
    bool is_worker;
    pthread_t thread;

    /* the control thread's */
    struct peer *peer; /* by rank */
    struct talk pending[CTL_PENDING];
    struct pollfd *pfd;
    struct coord coord; /* rank 0 */
    struct net_devs own_devs;
    struct rdma_ports own_ports;
    char lacks[256];      /* the run cannot go on with such links: ends at START */
    char no_rdma[TP_WHY]; /* RDMA could not be opened: not tried again */
    bool told_ready;
    bool left;                   /* FINISHED is said: what others do is no loss to this task */
    struct wire_missing missing; /* from the coordinator */
    struct refused_source source[CTL_SOURCES];
    unsigned nsources;
    uint32_t nsent; /* reductions sent */
    uint64_t start_at_ns, ping_at_ns, report_at_ns;

    /* set once, after `end` is filled, by whoever is first; release pairs with ctl_ended's acquire */
    atomic_bool ended;

    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t cv;
    struct ctl_end end;
    bool started, finish_asked, stop_asked;
    uint32_t ngiven, nresults; /* reductions of this worker, sums that came */
    struct wire_reduce given[COORD_OPEN], result[CTL_RESULTS];
    bool counted_new;
    struct ctl_counted {
        uint64_t clock;
        uint32_t lanes; /* that have all of the worker's pushes for it */
        bool tell;      /* the coordinator */
    } * counted;        /* two for each worker, by clock */
    uint64_t nsets;
    struct wire_set set[2]; /* the last ones, by clock */
    struct ctl_norm_sums {
        uint32_t lanes;         /* that gave their part of the next step's */
        bool tell;              /* all have */
        uint64_t given, normed; /* steps */
        uint32_t arrived;       /* sums of the step `normed` */
        uint32_t (*own)[WIRE_NORM_WORDS], (*out)[WIRE_NORM_WORDS], (*whole)[WIRE_NORM_WORDS];
    } norm;
};

/* May the job's unix socket be used, and with it mapped memory? */
static inline bool ctl_takes_unix(const struct ctl *c)
{
    return c->p.transport == CL_AUTO || c->p.transport == CL_MAP;
}

/* The run ends for this reason unless it already ended. thread: any. */
__attribute__((format(printf, 3, 4))) void ctl_set_end(struct ctl *c, enum vb_exit code,
                                                       const char *fmt, ...);
void *ctl_main(void *arg); /* the thread */

/* "/job:worker/task:3 (host b:2222)" into buf[NET_TASK]; returns buf. */
enum { NET_TASK = CL_NAME_MAX + CL_HOST_MAX + 20 };
char *ctl_task_text(const struct ctl *c, uint32_t rank, char *buf);

/* join: */
/* control.c */
void ctl_wake(struct ctl *c); /* thread: any */

/* control_set.c */
void set_tell(struct ctl *c); /* what lanes have counted */
enum vb_st set_on(struct ctl *c, const struct wire_set *m);

/* control_norm.c */
VB_MUST_CHECK enum vb_st norm_init(struct ctl *c);
void norm_fini(struct ctl *c);
void norm_tell(struct ctl *c); /* what lanes have given */
enum vb_st norm_on(struct ctl *c, const struct wire_norm *m);

void join_accept(struct ctl *c, int listen_fd, bool is_unix);
void join_pending(struct ctl *c, struct talk *t);
void join_try(struct ctl *c, uint32_t rank, uint64_t now); /* starts an attempt */
void join_step(struct ctl *c, uint32_t rank);              /* its socket can be read or written */
void join_expire(struct ctl *c, uint64_t now);             /* closes what took too long */
void talk_close(struct talk *t);
bool talk_is_open(const struct talk *t);

/* peer: */
void peer_comes_in(struct ctl *c, uint32_t rank, struct talk *t);
void peer_step(struct ctl *c, uint32_t rank, short revents);
void peer_send(struct ctl *c, uint32_t rank, enum wire_kind kind, const void *body);
void peer_send_all(struct ctl *c, enum wire_kind kind, const void *body);
bool peer_is_up(const struct peer *p);
void peer_lost(struct ctl *c, uint32_t rank, const char *why);
void peer_flush(struct peer *p);
void peer_commands(struct ctl *c); /* what other threads asked for */
void peer_coord(struct ctl *c);    /* tells what the coordinator has to say */

/* link: */
void link_ask(struct ctl *c, uint32_t rank); /* worker: the ps has come in */
/* An ASK or an OFFER stands at the front of its connection. VB_PROTO: it makes no sense now. */
VB_MUST_CHECK enum vb_st link_on_ask(struct ctl *c, uint32_t rank);
VB_MUST_CHECK enum vb_st link_on_offer(struct ctl *c, uint32_t rank);
void link_failed(struct ctl *c, uint32_t rank, enum vb_st st); /* the run ends */
/* Tells the coordinator once all links are up. true: look again soon. */
bool links_poll(struct ctl *c);

/* way: */
VB_MUST_CHECK enum vb_st way_facts(struct ctl *c); /* reads devices once; before the rest */
struct way_host {
    char host[NET_TEXT];    /* our address for data with that peer */
    char dev[NET_NAME_MAX]; /* "": no device has it */
};
/* false: none is allowed. */
VB_MUST_CHECK bool way_host(const struct ctl *c, uint32_t rank, struct way_host *out);
/* Would data to the peer's address leave by an allowed device? */
/* With --net-devices: addresses of other devices for further rails beside host[0]. Returns how many there are
 * then, host[0] included. */
unsigned way_more_hosts(const struct ctl *c, bool rdma, char host[TP_RAILS_MAX][NET_TEXT]);
/* With --net-devices: our address in the network of a peer's, "" if there is none. */
void way_from(const struct ctl *c, const char *host, char from[NET_TEXT]);
VB_MUST_CHECK bool way_route_passes(const struct ctl *c, const char *host, struct vb_err *why);
/* What this task can do over that device. */
void way_own(const struct ctl *c, const char *netdev, struct wire_can *out);
const char *way_memory_hint(char *buf, size_t bytes); /* " (only so much may be locked)" or "" */
void way_not_open(struct ctl *c, enum vb_st st);      /* fills no_rdma */

#endif
