#include "cmd/doctor.h"

#include <stdio.h>
#include <string.h>

static void bits_text(uint64_t bits_s, char *buf, size_t bytes)
{
    buf[0] = '\0';
    if (bits_s >= 1000000000)
        snprintf(buf, bytes, ", %.4g Gb/s", (double)bits_s / 1e9);
    else if (bits_s > 0)
        snprintf(buf, bytes, ", %.4g Mb/s", (double)bits_s / 1e6);
}

static void addrs_text(const struct net_devs *devs, const char *dev, char *buf, size_t bytes)
{
    char text[NET_ADDR_TEXT_MAX];
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < devs->naddrs && used < bytes; i++)
        if (strcmp(devs->addr[i].dev, dev) == 0)
            used +=
                (size_t)snprintf(buf + used, bytes - used, ", %s/%u",
                                 net_addr_text(&devs->addr[i].addr, text), devs->addr[i].prefix);
}

static void look_devices(struct doctor *d)
{
    char speed[32], addrs[256];
    unsigned nup = 0;

    for (size_t i = 0; i < d->devs.n; i++) {
        const struct net_dev *v = &d->devs.dev[i];

        addrs_text(&d->devs, v->name, addrs, sizeof(addrs));
        if (v->loopback || (!v->up && addrs[0] == '\0'))
            continue;
        bits_text(v->bits_s, speed, sizeof(speed));
        nup += v->up;
        doc_say(d, v->up ? DOC_OK : DOC_WARN, "device",
                v->up ? "" : "ip link set it up, then look at the cable", "%s: %s, MTU %u%s%s%s%s",
                v->name, v->up ? "up" : "down", v->mtu, speed, addrs, v->bridge ? ", a bridge" : "",
                net_pick_passes(&d->pick, &d->devs, v->name, rdma_port_of(&d->ports, v->name), NULL)
                    ? ""
                    : ", left out by --net-devices");
    }
    if (nup == 0)
        doc_say(d, d->npeers > 0 ? DOC_FAIL : DOC_WARN, "device",
                "ip link set DEVICE up; give the container a network",
                "no network device but loopback is up: only tasks of this host reach each other");
}

static void look_pick(struct doctor *d)
{
    struct vb_err why;

    if (d->pick.n > 0 && net_pick_check(&d->pick, &d->devs, &d->ports, &why) != VB_OK)
        doc_say(d, DOC_FAIL, "device", "", "--net-devices: %.450s", why.text);
}

/* why_not is the reason and, after this, what to do. */
static void split(const char *why_not, char *text, size_t bytes, const char **fix_out)
{
    static const char *const mark[] = { ", fix: ", "; " };
    const char *at = NULL;
    size_t i = 0;

    while (i < VB_ARRAY_LEN(mark) && (at = strstr(why_not, mark[i])) == NULL)
        i++;
    *fix_out = at != NULL ? at + strlen(mark[i]) : "";
    snprintf(text, bytes, "%.*s", at != NULL ? (int)(at - why_not) : (int)strlen(why_not), why_not);
}

static void look_gids(struct doctor *d, const struct rdma_port *p)
{
    static const char *const kinds[] = { "InfiniBand", "RoCE v1", "RoCE v2" };
    const int chosen = rdma_gid_choose(p->gid, p->ngids, NULL, NULL);
    char text[NET_ADDR_TEXT_MAX];

    for (size_t i = 0; i < p->ngids; i++) {
        const struct rdma_gid *g = &p->gid[i];
        const struct net_addr a = rdma_gid_addr(g);

        doc_say(d, DOC_OK, "gid", "", "%s:%u index %u: %s, %s%s%s%s", p->device, p->port, g->index,
                net_addr_text(&a, text), kinds[g->kind], g->netdev[0] != '\0' ? ", " : "",
                g->netdev, (int)i == chosen ? ", the one to use" : "");
    }
}

static void look_mtu(struct doctor *d, const struct rdma_port *p)
{
    const char *active = rdma_mtu_name(rdma_mtu_enum(p->mtu));
    char fix[160] = "";

    if (p->mtu == 0)
        return;
    if (p->mtu < p->mtu_max && p->netdev[0] != '\0' && !p->ib)
        snprintf(fix, sizeof(fix), "ip link set %s mtu 9000 on all hosts and on the switch",
                 p->netdev);
    doc_say(d, fix[0] != '\0' ? DOC_WARN : DOC_OK, "mtu", fix,
            "%s:%u packets carry %s%s%s; the lesser of both ends is used", p->device, p->port,
            active, fix[0] != '\0' ? " of at most " : "",
            fix[0] != '\0' ? rdma_mtu_name(rdma_mtu_enum(p->mtu_max)) : "");
}

static bool look_port(struct doctor *d, const struct rdma_port *p)
{
    char speed[32], text[256];
    const char *fix;

    bits_text(p->bits_s, speed, sizeof(speed));
    if (!net_pick_passes(&d->pick, &d->devs, NULL, p, NULL)) {
        doc_say(d, DOC_OK, "rdma", "", "%s:%u is left out by --net-devices", p->device, p->port);
        return false;
    }
    if (p->why_not[0] == '\0') {
        doc_say(d, DOC_OK, "rdma", "", "%s:%u can be used: %s%s%s%s, messages to %llu MiB",
                p->device, p->port, p->ib ? "InfiniBand" : "RoCE", speed,
                p->netdev[0] != '\0' ? ", " : "", p->netdev,
                (unsigned long long)(p->max_msg_bytes >> 20));
    } else {
        split(p->why_not, text, sizeof(text), &fix);
        doc_say(d, DOC_WARN, "rdma", fix, "%s:%u cannot be used: %s", p->device, p->port, text);
    }
    look_gids(d, p);
    look_mtu(d, p);
    return p->why_not[0] == '\0';
}

static void look_rdma(struct doctor *d)
{
    const char *fix = "give this host or container an RDMA device (/dev/infiniband)";
    bool usable = false;

    for (size_t i = 0; i < d->ports.n; i++)
        usable |= look_port(d, &d->ports.port[i]);
    if (usable)
        return;
    if (d->ports.n > 0)
        fix = "see the lines above";
    d->no_fabric = d->require_rdma;
    if (d->require_rdma)
        doc_say(d, DOC_FAIL, "rdma", fix, "--require-rdma: no RDMA device %s",
                d->ports.n > 0 ? "can be used" : "here");
    else if (d->ports.n == 0)
        doc_say(d, DOC_OK, "rdma", "", "no RDMA device: links to other hosts use TCP");
}

static void look_ucx(struct doctor *d)
{
    const char *fix = "install UCX with its modules (Debian: libucx0)";
    struct net_ucx u;
    bool need = false;

    for (size_t i = 0; i < d->ports.n; i++)
        need |= d->ports.port[i].why_not[0] == '\0';
    if (!net_ucx_read(&u))
        doc_say(d, DOC_FAIL, "ucx", fix, "UCX %s does not list its transports", u.version);
    else if (!u.tcp)
        doc_say(d, d->npeers > 0 ? DOC_FAIL : DOC_WARN, "ucx",
                "give it a network device that is up", "UCX %s has no tcp here, only: %s",
                u.version, u.transports);
    else if (need && (!u.rc || !u.rdmacm))
        doc_say(d, DOC_WARN, "ucx", fix, "UCX %s cannot use the RDMA device (no %s): %s", u.version,
                u.rdmacm ? "rc" : "rdmacm", u.transports);
    else
        doc_say(d, DOC_OK, "ucx", "", "UCX %s: %s%s", u.version, u.transports,
                u.rdmacm ? "; connects RDMA" : "");
}

void doc_net(struct doctor *d)
{
    look_pick(d);
    look_devices(d);
    look_rdma(d);
    look_ucx(d);
}
