/*
 * pair.h - two processes for one case of a measurement: an active side that measures and a passive one that
 * does what it is told, each with a node of one port and a link between them; a socket carries the orders,
 * so that baselines can use the same two processes in turn.
 */
#ifndef PERF_PAIR_H
#define PERF_PAIR_H

#include "transport/tp.h"

#include <stdatomic.h>

struct raw_ucx;
struct raw_verbs;

struct pair_params {
    enum tp_way way;
    const char *host;  /* rdma, tcp: numeric address to use; NULL: 127.0.0.1 */
    uint64_t bytes;    /* of the two regions */
    uint64_t spin_ns;  /* of both nodes */
    int netns[2];      /* tcp: network namespaces of active and passive; 0: this one */
    const char *hosts; /* with them: the passive side's address there */
    bool raw;          /* a raw UCX connection as well */
    bool sockets;      /* and a TCP connection */
    bool verbs;        /* and one of verbs */
};

struct pair_order {
    uint32_t what; /* the measurement's own, from 1 on; 0: end */
    uint32_t zero;
    uint64_t n, bytes;
};

struct pair {
    const struct pair_params *p;
    bool active;
    int fd; /* to the other side */
    struct tp_node *node;
    struct tp_port *port;
    struct tp_link *link;
    unsigned char *src, *dst;
    uint64_t received; /* messages */
    struct tp_op op;   /* of pair_say */
    bool busy;
    atomic_uint *line;       /* two cache lines that both sides share: [0] and [32] */
    struct raw_ucx *raw;     /* NULL: none */
    int tcp;                 /* -1: none */
    struct raw_verbs *verbs; /* NULL: none */
};

/*
 * Runs one case in processes of its own: `measure` in the active one fills result; `serve` in the passive
 * one executes orders. false: it failed (logged).
 */
bool pair_run(const struct pair_params *p, bool (*measure)(struct pair *s, void *result),
              void (*serve)(struct pair *s, const struct pair_order *o), void *result,
              size_t result_bytes);

/* thread: the only one. */
void pair_order(struct pair *s, uint32_t what, uint64_t n, uint64_t bytes);
/* Until so many messages have been received in all. false: 20 s without any. */
bool pair_await(struct pair *s, uint64_t received);
/* Starts a send of a piece of the source region, retrying while the channel is full. The op is the link's
 * until its done. */
bool pair_send(struct pair *s, struct tp_op *op, uint64_t bytes);
/* The same with an op of the pair's own, as soon as that is free. */
bool pair_say(struct pair *s, uint64_t bytes);

#endif
