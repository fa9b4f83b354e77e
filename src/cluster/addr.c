#include "cluster/addr.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool addr_number(const char *text, uint32_t limit, uint32_t *out)
{
    uint32_t x = 0;

    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || p - text > 8)
            return false;
        x = 10 * x + (uint32_t)(*p - '0');
    }
    *out = x;
    return x <= limit;
}

static bool is_ipv6(const char *host)
{
    char plain[CL_HOST_MAX + 1];
    struct in6_addr a;

    snprintf(plain, sizeof(plain), "%s", host);
    plain[strcspn(plain, "%")] = '\0'; /* a scope such as %eth0 */
    return inet_pton(AF_INET6, plain, &a) == 1;
}

static const char *read_port(const char *text, uint16_t *port_out)
{
    uint32_t port;

    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return "the port is not a number";
    if (!addr_number(text, UINT16_MAX, &port) || port == 0)
        return "the port must be 1 to 65535";
    *port_out = (uint16_t)port;
    return NULL;
}

static const char *read_host(const char *text, size_t n, bool bracketed, struct cl_addr *out)
{
    if (n == 0)
        return "the host is empty";
    if (n > CL_HOST_MAX)
        return "the host is longer than 254 characters";
    memcpy(out->host, text, n);
    out->host[n] = '\0';
    if (bracketed)
        return is_ipv6(out->host) ? NULL : "what stands in brackets is no IPv6 address";
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL)
            return "a host has letters, digits, '.', '-' and '_' only: write host:port";
    return NULL;
}

const char *addr_read(const char *text, struct cl_addr *out)
{
    const bool bracketed = text[0] == '[';
    const char *host = text + bracketed;
    const char *end = strchr(text, bracketed ? ']' : ':');
    const char *why;

    if (bracketed && (end == NULL || end[1] != ':'))
        return "write IPv6 as [fd00::1]:2222";
    if (end == NULL)
        return "the port is missing: write host:port";
    if (!bracketed && strchr(end + 1, ':') != NULL)
        return is_ipv6(text) || isxdigit((unsigned char)text[0]) || text[0] == ':'
                   ? "IPv6 needs brackets: [fd00::1]:2222"
                   : "there is more than one ':': write host:port";
    why = read_host(host, (size_t)(end - host), bracketed, out);
    return why != NULL ? why : read_port(end + 1 + bracketed, &out->port);
}

char *addr_text(const struct cl_addr *a, char *buf)
{
    const bool v6 = strchr(a->host, ':') != NULL;

    snprintf(buf, CL_ADDR_TEXT, "%s%s%s:%u", v6 ? "[" : "", a->host, v6 ? "]" : "", a->port);
    return buf;
}
