#include "crew.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "transport/tp.h"

static void must(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    abort();
}

static int listen_anywhere(uint16_t *port_out)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0 && listen(fd, 1024) == 0 &&
             getsockname(fd, (struct sockaddr *)&a, &bytes) == 0,
         "listen");
    *port_out = ntohs(a.sin_port);
    return fd;
}

void crew_open(struct crew *w, uint32_t nps, uint32_t nworkers)
{
    *w = (struct crew){ .ntasks = nps + nworkers, .spec = { .nps = nps, .nworkers = nworkers } };
    w->spec.addr = calloc(w->ntasks, sizeof(*w->spec.addr));
    must(w->spec.addr != NULL && w->ntasks <= CREW_MAX, "crew_open");
    for (uint32_t i = 0; i < w->ntasks; i++) {
        w->listen_fd[i] = listen_anywhere(&w->spec.addr[i].port);
        snprintf(w->spec.addr[i].host, sizeof(w->spec.addr[i].host), "127.0.0.1");
    }
    must(pipe(w->started_fd) == 0 && pipe(w->go_fd) == 0, "pipe");
}

static int run(struct crew *w, uint32_t rank, crew_body body, const struct crew_odd *odd,
               struct ctl_end *end)
{
    struct tp_node *node;
    struct ctl *c;
    uint32_t region;
    uint16_t port;
    char name[CL_NAME_MAX];
    const struct tp_node_params np = { .name = cl_name(&w->spec, rank, name), .nports = 1 };
    struct ctl_params p = { .spec = &w->spec,
                            .rank = rank,
                            .no_auth = w->no_auth,
                            .secret = { 7, odd->secret },
                            .config = { odd->config },
                            .listen_fd =
                                odd->own_socket ? listen_anywhere(&port) : w->listen_fd[rank],
                            .transport = odd->transport,
                            .require_rdma = w->require_rdma,
                            .ports = w->ports,
                            .channels = 1,
                            .start_ns = w->start_ns,
                            .silence_ns = w->silence_ns };

    for (uint32_t i = 0; i < w->ntasks; i++)
        if (w->listen_fd[i] >= 0 && (i != rank || odd->own_socket))
            close(w->listen_fd[i]);
    must(tp_node_open(&np, &node) == VB_OK && tp_region_new(node, 65536, false, &region) == VB_OK,
         "node");
    p.node = node;
    if (ctl_start(&p, &c) != VB_OK)
        return 99;
    int code = 98;

    if (ctl_wait_start(c) == VB_OK) {
        must(write(w->started_fd[1], "s", 1) == 1, "started");
        code = body(w, c, rank);
    }
    ctl_ended(c, end);
    ctl_stop(c);
    tp_node_close(node);
    return code;
}

unsigned crew_start(struct crew *w, uint32_t rank, crew_body body, const struct crew_odd *odd)
{
    const struct crew_odd even = { .transport = w->transport };
    int fd[2];

    must(pipe(fd) == 0, "pipe");
    const pid_t pid = fork();

    must(pid >= 0, "fork");
    if (pid == 0) {
        struct ctl_end end = { .code = VB_EXIT_OK };
        struct crew_result r = { 0 };

        alarm(CREW_WAIT_S + 10);
        close(w->go_fd[1]);
        r.code = run(w, rank, body, odd != NULL ? odd : &even, &end);
        if (end.code != VB_EXIT_OK)
            r.code = (int)end.code;
        memcpy(r.text, end.text, sizeof(r.text));
        must(write(fd[1], &r, sizeof(r)) == sizeof(r), "result");
        _exit(0);
    }
    close(fd[1]);
    w->proc[w->nprocs].pid = pid;
    w->proc[w->nprocs].fd = fd[0];
    return w->nprocs++;
}

void crew_let_go(struct crew *w)
{
    for (uint32_t i = 0; i < w->ntasks; i++) {
        close(w->listen_fd[i]);
        w->listen_fd[i] = -1;
    }
}

void crew_start_all(struct crew *w, crew_body ps, crew_body worker, uint32_t without)
{
    for (uint32_t i = 0; i < w->ntasks; i++) {
        if (i != without)
            crew_start(w, i, i < w->spec.nps ? ps : worker, NULL);
        else
            w->proc[w->nprocs++].fd = -1;
    }
    crew_let_go(w);
}

static void wait_readable(int fd, const char *what)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    must(poll(&p, 1, CREW_WAIT_S * 1000) == 1, what);
}

void crew_wait_started(struct crew *w, unsigned n)
{
    char byte;

    for (unsigned i = 0; i < n; i++) {
        wait_readable(w->started_fd[0], "a task did not start");
        must(read(w->started_fd[0], &byte, 1) == 1, "started");
    }
}

void crew_go(struct crew *w)
{
    close(w->go_fd[1]);
    w->go_fd[1] = -1;
}

void crew_kill(struct crew *w, unsigned number, int sig)
{
    must(kill(w->proc[number].pid, sig) == 0, "kill");
}

struct crew_result crew_wait(struct crew *w, unsigned number)
{
    struct crew_result r = { .code = -1 };
    int status;

    wait_readable(w->proc[number].fd, "a task did not end");
    if (read(w->proc[number].fd, &r, sizeof(r)) != sizeof(r))
        r.code = -1; /* killed */
    waitpid(w->proc[number].pid, &status, 0);
    w->proc[number].pid = 0;
    return r;
}

void crew_close(struct crew *w)
{
    for (unsigned i = 0; i < w->nprocs; i++) {
        if (w->proc[i].pid > 0) {
            kill(w->proc[i].pid, SIGKILL);
            waitpid(w->proc[i].pid, NULL, 0);
        }
        if (w->proc[i].fd >= 0)
            close(w->proc[i].fd);
    }
    if (w->go_fd[1] >= 0)
        close(w->go_fd[1]);
    close(w->go_fd[0]);
    close(w->started_fd[0]);
    close(w->started_fd[1]);
    cl_spec_fini(&w->spec);
}

int crew_connect(const struct crew *w, uint32_t rank)
{
    const struct sockaddr_in a = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(w->spec.addr[rank].port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0, "connect");
    return fd;
}

/* Links join workers and ps, by mapped memory wherever that is allowed: all are on one host. */
static bool links_are_right(struct crew *w, struct ctl *c, uint32_t rank)
{
    const enum tp_way way = w->transport == CL_TCP ? TP_TCP : TP_MAP;

    for (uint32_t i = 0; i < w->ntasks; i++) {
        struct tp_link *link = ctl_link(c, i);

        if ((link != NULL) != ((i < w->spec.nps) != (rank < w->spec.nps)))
            return false;
        if (link != NULL &&
            (tp_link_way(link) != way || tp_link_user(link) != (void *)(uintptr_t)i))
            return false;
    }
    return ctl_link(c, w->ntasks) == NULL;
}

int body_ps(struct crew *w, struct ctl *c, uint32_t rank)
{
    if (!links_are_right(w, c, rank))
        return 90;
    return ctl_wait_finish(c, vb_now_ns() + CREW_WAIT_S * VB_SEC) == VB_OK ? 0 : 91;
}

/* A sum whose value depends on the order in which it is taken. */
static double share(uint32_t rank, uint32_t tag)
{
    return tag + (rank % 2 == 0 ? 1e16 : 3.0) * (rank + 1);
}

static int check_sum(struct crew *w, struct ctl *c, uint32_t tag)
{
    double want = 0, v[2];

    for (uint32_t i = w->spec.nps; i < w->ntasks; i++)
        want += share(i, tag);
    if (ctl_reduced(c, tag, v, 2, vb_now_ns() + CREW_WAIT_S * VB_SEC) != VB_OK)
        return 92;
    return v[0] == want && v[1] == w->spec.nworkers ? 0 : 93;
}

int body_worker(struct crew *w, struct ctl *c, uint32_t rank)
{
    char byte;

    if (!links_are_right(w, c, rank))
        return 90;
    if (read(w->go_fd[0], &byte, 1) != 0)
        return 94;
    for (uint32_t tag = 0; tag < 50; tag++) {
        const double v[2] = { share(rank, tag), 1 };
        const int bad = ctl_reduce(c, tag, v, 2) == VB_OK ? 0 : 95;

        if (bad != 0)
            return bad;
        if (tag >= 4 && check_sum(w, c, tag - 4) != 0) /* some are open, the last are not fetched */
            return 96;
    }
    ctl_finish(c);
    return 0;
}

int body_idle(struct crew *w, struct ctl *c, uint32_t rank)
{
    return ctl_wait_finish(c, vb_now_ns() + CREW_WAIT_S * VB_SEC) == VB_STOPPED ? 0 : 97;
}
