#include "far.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void far_open(struct far *f, const char *name, uint64_t bytes, const struct tp_port_params *cb)
{
    uint32_t id;

    *f = (struct far){ .name = name, .bytes = bytes, .fd = -1 };
    MUST(tp_node_open(&(struct tp_node_params){ .name = name, .nports = 1 }, &f->node) == VB_OK);
    MUST(tp_region_new(f->node, bytes, false, &id) == VB_OK && id == FAR_SRC);
    MUST(tp_region_new(f->node, bytes, false, &id) == VB_OK && id == FAR_DST);
    f->src = tp_region_base(f->node, FAR_SRC);
    f->dst = tp_region_base(f->node, FAR_DST);
    f->port = tp_port(f->node, 0);
    tp_port_set(f->port, cb);
}

static void offer_send(int fd, const struct tp_offer *o)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(o->fds))] = { 0 };
    struct tp_offer copy = *o;
    struct iovec iov = { &copy, sizeof(copy) };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (o->nfds > 0) {
        struct cmsghdr *c = (struct cmsghdr *)(void *)control;

        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * o->nfds);
        *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(sizeof(int) * o->nfds) };
        memcpy(CMSG_DATA(c), o->fds, sizeof(int) * o->nfds);
    }
    MUST(sendmsg(fd, &m, 0) == sizeof(copy));
}

static void offer_take(int fd, struct tp_offer *o)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(o->fds))];
    struct iovec iov = { o, sizeof(*o) };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };

    MUST(recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL) == sizeof(*o));

    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    if (c != NULL)
        memcpy(o->fds, CMSG_DATA(c), sizeof(int) * o->nfds);
}

void far_join(struct far *f, int fd, enum tp_way way, bool initiator, const char *host)
{
    const uint64_t deadline_ns = vb_now_ns() + FAR_PATIENCE_S * VB_SEC;
    const struct tp_link_params p = { .way = way,
                                      .peer = strcmp(f->name, "a") == 0 ? "b" : "a",
                                      .channels = 1,
                                      .initiator = initiator,
                                      .rail = { { .host = host } },
                                      .key = { 7, 1 } };
    struct tp_offer mine, theirs;

    f->fd = fd;
    MUST(tp_link_new(f->node, &p, &f->link) == VB_OK);
    MUST(tp_link_offer(f->link, &mine) == VB_OK);
    offer_send(fd, &mine);
    offer_take(fd, &theirs);
    MUST(tp_link_connect(f->link, &theirs) == VB_OK);
    tp_offer_close(&mine);
    tp_offer_close(&theirs);
    while (tp_link_ready(f->link) == VB_AGAIN && vb_now_ns() < deadline_ns)
        tp_wait(f->port, vb_now_ns() + VB_MS);
    MUST(tp_link_ready(f->link) == VB_OK);
}

bool far_gone(const struct far *f)
{
    char byte;
    const ssize_t n = recv(f->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

unsigned far_rounds(unsigned usual, unsigned thorough)
{
    return getenv("VB_LONG") != NULL ? thorough : usual;
}

pid_t far_start(int fd, int (*body)(int fd, void *arg), void *arg)
{
    fflush(NULL);

    const pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0)
        exit(body(fd, arg));
    return pid;
}

int far_wait(pid_t pid)
{
    int status = 0;

    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
