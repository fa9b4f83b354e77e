/*
 * ucx_door.c - who may reach a listener over TCP.
 *
 * UCX trusts the first bytes of a connection to a listener before any message of ours could prove itself:
 * 1.13 ends the process, from a thread of its own, when they announce less than has come. So the kernel
 * drops what does not come from the addresses that links name (tp.h), by a filter on the listening socket;
 * who is dropped sees no answer. Connections inherit the filter, as it is then.
 *
 * UCX does not tell its socket: it is the one of this process that listens at the listener's address.
 */
#include "transport/ucx.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define LOG_MOD "ucx"
#include "base/log.h"

enum { HOSTS_MAX = 256, PER_HOST = 9, DROP = 0, PASS = 0x40000 };

struct program {
    struct sock_filter ins[HOSTS_MAX * PER_HOST + 1];
    unsigned n;
};

static void put(struct program *p, uint16_t code, uint8_t otherwise, uint32_t k)
{
    p->ins[p->n++] = (struct sock_filter){ .code = code, .jf = otherwise, .k = k };
}

/* Passes what this address has sent; goes on where it is another's. A socket has one family. */
static void put_host(struct program *p, const struct net_addr *a)
{
    const unsigned words = a->family == AF_INET ? 1 : 4;
    const uint32_t source = (uint32_t)SKF_NET_OFF + (a->family == AF_INET ? 12 : 8);

    for (unsigned i = 0; i < words; i++) {
        uint32_t word;

        memcpy(&word, a->bytes + 4 * i, sizeof(word));
        put(p, BPF_LD | BPF_W | BPF_ABS, 0, source + 4 * i);
        put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint8_t)(2 * (words - i) - 1), ntohl(word));
    }
    put(p, BPF_RET | BPF_K, 0, PASS);
}

static bool has_host(const struct net_addr *host, unsigned n, const struct net_addr *a)
{
    while (n > 0)
        if (net_addr_same(&host[--n], a))
            return true;
    return false;
}

static bool waits_there(const struct ucx_link *l, const struct ucx_listener *at)
{
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_waits(&l->rail[i]) && l->rail[i].port == at->port &&
            strcmp(l->rail[i].host, at->host) == 0)
            return true;
    return false;
}

/* Who is waited for. false: it may be anybody. */
static bool program_make(const struct ucx_listener *at, struct program *p)
{
    struct net_addr host[HOSTS_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < at->un->nlinks; i++) {
        const struct ucx_link *l = at->un->link[i];

        if (l == NULL || l->base.initiator || !waits_there(l, at))
            continue;
        if (l->ncallers == 0)
            return false;
        for (unsigned k = 0; k < l->ncallers; k++) {
            if (has_host(host, n, &l->caller[k]))
                continue;
            if (n == HOSTS_MAX)
                return false;
            host[n++] = l->caller[k];
        }
    }
    p->n = 0;
    for (unsigned i = 0; i < n; i++)
        put_host(p, &host[i]);
    put(p, BPF_RET | BPF_K, 0, DROP);
    return true;
}

static bool listens_at(int fd, const struct net_addr *host, uint16_t port)
{
    struct sockaddr_storage a;
    socklen_t bytes = sizeof(a), int_bytes = sizeof(int);
    struct net_addr own;
    int listens = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_bytes) == 0 && listens != 0 &&
           getsockname(fd, (struct sockaddr *)&a, &bytes) == 0 &&
           net_addr_from((const struct sockaddr *)&a, &own) && net_addr_same(&own, host) &&
           /* IPv4 and IPv6 keep the port in the same place */
           ntohs(((const struct sockaddr_in *)&a)->sin_port) == port;
}

/* -1: not found. */
static int socket_of(const struct ucx_listener *at)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    struct net_addr host;
    int fd = -1;

    if (dir == NULL)
        return -1;
    while (fd < 0 && net_addr_parse(at->host, &host) && (e = readdir(dir)) != NULL) {
        const int n = e->d_name[0] == '.' ? -1 : (int)strtol(e->d_name, NULL, 10);

        if (n >= 0 && listens_at(n, &host, at->port))
            fd = n;
    }
    closedir(dir);
    return fd;
}

void ucx_door_set(const struct ucx_listener *at)
{
    struct program p;
    const bool few = program_make(at, &p);
    const struct sock_fprog prog = { .len = (unsigned short)p.n, .filter = p.ins };
    const int fd = at->un->way == TP_TCP ? socket_of(at) : -1, zero = 0;

    if (fd < 0)
        return;
    if (few ? setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) != 0
            : setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero)) != 0 &&
                  errno != ENOENT)
        log_debug("anybody may reach %s port %u: %m", at->host, (unsigned)at->port);
}
