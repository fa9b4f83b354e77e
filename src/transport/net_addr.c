#include "transport/net_dev.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static void unmap(struct net_addr *a)
{
    struct in6_addr in6;

    memcpy(&in6, a->bytes, sizeof(in6));
    if (a->family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6))
        return;
    *a = (struct net_addr){ .family = AF_INET };
    memcpy(a->bytes, &in6.s6_addr[12], 4);
}

bool net_addr_parse(const char *text, struct net_addr *out)
{
    char host[NET_ADDR_TEXT_MAX];
    const char *scope = strchr(text, '%');
    const size_t len = scope != NULL ? (size_t)(scope - text) : strlen(text);

    *out = (struct net_addr){ 0 };
    if (len >= sizeof(host))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    if (inet_pton(AF_INET, host, out->bytes) == 1) {
        out->family = AF_INET;
        return scope == NULL;
    }
    if (inet_pton(AF_INET6, host, out->bytes) != 1)
        return false;
    out->family = AF_INET6;
    if (scope != NULL) {
        out->scope = if_nametoindex(scope + 1);
        return out->scope != 0 && net_addr_link_local(out);
    }
    unmap(out);
    return true;
}

bool net_addr_from(const struct sockaddr *sa, struct net_addr *out)
{
    *out = (struct net_addr){ .family = sa->sa_family };
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;

        memcpy(out->bytes, &in->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)sa;

        memcpy(out->bytes, &in6->sin6_addr, 16);
        if (net_addr_link_local(out))
            out->scope = in6->sin6_scope_id;
        unmap(out);
    } else {
        return false;
    }
    return true;
}

const char *net_addr_text(const struct net_addr *a, char *buf)
{
    char name[IF_NAMESIZE];
    size_t len;

    if (inet_ntop(a->family, a->bytes, buf, NET_ADDR_TEXT_MAX) == NULL)
        snprintf(buf, NET_ADDR_TEXT_MAX, "no address");
    len = strlen(buf);
    if (a->scope != 0 && if_indextoname(a->scope, name) != NULL)
        snprintf(buf + len, NET_ADDR_TEXT_MAX - len, "%%%s", name);
    return buf;
}

bool net_addr_same(const struct net_addr *a, const struct net_addr *b)
{
    return net_addr_inside(a, b, a->family == AF_INET ? 32 : 128);
}

bool net_addr_inside(const struct net_addr *a, const struct net_addr *net, unsigned prefix)
{
    const unsigned whole = prefix / 8, rest = prefix % 8;

    if (a->family != net->family || prefix > (a->family == AF_INET ? 32 : 128))
        return false;
    if (memcmp(a->bytes, net->bytes, whole) != 0)
        return false;
    return rest == 0 || (a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest) == 0;
}

bool net_addr_loopback(const struct net_addr *a)
{
    static const unsigned char one[16] = { [15] = 1 };

    return a->family == AF_INET ? a->bytes[0] == 127
                                : a->family == AF_INET6 && memcmp(a->bytes, one, 16) == 0;
}

bool net_addr_link_local(const struct net_addr *a)
{
    if (a->family == AF_INET)
        return a->bytes[0] == 169 && a->bytes[1] == 254;
    return a->family == AF_INET6 && a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}
