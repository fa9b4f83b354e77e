#include "perf/raw_socket.h"

#define LOG_MOD "perf"
#include "base/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static int passive_open(int fd, struct addrinfo *ai)
{
    const int l = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    int tcp = -1;

    if (l >= 0 && bind(l, ai->ai_addr, ai->ai_addrlen) == 0 && listen(l, 1) == 0 &&
        getsockname(l, (struct sockaddr *)&a, &len) == 0 &&
        send(fd, &a, sizeof(a), MSG_NOSIGNAL) == sizeof(a))
        tcp = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    if (l >= 0)
        close(l);
    return tcp;
}

static int active_open(int fd)
{
    struct sockaddr_storage a;
    int tcp;

    if (recv(fd, &a, sizeof(a), MSG_WAITALL) != sizeof(a))
        return -1;
    tcp = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (tcp >= 0 && connect(tcp, (struct sockaddr *)&a,
                            a.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                                   : sizeof(struct sockaddr_in6)) == 0)
        return tcp;
    if (tcp >= 0)
        close(tcp);
    return -1;
}

bool raw_socket_open(int fd, bool active, const char *host, int *tcp_out)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    const int on = 1;
    struct addrinfo *ai;

    if (getaddrinfo(host, "0", &hints, &ai) != 0)
        return false;
    *tcp_out = active ? active_open(fd) : passive_open(fd, ai);
    freeaddrinfo(ai);
    if (*tcp_out < 0) {
        log_error("no plain TCP connection to %s: %m", host);
        return false;
    }
    (void)setsockopt(*tcp_out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return true;
}

bool raw_socket_send(int tcp, const void *buf, uint64_t bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < bytes;) {
            const ssize_t k = send(tcp, (const char *)buf + at, bytes - at, MSG_NOSIGNAL);

            if (k <= 0)
                return false;
            at += (uint64_t)k;
        }
    return true;
}

bool raw_socket_recv(int tcp, void *buf, uint64_t bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < bytes;) {
            const ssize_t k = recv(tcp, (char *)buf + at, bytes - at, 0);

            if (k <= 0)
                return false;
            at += (uint64_t)k;
        }
    return true;
}
