#include "cmd/doctor.h"

#include "base/clock.h"
#include "cluster/addr.h"
#include "cluster/net.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 128 }; /* peers that are asked at the same time */

struct call {
    char name[CL_ADDR_TEXT];
    int fd; /* -1: ended */
};

/* A name's first address that the kernel has a route to. false: said why. */
static bool route_find(struct doctor *d, const struct cl_addr *peer, const char *name,
                       struct net_addr *at, struct net_route *route)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    struct vb_err why = { "it has no address" };
    const int rc = getaddrinfo(peer->host, NULL, &hints, &list);
    bool found = false;

    if (rc != 0) {
        doc_say(d, DOC_FAIL, "route", "look at /etc/hosts and DNS, or use addresses", "%s: %s",
                name, gai_strerror(rc));
        return false;
    }
    for (const struct addrinfo *i = list; i != NULL && !found; i = i->ai_next)
        found = net_addr_from(i->ai_addr, at) && net_route_to(at, route, &why) == VB_OK;
    freeaddrinfo(list);
    if (!found)
        doc_say(d, DOC_FAIL, "route", "ip route add, or use an address of the network both are in",
                "%s: %s", name, why.text);
    return found;
}

static bool several_hosts(const struct doctor *d)
{
    for (size_t i = 1; i < d->npeers; i++)
        if (strcmp(d->peer[i].host, d->peer[0].host) != 0)
            return true;
    return false;
}

static void loopback_say(struct doctor *d, const char *name, const char *addr)
{
    const bool bad = several_hosts(d);

    doc_say(d, bad ? DOC_WARN : DOC_OK, "route",
            bad ? "an address that the others reach, in the cluster and in /etc/hosts" : "",
            "%s: %s is loopback, only tasks of this host reach it", name, addr);
}

static void route_say(struct doctor *d, const char *name, const struct net_addr *at,
                      const struct net_route *r)
{
    const struct net_dev *dev = r->self ? net_dev_of(&d->devs, at) : net_dev_find(&d->devs, r->dev);
    const struct rdma_port *port = rdma_port_of(&d->ports, r->dev);
    char addr[NET_ADDR_TEXT_MAX], src[NET_ADDR_TEXT_MAX];

    net_addr_text(at, addr);
    net_addr_text(&r->src, src);
    if (r->self && net_addr_loopback(at))
        loopback_say(d, name, addr);
    else if (r->self && dev != NULL && dev->bridge)
        doc_say(d, DOC_WARN, "route", "use an address of a network that the hosts share",
                "%s: %s is this host's bridge %s; other hosts may have the same", name, addr,
                dev->name);
    else if (r->self)
        doc_say(d, DOC_OK, "route", "", "%s: %s is this host", name, addr);
    else if (!net_pick_passes(&d->pick, &d->devs, r->dev, port, &r->src))
        doc_say(d, DOC_WARN, "route", "name it, or use an address behind a device that is named",
                "%s: the route to %s is over %s, which --net-devices leaves out", name, addr,
                r->dev);
    else
        doc_say(d, DOC_OK, "route", "", "%s: to %s over %s from %s, MTU %u%s%s", name, addr, r->dev,
                src,
                r->mtu != 0   ? r->mtu
                : dev != NULL ? dev->mtu
                              : 0,
                port != NULL && port->why_not[0] == '\0' ? ", RDMA by " : "",
                port != NULL && port->why_not[0] == '\0' ? port->device : "");
}

static void answer_say(struct doctor *d, struct call *c, int error)
{
    if (error == 0)
        doc_say(d, DOC_OK, "port", "", "%s: somebody listens", c->name);
    else if (error == ECONNREFUSED)
        doc_say(d, DOC_WARN, "port", "start the task there; nothing to do when it is not up yet",
                "%s: reached, nobody listens there yet", c->name);
    else
        doc_say(d, DOC_FAIL, "port", "is the host up? open the port in its firewall", "%s: %s",
                c->name, strerror(error));
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static void call_start(struct doctor *d, const struct cl_addr *peer, struct call *c)
{
    struct cl_addr numeric = *peer;
    char text[NET_ADDR_TEXT_MAX];
    struct net_route route;
    struct net_addr at;
    const char *why;

    c->fd = -1;
    addr_text(peer, c->name);
    if (!route_find(d, peer, c->name, &at, &route))
        return;
    route_say(d, c->name, &at, &route);
    snprintf(numeric.host, sizeof(numeric.host), "%s", net_addr_text(&at, text));
    errno = 0;
    c->fd = net_connect(&numeric, 0, &why);
    if (c->fd < 0)
        answer_say(d, c, errno != 0 ? errno : EHOSTUNREACH);
}

/* Until all have answered or the deadline. */
static void calls_wait(struct doctor *d, struct call *call, size_t n)
{
    const uint64_t deadline = vb_now_ns() + d->timeout_s * VB_SEC;
    struct pollfd p[BATCH];
    size_t left;

    do {
        left = 0;
        for (size_t i = 0; i < n; i++) {
            p[i] = (struct pollfd){ .fd = call[i].fd, .events = POLLOUT }; /* -1 is passed over */
            left += call[i].fd >= 0;
        }
        if (left == 0 || poll(p, n, vb_poll_ms(deadline)) < 0)
            break;
        for (size_t i = 0; i < n; i++)
            if (call[i].fd >= 0 && p[i].revents != 0)
                answer_say(d, &call[i], net_connected(call[i].fd));
    } while (vb_now_ns() < deadline);
    for (size_t i = 0; i < n; i++)
        if (call[i].fd >= 0)
            answer_say(d, &call[i], ETIMEDOUT);
}

void doc_peers(struct doctor *d)
{
    struct call call[BATCH];

    for (size_t first = 0; first < d->npeers; first += BATCH) {
        const size_t n = VB_MIN(d->npeers - first, (size_t)BATCH);

        for (size_t i = 0; i < n; i++)
            call_start(d, &d->peer[first + i], &call[i]);
        calls_wait(d, call, n);
    }
}
