#include "transport/net_dev.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ITEM_TEXT_MAX = 128 };

static enum vb_st bad(struct vb_err *why, const char *item, const char *what)
{
    vb_err_set(
        why,
        "'%.60s' %s; an item is a device (eth0), a port of an RDMA device (mlx5_0:1) or a net "
        "(10.1.0.0/16, fd00::/64), with ^ in front to leave it out",
        item, what);
    return VB_INVAL;
}

/* Decimal without sign, leading zeros or a rest; false: not one, or over max. */
static bool number_parse(const char *text, unsigned max, unsigned *out)
{
    const size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 3 || text[digits] != '\0' || (digits > 1 && text[0] == '0'))
        return false;
    *out = (unsigned)strtoul(text, NULL, 10);
    return *out <= max;
}

static enum vb_st net_parse(char *text, struct net_pick_item *out, struct vb_err *why)
{
    char *slash = strchr(text, '/');

    *slash = '\0';
    const bool ok = strchr(text, '%') == NULL && net_addr_parse(text, &out->net);
    *slash = '/';
    if (!ok)
        return bad(why, text, "is no net");
    if (!number_parse(slash + 1, out->net.family == AF_INET ? 32 : 128, &out->prefix))
        return bad(why, text, "has no prefix that fits");
    return VB_OK;
}

static enum vb_st name_parse(const char *text, struct net_pick_item *out, struct vb_err *why)
{
    const size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "._@+-");
    struct net_addr a;

    if (net_addr_parse(text, &a))
        return bad(why, text, "is an address, a net needs its prefix too (/32 or /128 for one)");
    if (len == 0 || len >= sizeof(out->name) || (text[len] != '\0' && text[len] != ':'))
        return bad(why, text, "is no name of a device");
    memcpy(out->name, text, len);
    if (text[len] == '\0')
        return VB_OK;
    if (!number_parse(text + len + 1, 255, &out->port) || out->port == 0)
        return bad(why, text, "has no port from 1 to 255");
    return VB_OK;
}

static enum vb_st item_parse(const char *text, size_t len, struct net_pick *out, struct vb_err *why)
{
    struct net_pick_item *item = &out->item[out->n];
    char buf[ITEM_TEXT_MAX], *at = buf;

    if (len >= sizeof(buf))
        return bad(why, text, "is too long");
    memcpy(buf, text, len);
    buf[len] = '\0';
    if (out->n == NET_PICK_MAX) {
        vb_err_set(why, "more than %d items", NET_PICK_MAX);
        return VB_INVAL;
    }
    *item = (struct net_pick_item){ .exclude = buf[0] == '^' };
    at += item->exclude;
    if (*at == '\0')
        return bad(why, buf, "is an empty item");
    out->n++;
    return strchr(at, '/') != NULL ? net_parse(at, item, why) : name_parse(at, item, why);
}

enum vb_st net_pick_parse(const char *text, struct net_pick *out, struct vb_err *why)
{
    enum vb_st st = VB_OK;

    *out = (struct net_pick){ 0 };
    if (text == NULL || text[0] == '\0')
        return VB_OK;
    for (const char *at = text; at != NULL && st == VB_OK;) {
        const size_t len = strcspn(at, ",");

        st = item_parse(at, len, out, why);
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    return st;
}

static bool item_matches(const struct net_pick_item *item, const struct net_devs *devs,
                         const char *dev, const struct rdma_port *rdma, const struct net_addr *addr)
{
    if (item->name[0] != '\0') {
        if (item->port == 0 && dev != NULL && strcmp(item->name, dev) == 0)
            return true;
        return rdma != NULL && strcmp(item->name, rdma->device) == 0 &&
               (item->port == 0 || item->port == rdma->port);
    }
    if (addr != NULL)
        return net_addr_inside(addr, &item->net, item->prefix);
    for (size_t i = 0; i < devs->naddrs && dev != NULL; i++)
        if (strcmp(devs->addr[i].dev, dev) == 0 &&
            net_addr_inside(&devs->addr[i].addr, &item->net, item->prefix))
            return true;
    return false;
}

bool net_pick_passes(const struct net_pick *p, const struct net_devs *devs, const char *dev,
                     const struct rdma_port *rdma, const struct net_addr *addr)
{
    bool named = false, wanted = false;

    if (dev == NULL && rdma != NULL && rdma->netdev[0] != '\0')
        dev = rdma->netdev;
    for (unsigned i = 0; i < p->n; i++) {
        const bool matches = item_matches(&p->item[i], devs, dev, rdma, addr);

        if (p->item[i].exclude && matches)
            return false;
        named |= !p->item[i].exclude;
        wanted |= !p->item[i].exclude && matches;
    }
    return wanted || !named;
}

static void add(char *buf, size_t bytes, const char *fmt, ...)
{
    const size_t len = strlen(buf);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(buf + len, bytes - len, fmt, ap);
    va_end(ap);
}

/* "eth0 (10.0.0.1, fd00::1), lo (...), mlx5_0:1 (eth0)" */
static void list_all(const struct net_devs *devs, const struct rdma_ports *ports, char *buf,
                     size_t bytes)
{
    char text[NET_ADDR_TEXT_MAX];

    buf[0] = '\0';
    for (size_t i = 0; i < ports->n; i++) {
        const struct rdma_port *p = &ports->port[i];

        add(buf, bytes, "%s%s:%u (%s)", buf[0] != '\0' ? ", " : "", p->device, p->port,
            p->netdev[0] != '\0' ? p->netdev : "no network device");
    }
    for (size_t i = 0; i < devs->n; i++) {
        const char *before = " (";

        add(buf, bytes, "%s%s", buf[0] != '\0' ? ", " : "", devs->dev[i].name);
        for (size_t j = 0; j < devs->naddrs; j++) {
            if (strcmp(devs->addr[j].dev, devs->dev[i].name) != 0)
                continue;
            add(buf, bytes, "%s%s", before, net_addr_text(&devs->addr[j].addr, text));
            before = ", ";
        }
        add(buf, bytes, "%s", before[0] == ',' ? ")" : "");
    }
}

static bool item_is_here(const struct net_pick_item *item, const struct net_devs *devs,
                         const struct rdma_ports *ports)
{
    for (size_t i = 0; i < devs->n; i++)
        if (item_matches(item, devs, devs->dev[i].name, NULL, NULL))
            return true;
    for (size_t i = 0; i < ports->n; i++)
        if (item_matches(item, devs, NULL, &ports->port[i], NULL))
            return true;
    return false;
}

static void item_text(const struct net_pick_item *item, char *buf, size_t bytes)
{
    char text[NET_ADDR_TEXT_MAX];

    if (item->name[0] == '\0')
        snprintf(buf, bytes, "%s/%u", net_addr_text(&item->net, text), item->prefix);
    else if (item->port != 0)
        snprintf(buf, bytes, "%s:%u", item->name, item->port);
    else
        snprintf(buf, bytes, "%s", item->name);
}

enum vb_st net_pick_check(const struct net_pick *p, const struct net_devs *devs,
                          const struct rdma_ports *ports, struct vb_err *why)
{
    char item[ITEM_TEXT_MAX], all[360];
    bool left = false;

    list_all(devs, ports, all, sizeof(all));
    for (unsigned i = 0; i < p->n; i++) {
        if (p->item[i].exclude || item_is_here(&p->item[i], devs, ports))
            continue;
        item_text(&p->item[i], item, sizeof(item));
        vb_err_set(why, "no %s '%.64s' here; there are %s",
                   p->item[i].name[0] != '\0' ? "device" : "device in the net", item, all);
        return VB_INVAL;
    }
    for (size_t i = 0; i < devs->n && !left; i++)
        left = devs->dev[i].up && net_pick_passes(p, devs, devs->dev[i].name,
                                                  rdma_port_of(ports, devs->dev[i].name), NULL);
    if (left || p->n == 0)
        return VB_OK;
    vb_err_set(why, "leaves no device that is up; there are %s", all);
    return VB_INVAL;
}
