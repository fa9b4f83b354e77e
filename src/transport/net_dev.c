#include "transport/net_dev.h"

#include "transport/net_sysfs.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static void dev_read(const char *sys, const char *name, struct net_dev *d)
{
    const unsigned flags = (unsigned)sysfs_number(sys, "class/net/%s/flags", name);
    char state[32];

    *d = (struct net_dev){ .loopback = (flags & IFF_LOOPBACK) != 0 };
    snprintf(d->name, sizeof(d->name), "%s", name);
    sysfs_text(state, sizeof(state), sys, "class/net/%s/operstate", name);
    /* lo and tunnels do not know their state */
    d->up = (flags & IFF_UP) != 0 && (strcmp(state, "up") == 0 || strcmp(state, "unknown") == 0);
    d->index = (unsigned)sysfs_number(sys, "class/net/%s/ifindex", name);
    d->bridge = sysfs_has(sys, "class/net/%s/bridge", name);
    d->virtual = !sysfs_has(sys, "class/net/%s/device", name);
    d->mtu = (uint32_t)VB_MIN(sysfs_number(sys, "class/net/%s/mtu", name), UINT32_MAX);
    const uint64_t mbit = sysfs_number(sys, "class/net/%s/speed", name); /* -1: unknown */
    d->bits_s = mbit < UINT32_MAX ? mbit * 1000000 : 0;
}

/* A device that /sys does not have, or there is no /sys. */
static void dev_guess(const struct net_if_addr *a, struct net_dev *d)
{
    *d = (struct net_dev){ .up = true, .loopback = net_addr_loopback(&a->addr) };
    snprintf(d->name, sizeof(d->name), "%s", a->dev);
}

enum vb_st net_devs_read(const char *sys, const struct net_if_addr *addr, size_t naddrs,
                         struct net_devs *out)
{
    AUTO_FREE struct sysfs_name *name = NULL;
    size_t n = 0;

    *out = (struct net_devs){ 0 };
    if (!sysfs_list(&name, &n, NET_DEVS_MAX, sys, "class/net"))
        return VB_NOMEM;
    out->dev = calloc(n + naddrs + 1, sizeof(*out->dev));
    out->addr = calloc(naddrs + 1, sizeof(*out->addr));
    if (out->dev == NULL || out->addr == NULL) {
        net_devs_free(out);
        return VB_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (sysfs_has(sys, "class/net/%s/flags", name[i].text)) /* not bonding_masters */
            dev_read(sys, name[i].text, &out->dev[out->n++]);
    }
    for (size_t i = 0; i < naddrs; i++) {
        out->addr[out->naddrs++] = addr[i];
        if (net_dev_find(out, addr[i].dev) == NULL)
            dev_guess(&addr[i], &out->dev[out->n++]);
    }
    return VB_OK;
}

static unsigned prefix_of(const struct sockaddr *mask)
{
    struct net_addr m;
    unsigned bits = 0;

    if (mask == NULL || !net_addr_from(mask, &m))
        return 0;
    for (size_t i = 0; i < sizeof(m.bytes); i++)
        bits += (unsigned)__builtin_popcount(m.bytes[i]);
    return bits;
}

/* VB_NOMEM. gives: free. */
static enum vb_st addrs_read(struct net_if_addr **out, size_t *n_out)
{
    struct ifaddrs *all, *i;
    size_t room = 0;

    *out = NULL;
    *n_out = 0;
    if (getifaddrs(&all) != 0)
        return VB_NOMEM;
    for (i = all; i != NULL; i = i->ifa_next)
        room++;
    *out = calloc(room + 1, sizeof(**out));
    for (i = all; i != NULL && *out != NULL; i = i->ifa_next) {
        struct net_if_addr *a = &(*out)[*n_out];

        if (i->ifa_addr == NULL || !net_addr_from(i->ifa_addr, &a->addr))
            continue;
        snprintf(a->dev, sizeof(a->dev), "%s", i->ifa_name);
        a->prefix = prefix_of(i->ifa_netmask);
        ++*n_out;
    }
    freeifaddrs(all);
    return *out != NULL ? VB_OK : VB_NOMEM;
}

/* A /sys that was mounted in another network namespace still shows that one's devices. */
static void foreign_drop(struct net_devs *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n; i++) {
        const unsigned index = if_nametoindex(d->dev[i].name);

        if (index != 0 && (d->dev[i].index == 0 || d->dev[i].index == index))
            d->dev[n++] = d->dev[i];
    }
    d->foreign = n < d->n;
    d->n = n;
}

enum vb_st net_devs_host(struct net_devs *out)
{
    AUTO_FREE struct net_if_addr *addr = NULL;
    size_t naddrs;

    *out = (struct net_devs){ 0 };
    enum vb_st st = addrs_read(&addr, &naddrs);
    if (st == VB_OK)
        st = net_devs_read("/sys", addr, naddrs, out);
    if (st == VB_OK)
        foreign_drop(out);
    return st;
}

void net_devs_free(struct net_devs *d)
{
    free(d->dev);
    free(d->addr);
    *d = (struct net_devs){ 0 };
}

const struct net_dev *net_dev_find(const struct net_devs *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->dev[i].name, name) == 0)
            return &d->dev[i];
    return NULL;
}

const struct net_dev *net_dev_of(const struct net_devs *d, const struct net_addr *a)
{
    for (size_t i = 0; i < d->naddrs; i++)
        if (net_addr_same(&d->addr[i].addr, a) &&
            (a->scope == 0 || d->addr[i].addr.scope == a->scope))
            return net_dev_find(d, d->addr[i].dev);
    return NULL;
}
