#include "transport/net_dev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

struct ask {
    struct nlmsghdr head;
    struct rtmsg route;
    _Alignas(NLMSG_ALIGNTO) unsigned char attr[2 * RTA_SPACE(16)];
};

static void attr_put(struct ask *q, unsigned short type, const void *data, size_t bytes)
{
    struct rtattr *a = (void *)((char *)q + NLMSG_ALIGN(q->head.nlmsg_len));

    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(bytes);
    memcpy(RTA_DATA(a), data, bytes);
    q->head.nlmsg_len = NLMSG_ALIGN(q->head.nlmsg_len) + (unsigned)RTA_SPACE(bytes);
}

static size_t addr_bytes(const struct net_addr *a)
{
    return a->family == AF_INET ? 4 : 16;
}

static struct ask ask_make(const struct net_addr *peer)
{
    struct ask q = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                               .nlmsg_type = RTM_GETROUTE,
                               .nlmsg_flags = NLM_F_REQUEST,
                               .nlmsg_seq = 1 },
                     .route = { .rtm_family = (unsigned char)peer->family } };

    q.route.rtm_dst_len = (unsigned char)(8 * addr_bytes(peer));
    attr_put(&q, RTA_DST, peer->bytes, addr_bytes(peer));
    if (peer->scope != 0)
        attr_put(&q, RTA_OIF, &peer->scope, sizeof(peer->scope));
    return q;
}

/* RTAX_MTU inside RTA_METRICS */
static uint32_t mtu_of(struct rtattr *metrics)
{
    int left = (int)RTA_PAYLOAD(metrics);
    uint32_t mtu = 0;

    for (struct rtattr *a = RTA_DATA(metrics); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == RTAX_MTU && RTA_PAYLOAD(a) == sizeof(mtu))
            memcpy(&mtu, RTA_DATA(a), sizeof(mtu));
    return mtu;
}

static void answer_read(struct nlmsghdr *h, const struct net_addr *peer, struct net_route *out,
                        unsigned char *type_out)
{
    struct rtmsg *r = NLMSG_DATA(h);
    int left = (int)RTM_PAYLOAD(h);
    char name[IF_NAMESIZE];
    uint32_t oif = 0;

    *type_out = r->rtm_type;
    for (struct rtattr *a = RTM_RTA(r); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) == sizeof(oif))
            memcpy(&oif, RTA_DATA(a), sizeof(oif));
        if (a->rta_type == RTA_METRICS)
            out->mtu = mtu_of(a);
        if (a->rta_type == RTA_PREFSRC && RTA_PAYLOAD(a) == addr_bytes(peer)) {
            out->src.family = peer->family;
            memcpy(out->src.bytes, RTA_DATA(a), addr_bytes(peer));
        }
    }
    if (oif != 0 && if_indextoname(oif, name) != NULL)
        snprintf(out->dev, sizeof(out->dev), "%s", name);
    if (net_addr_link_local(&out->src) && peer->family == AF_INET6)
        out->src.scope = oif;
}

/* The kernel's answer: 0 or an errno. */
static int exchange(const struct net_addr *peer, struct net_route *out, unsigned char *type_out)
{
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    const struct timeval limit = { .tv_sec = 2 };
    const struct ask q = ask_make(peer);
    _Alignas(struct nlmsghdr) char buf[4096];

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
        return errno;
    if (send(fd, &q, q.head.nlmsg_len, 0) < 0)
        return errno;
    const ssize_t got = recv(fd, buf, sizeof(buf), 0);
    if (got < 0)
        return errno;
    struct nlmsghdr *h = (void *)buf;
    if (!NLMSG_OK(h, (size_t)got))
        return EBADMSG;
    if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
    if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
        return EBADMSG;
    answer_read(h, peer, out, type_out);
    return 0;
}

enum vb_st net_route_to(const struct net_addr *peer, struct net_route *out, struct vb_err *why)
{
    unsigned char type = RTN_UNICAST;

    *out = (struct net_route){ 0 };
    if (peer->family != AF_INET && peer->family != AF_INET6) {
        vb_err_set(why, "no route: not an IPv4 or IPv6 address");
        return VB_UNREACHABLE;
    }
    const int e = exchange(peer, out, &type);
    if (e == ENETUNREACH || e == EHOSTUNREACH || e == EACCES || e == EINVAL || e == ENODEV) {
        vb_err_set(why, "no route (%s)", strerror(e));
        return VB_UNREACHABLE;
    }
    if (e != 0) {
        vb_err_set(why, "the kernel does not say the route: %s", strerror(e));
        return VB_IO;
    }
    out->self = type == RTN_LOCAL;
    if (type != RTN_LOCAL && type != RTN_UNICAST) {
        vb_err_set(why, "no route to one host (broadcast, multicast or blocked)");
        return VB_UNREACHABLE;
    }
    if (!out->self && net_addr_loopback(&out->src)) {
        vb_err_set(why, "only a route over loopback");
        return VB_UNREACHABLE;
    }
    return VB_OK;
}
