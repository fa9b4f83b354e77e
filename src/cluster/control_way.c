/*
 * control_way.c - what this task has for data links: which address of which device, and whether there
 * is RDMA on it.
 */
#include "cluster/control_int.h"

#include "cluster/way.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "cluster"
#include "base/log.h"

/* What RDMA locks: the regions, and its queues. */
static uint64_t locked_bytes(const struct tp_node *n)
{
    uint64_t sum = RDMA_LOCK_MIN;

    for (uint32_t i = 0; i < TP_REGIONS_MAX; i++)
        sum += tp_region_bytes(n, i);
    return sum;
}

enum vb_st way_facts(struct ctl *c)
{
    if (c->p.devs == NULL) {
        if (net_devs_host(&c->own_devs) != VB_OK)
            return VB_NOMEM;
        c->p.devs = &c->own_devs;
    }
    if (c->p.ports == NULL) {
        if (rdma_ports_host(&c->own_ports) != VB_OK)
            return VB_NOMEM;
        c->p.ports = &c->own_ports;
    }
    return VB_OK;
}

static bool picks(const struct ctl *c)
{
    return c->p.pick != NULL && c->p.pick->n > 0;
}

static bool picked(const struct ctl *c, const char *dev, const struct net_addr *addr)
{
    return !picks(c) ||
           net_pick_passes(c->p.pick, c->p.devs, dev, rdma_port_of(c->p.ports, dev), addr);
}

/* How well an address of ours suits a peer whose control connection is from `own` to `peer`; 0: not. */
static int suits(const struct ctl *c, const struct net_if_addr *a, const struct net_addr *own,
                 const struct net_addr *peer)
{
    const struct net_dev *dev = net_dev_find(c->p.devs, a->dev);

    if (dev == NULL || !dev->up || !picked(c, a->dev, &a->addr) ||
        (net_addr_loopback(&a->addr) && !net_addr_loopback(own)))
        return 0;
    const struct rdma_port *port = rdma_port_of(c->p.ports, a->dev);
    /* one that cannot be used at least says why */
    const int rdma = c->p.transport != CL_RDMA || port == NULL ? 0
                     : port->why_not[0] == '\0'                ? 20
                                                               : 10;

    if (net_addr_same(&a->addr, own))
        return rdma + 5;
    if (net_addr_link_local(&a->addr))
        return rdma + 1;
    if (a->addr.family != own->family)
        return rdma + 2;
    return rdma + (net_addr_inside(peer, &a->addr, a->prefix) ? 4 : 3);
}

bool way_host(const struct ctl *c, uint32_t rank, struct way_host *out)
{
    const struct net_devs *devs = c->p.devs;
    char own_text[NET_TEXT], peer_text[NET_TEXT];
    struct net_addr own, peer;
    int most = 0;

    *out = (struct way_host){ 0 };
    net_own_text(c->peer[rank].conn.fd, own_text);
    net_peer_text(c->peer[rank].conn.fd, peer_text);
    if (!net_addr_parse(own_text, &own) || !net_addr_parse(peer_text, &peer))
        return false;
    /* with rdma alone, tasks of one host that meet by loopback have to choose too */
    if (!picks(c) && !(c->p.transport == CL_RDMA && net_addr_loopback(&own))) {
        const struct net_dev *dev =
            net_dev_of(devs, &own); /* NULL: it routes without being listed */

        snprintf(out->host, sizeof(out->host), "%s", own_text);
        snprintf(out->dev, sizeof(out->dev), "%s", dev != NULL ? dev->name : "");
        return true;
    }
    for (size_t i = 0; i < devs->naddrs; i++) {
        const int fits = suits(c, &devs->addr[i], &own, &peer);

        if (fits <= most)
            continue;
        most = fits;
        net_addr_text(&devs->addr[i].addr, out->host);
        memcpy(out->dev, devs->addr[i].dev, sizeof(out->dev));
    }
    return most > 0;
}

/* The device may carry a further rail; a picked one that cannot says why, once a link. */
static bool carries(const struct ctl *c, const struct net_if_addr *a, bool rdma)
{
    const struct net_dev *dev = net_dev_find(c->p.devs, a->dev);
    const struct rdma_port *port = rdma_port_of(c->p.ports, a->dev);
    const char *why = dev == NULL || !dev->up ? "it is down"
                      : !rdma                 ? NULL
                      : port == NULL          ? "there is no RDMA on it"
                      : port->why_not[0] != 0 ? port->why_not
                                              : NULL;

    if (why != NULL)
        log_warn("%s carries no rail: %s", a->dev, why);
    return why == NULL;
}

static bool has_device(const struct ctl *c, char host[TP_RAILS_MAX][NET_TEXT], unsigned n,
                       const char *dev)
{
    struct net_addr a;

    for (unsigned i = 0; i < n; i++) {
        const struct net_dev *d = net_addr_parse(host[i], &a) ? net_dev_of(c->p.devs, &a) : NULL;

        if (d != NULL && strcmp(d->name, dev) == 0)
            return true;
    }
    return false;
}

unsigned way_more_hosts(const struct ctl *c, bool rdma, char host[TP_RAILS_MAX][NET_TEXT])
{
    const struct net_devs *devs = c->p.devs;
    struct net_addr first;
    unsigned n = 1;

    if (!picks(c) || !net_addr_parse(host[0], &first))
        return n;
    for (size_t i = 0; i < devs->naddrs && n < TP_RAILS_MAX; i++) {
        const struct net_if_addr *a = &devs->addr[i];

        if (a->addr.family != first.family || net_addr_link_local(&a->addr) ||
            net_addr_loopback(&a->addr) != net_addr_loopback(&first) ||
            !picked(c, a->dev, &a->addr) || has_device(c, host, n, a->dev) || !carries(c, a, rdma))
            continue;
        net_addr_text(&a->addr, host[n++]);
    }
    return n;
}

void way_from(const struct ctl *c, const char *host, char from[NET_TEXT])
{
    const struct net_devs *devs = c->p.devs;
    struct net_addr peer;

    from[0] = '\0';
    if (!picks(c) || !net_addr_parse(host, &peer))
        return;
    for (size_t i = 0; i < devs->naddrs; i++) {
        const struct net_if_addr *a = &devs->addr[i];
        const struct net_dev *dev = net_dev_find(devs, a->dev);

        if (net_addr_inside(&peer, &a->addr, a->prefix) && picked(c, a->dev, &a->addr) &&
            dev != NULL && dev->up)
            net_addr_text(&a->addr, from);
    }
}

bool way_route_passes(const struct ctl *c, const char *host, struct vb_err *why)
{
    struct net_route route;
    struct net_addr peer;
    struct vb_err text;

    if (!picks(c) || !net_addr_parse(host, &peer) || net_route_to(&peer, &route, &text) != VB_OK ||
        route.self)
        return true; /* the connection itself will tell */
    if (picked(c, route.dev, NULL))
        return true;
    vb_err_set(why, "the route to it is over %s, which --net-devices leaves out", route.dev);
    return false;
}

/* The first RDMA port that can be used, else the first. NULL: there is none. */
static const struct rdma_port *any_port(const struct rdma_ports *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->port[i].why_not[0] == '\0')
            return &p->port[i];
    return p->n > 0 ? p->port : NULL;
}

/* The RDMA port of a network device, or NULL and why there is none. */
static const struct rdma_port *find_port(const struct ctl *c, const char *netdev, char *why)
{
    const struct rdma_port *port = rdma_port_of(c->p.ports, netdev), *any = any_port(c->p.ports);
    const struct net_memlock limit = net_memlock_read();
    struct vb_err memory = { "" };
    char name[CL_NAME_MAX];

    cl_name(c->p.spec, c->p.rank, name);
    if (port == NULL && any != NULL && any->why_not[0] != '\0')
        port = any; /* it may be on its device that nothing is reached */
    if (any == NULL)
        snprintf(why, TP_WHY, "no RDMA device on %s", name);
    else if (port == NULL)
        snprintf(why, TP_WHY,
                 "no RDMA device behind %.20s on %s; there is %.30s:%u, see --net-devices",
                 netdev[0] != '\0' ? netdev : "the address", name, any->device, any->port);
    else if (!net_memlock_fits(&limit, locked_bytes(c->p.node), &memory))
        snprintf(why, TP_WHY, "%s %.*s", name, way_fit(memory.text, 190), memory.text);
    else if (port->why_not[0] != '\0')
        snprintf(why, TP_WHY, "%s, %.30s:%u: %.*s", name, port->device, port->port,
                 way_fit(port->why_not, 150), port->why_not);
    else
        return port;
    return NULL;
}

void way_own(const struct ctl *c, const char *netdev, struct wire_can *out)
{
    const struct rdma_port *port = NULL;

    *out = (struct wire_can){ 0 };
    if (c->p.transport == CL_TCP)
        snprintf(out->why, sizeof(out->why), "--transport tcp");
    else if (c->no_rdma[0] != '\0')
        memcpy(out->why, c->no_rdma, sizeof(out->why));
    else
        port = find_port(c, netdev, out->why);
    if (port == NULL)
        return;
    out->rdma = 1;
    out->mtu = port->mtu;
    snprintf(out->device, sizeof(out->device), "%.40s:%u", port->device, port->port);
}

/* Queues may lock more than anybody can say before. */
const char *way_memory_hint(char *buf, size_t bytes)
{
    const struct net_memlock limit = net_memlock_read();

    buf[0] = '\0';
    if (!limit.ipc_lock && limit.limit_bytes != UINT64_MAX)
        snprintf(buf, bytes, " (only %" PRIu64 " KiB of memory may be locked, see ulimit -l)",
                 limit.limit_bytes >> 10);
    return buf;
}

void way_not_open(struct ctl *c, enum vb_st st)
{
    char name[CL_NAME_MAX], hint[80];

    snprintf(c->no_rdma, sizeof(c->no_rdma), "%s cannot use its RDMA device: %s%s",
             cl_name(c->p.spec, c->p.rank, name), vb_st_str(st),
             way_memory_hint(hint, sizeof(hint)));
}
