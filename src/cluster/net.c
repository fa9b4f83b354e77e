#include "cluster/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define LOG_MOD "cluster"
#include "base/log.h"

enum { BACKLOG = 1024 };

/* Sets *why. Numeric addresses never ask a name server. */
static struct addrinfo *look_up(const struct cl_addr *a, const char **why)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
    struct addrinfo *list = NULL;
    char port[8];

    snprintf(port, sizeof(port), "%u", a->port);
    int rc = getaddrinfo(a->host, port, &hints, &list);

    if (rc != 0) {
        hints.ai_flags = 0;
        rc = getaddrinfo(a->host, port, &hints, &list);
    }
    *why = rc != 0 ? gai_strerror(rc) : NULL;
    return rc == 0 ? list : NULL;
}

static int open_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int listen_one(const struct addrinfo *ai)
{
    const int fd = open_socket(ai->ai_family), on = 1;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int saved = errno;

    close(fd);
    errno = saved;
    return -1;
}

int net_listen(const struct cl_addr *a, const char *who)
{
    const char *why;
    struct addrinfo *list = look_up(a, &why);
    int fd = -1;

    for (struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next)
        fd = listen_one(ai);
    if (fd < 0)
        log_error("cannot listen on %s port %u, the address of %s: %s", a->host, a->port, who,
                  why != NULL ? why : strerror(errno));
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

static socklen_t unix_address(const char *name, struct sockaddr_un *out)
{
    const size_t n = strlen(name);

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->sun_path + 1, name, n); /* a first zero: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

int net_listen_unix(const char *name, const char *who)
{
    struct sockaddr_un a;
    const socklen_t bytes = unix_address(name, &a);
    const int fd = open_socket(AF_UNIX);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    if (errno == EADDRINUSE) /* the name is made of secret and address: nobody else's */
        log_error("%s of this cluster already runs on this host", who);
    else
        log_error("cannot listen on the job's unix socket %s: %s", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int start_connect(int fd, const struct sockaddr *a, socklen_t bytes)
{
    if (fd < 0 || connect(fd, a, bytes) == 0 || errno == EINPROGRESS)
        return fd;
    const int saved = errno;

    close(fd);
    errno = saved;
    return -1;
}

int net_connect(const struct cl_addr *a, uint32_t attempt, const char **why)
{
    struct addrinfo *list = look_up(a, why), *ai = list;
    uint32_t n = 0;
    int fd = -1;

    for (const struct addrinfo *p = list; p != NULL; p = p->ai_next)
        n++;
    for (uint32_t i = 0; i < (n > 0 ? attempt % n : 0); i++)
        ai = ai->ai_next;
    if (ai != NULL)
        fd = start_connect(open_socket(ai->ai_family), ai->ai_addr, ai->ai_addrlen);
    if (fd < 0 && *why == NULL)
        *why = strerror(errno);
    if (list != NULL)
        freeaddrinfo(list);
    return fd;
}

int net_connect_unix(const char *name)
{
    struct sockaddr_un a;
    const socklen_t bytes = unix_address(name, &a);

    return start_connect(open_socket(AF_UNIX), (struct sockaddr *)&a, bytes);
}

/* A socket whose own port was drawn equal to the one it asks for connects to itself, and would then
 * keep that port from the task that is still to come. */
static bool is_self(int fd)
{
    struct sockaddr_storage a = { 0 }, b = { 0 };
    socklen_t a_bytes = sizeof(a), b_bytes = sizeof(b);

    return getsockname(fd, (struct sockaddr *)&a, &a_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&b, &b_bytes) == 0 && a_bytes == b_bytes &&
           memcmp(&a, &b, a_bytes) == 0;
}

int net_connected(int fd)
{
    int err = 0;
    socklen_t bytes = sizeof(err);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0)
        return errno;
    return err == 0 && is_self(fd) ? ECONNREFUSED : err;
}

bool net_same_user(int fd)
{
    struct ucred u;
    socklen_t bytes = sizeof(u);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &bytes) == 0 && u.uid == geteuid();
}

static void text_of(const struct sockaddr_storage *a, socklen_t bytes, char *buf)
{
    if (a->ss_family == AF_UNIX ||
        getnameinfo((const struct sockaddr *)a, bytes, buf, NET_TEXT, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(buf, NET_TEXT, "this host");
}

void net_peer_text(int fd, char *buf)
{
    struct sockaddr_storage a = { .ss_family = AF_UNIX };
    socklen_t bytes = sizeof(a);

    if (getpeername(fd, (struct sockaddr *)&a, &bytes) != 0)
        a.ss_family = AF_UNIX;
    text_of(&a, bytes, buf);
}

void net_own_text(int fd, char *buf)
{
    struct sockaddr_storage a = { .ss_family = AF_UNIX };
    socklen_t bytes = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &bytes) != 0)
        a.ss_family = AF_UNIX;
    text_of(&a, bytes, buf);
}
