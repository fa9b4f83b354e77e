/*
 * ucx_door.c - who may reach the sockets on which UCX listens over TCP.
 *
 * UCX trusts the first bytes of a connection before any message of ours could prove itself. Those to a
 * listener of ours may end the process (1.13: when they announce less than has come); those to the data
 * listener that it has on every device, for as long as it lives and at both ends, may write any memory (a
 * put). So the kernel drops what does not come from the addresses that waiting links name (tp.h), and
 * everything while none waits, by a filter on the listening socket; who is dropped sees no answer.
 * Connections inherit the filter as it is then, and keep it.
 *
 * UCX does not tell its sockets: they are those that listen after it was opened and did not before.
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

/* Connections of a link that has just been proved may still be on their way. */
static bool waits(const struct ucx_link *l, uint64_t now)
{
    if (tp_link_failed(&l->base))
        return false;
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_waits(&l->rail[i]))
            return true;
    return now < l->door_until_ns;
}

/* Who is waited for. false: it may be anybody. */
static bool program_make(const struct ucx_node *un, struct program *p)
{
    const uint64_t now = vb_now_ns();
    struct net_addr host[HOSTS_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < un->nlinks; i++) {
        const struct ucx_link *l = un->link[i];

        if (l == NULL || !waits(l, now))
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

static bool listens(int fd)
{
    struct sockaddr_storage a;
    socklen_t bytes = sizeof(a), int_bytes = sizeof(int);
    int yes = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &int_bytes) == 0 && yes != 0 &&
           getsockname(fd, (struct sockaddr *)&a, &bytes) == 0 &&
           (a.ss_family == AF_INET || a.ss_family == AF_INET6);
}

unsigned ucx_door_fds(int fds[UCX_DOORS_MAX])
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    unsigned n = 0;

    while (dir != NULL && n < UCX_DOORS_MAX && (e = readdir(dir)) != NULL) {
        const int fd = e->d_name[0] == '.' ? -1 : (int)strtol(e->d_name, NULL, 10);

        if (fd >= 0 && listens(fd))
            fds[n++] = fd;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

void ucx_door_add(struct ucx_node *un, const int *before, unsigned nbefore)
{
    int now[UCX_DOORS_MAX];
    const unsigned n = ucx_door_fds(now);

    for (unsigned i = 0; i < n; i++) {
        bool had = false;

        for (unsigned k = 0; k < nbefore; k++)
            had |= before[k] == now[i];
        if (!had && un->ndoors < UCX_DOORS_MAX)
            un->door[un->ndoors++] = now[i];
    }
}

void ucx_door_set(struct ucx_node *un)
{
    struct program p;
    const bool few = program_make(un, &p);
    const struct sock_fprog prog = { .len = (unsigned short)p.n, .filter = p.ins };
    const int zero = 0;

    for (unsigned i = 0; i < un->ndoors; i++) {
        const int fd = un->door[i];

        if (few && setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) == 0)
            continue;
        if (few && !un->door_said) {
            log_warn(
                "anybody on the network may reach UCX's sockets: this kernel takes no filter for "
                "them: %m");
            un->door_said = true;
        }
        /* the one before would drop who has come since */
        if (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero)) != 0 &&
            errno != ENOENT)
            log_debug("cannot open a socket of UCX's to all: %m");
    }
}
