#include "perf/pair.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "perf/bench.h"
#include "perf/netns.h"
#include "perf/raw_socket.h"
#include "perf/raw_ucx.h"
#include "perf/raw_verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SRC = 0, DST = 1 };

static void on_msg(void *arg, const struct tp_rx *rx)
{
    struct pair *s = arg;

    s->received++;
    if (rx->view && rx->payload_bytes > 0) /* where it was asked to land */
        memcpy(s->dst, rx->payload, rx->payload_bytes);
}

static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    const struct pair *s = arg;

    return payload_bytes <= s->p->bytes ? s->dst : NULL;
}

static const char *host_of(const struct pair_params *p)
{
    return p->hosts != NULL ? p->hosts : p->host != NULL ? p->host : "127.0.0.1";
}

/* The offers cross the socket, descriptors and all. */
static bool exchange_offers(struct pair *s)
{
    union {
        char room[CMSG_SPACE(TP_OFFER_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct tp_offer mine, theirs;
    struct iovec iov = { &mine, sizeof(mine) };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
    bool ok;

    if (tp_link_offer(s->link, &mine) != VB_OK)
        return false;
    if (mine.nfds > 0) {
        m.msg_control = control.room;
        m.msg_controllen = CMSG_SPACE(mine.nfds * sizeof(int));
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                               .cmsg_type = SCM_RIGHTS,
                                               .cmsg_len = CMSG_LEN(mine.nfds * sizeof(int)) };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), mine.fds, mine.nfds * sizeof(int));
    }
    if (sendmsg(s->fd, &m, 0) != sizeof(mine))
        return false;
    tp_offer_close(&mine);
    iov.iov_base = &theirs;
    m.msg_control = control.room;
    m.msg_controllen = sizeof(control.room);
    if (recvmsg(s->fd, &m, MSG_WAITALL) != sizeof(theirs))
        return false;
    if (CMSG_FIRSTHDR(&m) != NULL)
        memcpy(theirs.fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), theirs.nfds * sizeof(int));
    ok = tp_link_connect(s->link, &theirs) == VB_OK;
    tp_offer_close(&theirs);
    return ok;
}

static bool link_up(struct pair *s)
{
    const uint64_t deadline_ns = vb_now_ns() + 20 * VB_SEC;
    const struct tp_link_params lp = { .way = s->p->way,
                                       .peer = s->active ? "passive" : "active",
                                       .channels = 1,
                                       .initiator = s->active,
                                       .rail = { { .host = host_of(s->p) } } };

    if (tp_link_new(s->node, &lp, &s->link) != VB_OK || !exchange_offers(s))
        return false;
    while (tp_link_ready(s->link) == VB_AGAIN && vb_now_ns() < deadline_ns)
        usleep(500);
    return tp_link_ready(s->link) == VB_OK;
}

static bool side_open(struct pair *s)
{
    const struct pair_params *p = s->p;
    const struct tp_node_params np = { .name = s->active ? "active" : "passive",
                                       .nports = 1,
                                       .spin_ns = p->spin_ns };
    uint32_t id;

    if (p->netns[!s->active] > 0 && !netns_enter(p->netns[!s->active]))
        return false;
    if (tp_node_open(&np, &s->node) != VB_OK ||
        tp_region_new(s->node, p->bytes, false, &id) != VB_OK ||
        tp_region_new(s->node, p->bytes, false, &id) != VB_OK)
        return false;
    s->src = tp_region_base(s->node, SRC);
    s->dst = tp_region_base(s->node, DST);
    s->port = tp_port(s->node, 0);
    tp_port_set(s->port, &(struct tp_port_params){ .arg = s, .on_msg = on_msg, .place = place });
    if (!link_up(s))
        return false;
    if (p->raw &&
        !raw_ucx_open(s->fd, s->active, p->way, host_of(p), s->src, s->dst, p->bytes, &s->raw))
        return false;
    if (p->verbs &&
        !raw_verbs_open(s->fd, s->active, host_of(p), s->src, s->dst, p->bytes, &s->verbs))
        return false;
    if (p->sockets && !raw_socket_open(s->fd, s->active, host_of(p), &s->tcp))
        return false;
    bench_pin(s->active ? 0 : 1); /* this thread alone, not those of UCX */
    return true;
}

static void serve_all(struct pair *s, void (*serve)(struct pair *s, const struct pair_order *o))
{
    struct pair_order o;

    while (recv(s->fd, &o, sizeof(o), MSG_WAITALL) == sizeof(o) && o.what != 0)
        serve(s, &o);
}

static void side_main(struct pair *s, bool (*measure)(struct pair *s, void *result),
                      void (*serve)(struct pair *s, const struct pair_order *o), void *result,
                      size_t result_bytes, int out)
{
    bool ok = side_open(s);

    if (!ok) {
        log_error("the two sides of a measurement cannot be joined");
        _exit(1);
    }
    if (s->active) {
        ok = measure(s, result) && write(out, result, result_bytes) == (ssize_t)result_bytes;
        pair_order(s, 0, 0, 0);
    } else {
        serve_all(s, serve);
    }
    raw_verbs_close(s->verbs);
    raw_ucx_close(s->raw);
    (void)tp_node_close(s->node);
    _exit(ok ? 0 : 1);
}

static pid_t start_side(const struct pair_params *p, bool active, int fd, atomic_uint *line,
                        bool (*measure)(struct pair *s, void *result),
                        void (*serve)(struct pair *s, const struct pair_order *o), void *result,
                        size_t result_bytes, int out)
{
    struct pair s = { .p = p, .active = active, .fd = fd, .line = line, .tcp = -1 };
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    side_main(&s, measure, serve, result, result_bytes, out);
    return 0;
}

bool pair_run(const struct pair_params *p, bool (*measure)(struct pair *s, void *result),
              void (*serve)(struct pair *s, const struct pair_order *o), void *result,
              size_t result_bytes)
{
    int fd[2], out[2], status = 0;
    bool ok;
    atomic_uint *line = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (line == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0 ||
        pipe(out) != 0)
        return false;
    fflush(stdout);
    const pid_t a = start_side(p, true, fd[0], line, measure, serve, result, result_bytes, out[1]);
    const pid_t b = start_side(p, false, fd[1], line, measure, serve, result, result_bytes, out[1]);

    close(fd[0]);
    close(fd[1]);
    close(out[1]);
    ok = read(out[0], result, result_bytes) == (ssize_t)result_bytes;
    close(out[0]);
    ok = waitpid(a, &status, 0) == a && status == 0 && ok;
    ok = waitpid(b, &status, 0) == b && ok;
    munmap(line, 4096);
    return ok;
}

void pair_order(struct pair *s, uint32_t what, uint64_t n, uint64_t bytes)
{
    const struct pair_order o = { .what = what, .n = n, .bytes = bytes };

    if (send(s->fd, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o))
        log_debug("the other side is gone");
}

bool pair_await(struct pair *s, uint64_t received)
{
    const uint64_t deadline_ns = vb_now_ns() + 20 * VB_SEC;

    while (s->received < received) {
        if (tp_wait(s->port, deadline_ns) == 0 && vb_now_ns() >= deadline_ns) {
            log_error("%s: no message for 20 s", s->active ? "active side" : "passive side");
            return false;
        }
    }
    return true;
}

bool pair_send(struct pair *s, struct tp_op *op, uint64_t bytes)
{
    enum vb_st st;

    op->bytes = bytes;
    op->hdr_bytes = 8;
    while ((st = tp_send(s->port, s->link, 0, op)) == VB_AGAIN)
        (void)tp_wait(s->port, vb_now_ns() + VB_MS);
    return st == VB_OK;
}

static void said(struct tp_op *op, enum vb_st st)
{
    container_of(op, struct pair, op)->busy = false;
}

bool pair_say(struct pair *s, uint64_t bytes)
{
    const uint64_t deadline_ns = vb_now_ns() + 20 * VB_SEC;

    while (s->busy)
        if (tp_wait(s->port, deadline_ns) == 0 && vb_now_ns() >= deadline_ns)
            return false;
    s->op.done = said;
    s->busy = true;
    return pair_send(s, &s->op, bytes);
}
