/*
 * ucx_pair.h - two nodes joined by ucx, for tests without Criterion: each test runs in a process of
 * its own with a deadline, since UCX keeps threads and state per process.
 */
#ifndef TESTS_TRANSPORT_UCX_PAIR_H
#define TESTS_TRANSPORT_UCX_PAIR_H

#include "transport/tp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MIB = 1 << 20, MESSAGES = 64, SKIP = 77, TEST_S = 60, SRC = 0, DST = 1 };

struct send {
    struct tp_op op;
    unsigned done;
    enum vb_st st;
};

struct end {
    struct tp_node *node;
    struct tp_link *link;
    unsigned char *src, *dst;
    bool later;                                          /* place parks */
    unsigned placed, received, damaged, order[MESSAGES]; /* order: their numbers as they came */
    struct send send[MESSAGES];
};

struct head {
    uint64_t offset, number;
};

static inline unsigned char pattern(uint64_t at)
{
    return (unsigned char)(at * 7 + (at >> 12));
}

static inline void on_msg(void *arg, const struct tp_rx *rx)
{
    struct end *e = arg;
    const struct head *h = rx->hdr;
    const unsigned char *p = rx->payload;

    if (h->number != e->received)
        e->damaged++;
    if (e->received < MESSAGES)
        e->order[e->received] = (unsigned)h->number;
    for (uint64_t i = 0; i < rx->payload_bytes; i += 509)
        if (p[i] != pattern(h->offset + i))
            e->damaged++;
    e->received++;
}

static inline void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                          uint64_t payload_bytes)
{
    struct end *e = arg;
    struct head h;

    if (hdr_bytes != sizeof(h))
        return NULL;
    memcpy(&h, hdr, sizeof(h));
    __atomic_add_fetch(&e->placed, 1, __ATOMIC_RELAXED);
    if (!vb_inside(h.offset, payload_bytes, (uint64_t)MESSAGES * MIB))
        return NULL;
    return e->later ? TP_PLACE_LATER : e->dst + h.offset;
}

static inline void node_open(struct end *e, const char *name)
{
    const uint64_t bytes = (uint64_t)MESSAGES * MIB;
    uint32_t id;

    CHECK(tp_node_open(&(struct tp_node_params){ .name = name, .nports = 1 }, &e->node) == VB_OK);
    CHECK(tp_region_new(e->node, bytes, false, &id) == VB_OK && id == SRC);
    CHECK(tp_region_new(e->node, bytes, false, &id) == VB_OK && id == DST);
    e->src = tp_region_base(e->node, SRC);
    e->dst = tp_region_base(e->node, DST);
    for (uint64_t i = 0; i < bytes; i++)
        e->src[i] = pattern(i);
    tp_port_set(tp_port(e->node, 0),
                &(struct tp_port_params){ .arg = e, .on_msg = on_msg, .place = place });
}

/* host: one address, or two with a blank between: two rails. */
static inline void link_new(struct end *e, const char *peer, bool initiator, const char *host,
                            int key)
{
    char first[64];
    const char *second = strchr(host, ' ');

    snprintf(first, sizeof(first), "%.*s", (int)strcspn(host, " "), host);

    const struct tp_link_params p = { .way = TP_TCP,
                                      .peer = peer,
                                      .channels = 1,
                                      .initiator = initiator,
                                      .rail = { { .host = first },
                                                { .host = second != NULL ? second + 1 : NULL } },
                                      .nrails = second != NULL ? 2 : 1,
                                      .key = { (unsigned char)key, 1 } };

    CHECK(tp_link_new(e->node, &p, &e->link) == VB_OK);
}

static inline void progress(struct end *e, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        tp_wait(tp_port(e[i].node, 0), vb_now_ns() + VB_MS);
}

/* Until the link is ready or has failed. */
static inline enum vb_st settled(struct end *e)
{
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;

    while (tp_link_ready(e->link) == VB_AGAIN && vb_now_ns() < deadline)
        progress(e, 1);
    return tp_link_ready(e->link);
}

static inline void offers_cross(struct end *initiator, struct end *listener)
{
    struct tp_offer a, b;

    CHECK(tp_link_offer(initiator->link, &a) == VB_OK);
    CHECK(tp_link_offer(listener->link, &b) == VB_OK);
    CHECK(tp_link_connect(listener->link, &a) == VB_OK);
    CHECK(tp_link_connect(initiator->link, &b) == VB_OK);
}

static inline void pair_open(struct end *e, const char *host)
{
    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[0], "b", true, host, 7);
    link_new(&e[1], "a", false, host, 7);
    offers_cross(&e[0], &e[1]);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
}

static inline void pair_close(struct end *e)
{
    tp_node_close(e[0].node);
    tp_node_close(e[1].node);
}

static inline void on_done(struct tp_op *op, enum vb_st st)
{
    struct send *s = container_of(op, struct send, op);

    s->done++;
    s->st = st;
}

static inline void send_needed(struct end *e, unsigned i, uint64_t bytes, uint32_t need)
{
    struct send *s = &e->send[i];
    const struct head h = { .offset = (uint64_t)i * MIB, .number = i };

    *s = (struct send){ .op = { .done = on_done,
                                .region = SRC,
                                .offset = h.offset,
                                .bytes = bytes,
                                .need = need,
                                .hdr_bytes = sizeof(h) } };
    memcpy(s->op.hdr, &h, sizeof(h));
    CHECK(tp_send(tp_port(e->node, 0), e->link, 0, &s->op) == VB_OK);
}

static inline void send_start(struct end *e, unsigned i, uint64_t bytes)
{
    send_needed(e, i, bytes, 0);
}

static inline unsigned ended(const struct end *e, enum vb_st st)
{
    unsigned n = 0;

    for (unsigned i = 0; i < MESSAGES; i++) {
        CHECK(e->send[i].done <= 1);
        n += e->send[i].done == 1 && e->send[i].st == st;
    }
    return n;
}

static inline void exchange(struct end *e)
{
    const uint64_t deadline = vb_now_ns() + 40 * VB_SEC;

    for (unsigned i = 0; i < MESSAGES; i++)
        for (unsigned k = 0; k < 2; k++)
            send_start(&e[k], i, i % 8 == 7 ? 100 : MIB);
    while ((e[0].received < MESSAGES || e[1].received < MESSAGES ||
            ended(&e[0], VB_OK) < MESSAGES || ended(&e[1], VB_OK) < MESSAGES) &&
           vb_now_ns() < deadline)
        progress(e, 2);
    for (unsigned k = 0; k < 2; k++)
        CHECK(e[k].received == MESSAGES && e[k].damaged == 0 && ended(&e[k], VB_OK) == MESSAGES);
}

/* An address of this host, of that family, neither loopback nor of one link. */
static inline bool own_address(int family, char out[INET6_ADDRSTRLEN])
{
    struct ifaddrs *all;
    bool found = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        const void *sa = i->ifa_addr;
        const struct sockaddr_in *a4 = sa;
        const struct sockaddr_in6 *a6 = sa;

        if (sa == NULL || i->ifa_addr->sa_family != family || (i->ifa_flags & IFF_LOOPBACK) != 0 ||
            (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a6->sin6_addr)))
            continue;
        found = inet_ntop(family,
                          family == AF_INET ? (const void *)&a4->sin_addr
                                            : (const void *)&a6->sin6_addr,
                          out, INET6_ADDRSTRLEN) != NULL;
    }
    freeifaddrs(all);
    return found;
}

/* Runs a test in a process of its own. */
static inline int test_run(const char *name, int (*run)(void))
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        alarm(TEST_S);
        exit(run());
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    const bool skip = WIFEXITED(status) && WEXITSTATUS(status) == SKIP;

    printf("%s %s\n", status == 0 ? "pass" : skip ? "skip" : "FAIL", name);
    fflush(stdout);
    return status != 0 && !skip;
}

#endif
