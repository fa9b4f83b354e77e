/*
 * ucx_info.c - what a connected link is: of UCX once, when it is proved; of the devices when somebody
 * wants to know, which may take milliseconds.
 */
#include "transport/ucx.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

static void address_text(const struct sockaddr_storage *a, char *out, size_t out_bytes)
{
    char host[64] = "?", port[16] = "?";

    getnameinfo((const struct sockaddr *)a, sizeof(*a), host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, out_bytes, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

#if VB_UCX_TRANSPORTS
/* What UCX says it uses, beside what was asked for. */
static void transports_add(const struct ucx_rail *r, struct tp_link_info *i)
{
    ucp_transport_entry_t entry[8];
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
                        .transports = { .entries = entry,
                                        .num_entries = VB_ARRAY_LEN(entry),
                                        .entry_size = sizeof(entry[0]) } };

    const char *before = ", by ";

    if (ucp_ep_query(r->conn->ep, &a) != UCS_OK)
        return;
    for (unsigned k = 0; k < a.transports.num_entries; k++) {
        const size_t at = strlen(i->protocol);

        if (entry[k].device_name[0] == '\0')
            continue; /* what made the connection */
        snprintf(i->protocol + at, sizeof(i->protocol) - at, "%s%s/%s", before,
                 entry[k].transport_name, entry[k].device_name);
        before = " ";
    }
}
#else
static void transports_add(const struct ucx_rail *r, struct tp_link_info *i) {}
#endif

void ucx_info_rail(struct ucx_rail *r)
{
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR };

    if (ucp_ep_query(r->conn->ep, &a) != UCS_OK)
        return;
    (void)net_addr_from((const struct sockaddr *)&a.local_sockaddr, &r->local);
    address_text(&a.local_sockaddr, r->name, sizeof(r->name));
}

void ucx_info_fill(struct ucx_link *l, const struct ucx_rail *first)
{
    struct tp_link_info *i = &l->info;
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR };

    i->way = l->un->way;
    snprintf(i->protocol, sizeof(i->protocol),
             l->un->way == TP_TCP && l->nrails == 1
                 ? "eager below %d KiB, in pieces to %d KiB, rendezvous from there"
                 : "eager below %d KiB, rendezvous from there",
             UCX_RNDV_BYTES / 1024, UCX_PIECES_MAX / 1024);
    transports_add(first, i);
    snprintf(i->local, sizeof(i->local), "%s", first->name);
    if (ucp_ep_query(first->conn->ep, &a) == UCS_OK)
        address_text(&a.remote_sockaddr, i->remote, sizeof(i->remote));
}

/* The devices there are, as long as a link is described. */
struct facts {
    struct net_devs devs;
    struct rdma_ports ports;
};

/* The RDMA port of that network device, into the name of its rail; of the first rail also the rest. */
static void port_facts(const struct rdma_port *p, const struct ucx_rail *r, bool first, char *name,
                       struct tp_link_info *out)
{
    struct vb_err why;

    snprintf(name, sizeof(r->name), "%.50s:%u", p->device, p->port);
    if (!first)
        return;
    const int gid = rdma_gid_choose(p->gid, p->ngids, &r->local, &why);

    out->mtu = p->mtu;
    if (gid >= 0)
        inet_ntop(AF_INET6, p->gid[gid].bytes, out->gid, sizeof(out->gid));
}

/* A rail goes by its device, or if that is not known by its address. */
static void rail_facts(const struct facts *f, const struct ucx_rail *r, bool first, char *name,
                       struct tp_link_info *out)
{
    const struct net_dev *d = net_dev_of(&f->devs, &r->local);
    const struct rdma_port *p = d != NULL ? rdma_port_of(&f->ports, d->name) : NULL;

    memcpy(name, r->name, sizeof(r->name));
    if (r->link->un->way == TP_RDMA && p != NULL) {
        port_facts(p, r, first, name, out);
    } else if (r->link->un->way == TP_TCP && d != NULL) {
        memcpy(name, d->name, sizeof(d->name));
        out->mtu = first ? d->mtu : out->mtu;
    }
    if (first && d != NULL)
        memcpy(out->device, name, sizeof(out->device));
}

static void add_rails(const struct ucx_link *l, struct tp_link_info *out)
{
    struct facts f = { 0 };

    if (net_devs_host(&f.devs) != VB_OK ||
        (l->un->way == TP_RDMA && rdma_ports_host(&f.ports) != VB_OK))
        log_debug("no memory to look at the devices");
    for (unsigned i = 0; i < l->nrails; i++) {
        const struct ucx_rail *r = &l->rail[i];

        /* pairs with the release in proved */
        if (atomic_load_explicit(&r->state, memory_order_acquire) != UCX_RAIL_PROVED)
            continue;
        out->rail[out->nrails].sent_bytes =
            atomic_load_explicit(&r->sent_bytes, memory_order_relaxed);
        rail_facts(&f, r, out->nrails == 0, out->rail[out->nrails].name, out);
        out->nrails++;
    }
    net_devs_free(&f.devs);
    rdma_ports_free(&f.ports);
}

void ucx_info(const struct tp_link *base, struct tp_link_info *out)
{
    const struct ucx_link *l = (const struct ucx_link *)base;
    const char *why = atomic_load_explicit(&l->why, memory_order_acquire);

    if (atomic_load_explicit(&l->state, memory_order_acquire) == UCX_LINK_PROVED) {
        *out = l->info;
        add_rails(l, out);
    } else {
        snprintf(out->remote, sizeof(out->remote), "%s", l->rail[0].host);
        snprintf(out->protocol, sizeof(out->protocol), "not connected");
    }
    if (why != NULL)
        snprintf(out->why, sizeof(out->why), "%s", why);
}
