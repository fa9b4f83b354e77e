#include "cluster/way.h"

#include <ctype.h>
#include <string.h>

#include "base/util.h"

/* A text from a peer. false: it has no end. */
static bool clean(char *text, size_t room)
{
    if (memchr(text, '\0', room) == NULL)
        return false;
    for (; *text != '\0'; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
    return true;
}

enum vb_st way_can_check(struct wire_can *can)
{
    return can->rdma <= 1 && can->mtu <= 1 << 20 && clean(can->device, sizeof(can->device)) &&
                   clean(can->why, sizeof(can->why))
               ? VB_OK
               : VB_PROTO;
}

enum vb_st way_ask_check(struct wire_ask *m)
{
    return clean(m->from, sizeof(m->from)) ? way_can_check(&m->can) : VB_PROTO;
}

enum vb_st way_offer_check(struct wire_offer *m, bool from_ps)
{
    const bool hosts = from_ps && (m->way == TP_RDMA || m->way == TP_TCP);

    if (m->way > TP_TCP || m->nhosts > WIRE_HOSTS_MAX || (m->nhosts > 0) != hosts)
        return VB_PROTO;
    for (uint32_t i = 0; i < m->nhosts; i++)
        if (!clean(m->host[i], sizeof(m->host[i])))
            return VB_PROTO;
    return way_can_check(&m->can);
}

/* Could one host have it? Neither "any" nor many. */
static bool is_of_one(const struct net_addr *a)
{
    static const unsigned char zero[16];
    const unsigned first = a->bytes[0];

    if (a->family == AF_INET)
        return first != 0 && first < 224;
    return first != 0xff && memcmp(a->bytes, zero, sizeof(zero)) != 0;
}

const char *way_host_check(const char *host, const char *control, const struct net_devs *own)
{
    struct net_addr a, c;
    const bool here =
        net_addr_parse(control, &c) && (net_addr_loopback(&c) || net_dev_of(own, &c) != NULL);

    if (!net_addr_parse(host, &a))
        return "which is no numeric address";
    if (!is_of_one(&a))
        return "which is no address of one host";
    if (here)
        return NULL;
    if (net_addr_loopback(&a))
        return "which no other host reaches";
    if (net_dev_of(own, &a) != NULL)
        return "which is an address of this host too";
    return NULL;
}

const char *way_scoped(const char *host, const char *control)
{
    const size_t n = strcspn(host, "%"), m = strcspn(control, "%");

    return n == m && memcmp(host, control, n) == 0 ? control : host;
}

int way_fit(const char *why, size_t room)
{
    const char *semicolon = strstr(why, "; "), *fix = strstr(why, ", fix: ");
    const char *advice = fix == NULL || (semicolon != NULL && semicolon < fix) ? semicolon : fix;
    size_t n = strlen(why);

    if (n > room && advice != NULL)
        n = (size_t)(advice - why);
    return (int)VB_MIN(n, room);
}
