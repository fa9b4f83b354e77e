#include "cluster/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"

union fds_space {
    char buf[CMSG_SPACE(sizeof(int) * TP_OFFER_FDS)];
    struct cmsghdr align;
};

enum vb_st conn_init(struct conn *c, int fd, bool is_unix)
{
    const int on = 1, flags = fcntl(fd, F_GETFL);

    *c = (struct conn){ .fd = -1, .is_unix = is_unix, .out_cap = WIRE_FRAME_MAX };
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        (!is_unix && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0))
        return VB_IO;
    c->out = malloc(c->out_cap);
    if (c->out == NULL)
        return VB_NOMEM;
    c->fd = fd;
    return VB_OK;
}

static void close_fds(int *fds, uint32_t *n)
{
    while (*n > 0)
        close(fds[--*n]);
}

void conn_close(struct conn *c)
{
    close_fds(c->fds_out, &c->nfds_out);
    close_fds(c->fds_in, &c->nfds_in);
    if (c->out != NULL && c->fd >= 0)
        close(c->fd);
    free(c->out);
    *c = (struct conn){ .fd = -1 };
}

enum vb_st conn_open(struct conn *c)
{
    unsigned char *out = realloc(c->out, CONN_OUT_MAX);

    if (out == NULL)
        return VB_NOMEM;
    c->out = out;
    c->out_cap = CONN_OUT_MAX;
    c->takes_fds = c->is_unix;
    return VB_OK;
}

enum vb_st conn_put_raw(struct conn *c, const void *bytes, size_t nbytes)
{
    if (!vb_inside(c->out_bytes, nbytes, c->out_cap))
        return VB_UNREACHABLE;
    memcpy(c->out + c->out_bytes, bytes, nbytes);
    c->out_bytes += nbytes;
    return VB_OK;
}

enum vb_st conn_put(struct conn *c, enum wire_kind kind, const void *body)
{
    unsigned char frame[WIRE_FRAME_MAX];

    return conn_put_raw(c, frame, wire_put(frame, kind, body));
}

enum vb_st conn_put_offer(struct conn *c, struct wire_offer *m, struct tp_offer *o)
{
    if (o->bytes > sizeof(m->blob) || o->nfds > TP_OFFER_FDS || (o->nfds > 0 && !c->takes_fds) ||
        c->nfds_out > 0)
        return VB_INVAL;
    m->blob_bytes = o->bytes;
    m->nfds = o->nfds;
    memcpy(m->blob, o->blob, o->bytes);
    c->fds_at = c->out_bytes;
    const enum vb_st st = conn_put(c, WIRE_OFFER, m);

    if (st != VB_OK)
        return st;
    memcpy(c->fds_out, o->fds, o->nfds * sizeof(int));
    c->nfds_out = o->nfds;
    o->nfds = 0;
    return VB_OK;
}

/* Descriptors leave with the first byte of their frame, so what stands before it goes first. */
static ssize_t send_some(struct conn *c)
{
    const bool with_fds = c->nfds_out > 0 && c->fds_at == 0;
    union fds_space space = { .buf = { 0 } };
    struct iovec iov = { .iov_base = c->out,
                         .iov_len = c->nfds_out > 0 && !with_fds ? c->fds_at : c->out_bytes };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (with_fds) {
        m.msg_control = space.buf;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * c->nfds_out);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);

        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int) * c->nfds_out);
        memcpy(CMSG_DATA(h), c->fds_out, sizeof(int) * c->nfds_out);
    }
    const ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n > 0 && with_fds)
        close_fds(c->fds_out, &c->nfds_out);
    return n;
}

enum vb_st conn_flush(struct conn *c)
{
    while (c->out_bytes > 0) {
        const ssize_t n = send_some(c);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? VB_AGAIN : VB_UNREACHABLE;
        memmove(c->out, c->out + n, c->out_bytes - (size_t)n);
        c->out_bytes -= (size_t)n;
        c->fds_at -= c->nfds_out > 0 ? (size_t)n : 0;
    }
    return VB_OK;
}

/* false: more than may come. All that came are closed then. */
static bool keep_fds(struct conn *c, struct msghdr *m)
{
    bool fits = (m->msg_flags & MSG_CTRUNC) == 0 || !c->takes_fds;

    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h != NULL; h = CMSG_NXTHDR(m, h)) {
        const size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
            if (c->nfds_in < TP_OFFER_FDS) {
                c->fds_in[c->nfds_in++] = fd;
            } else {
                close(fd);
                fits = false;
            }
        }
    }
    return fits;
}

enum vb_st conn_fill(struct conn *c)
{
    union fds_space space;
    struct iovec iov = { .iov_base = c->in + c->in_bytes, .iov_len = sizeof(c->in) - c->in_bytes };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    /* without room for them the kernel throws descriptors away: nobody unproved gets one in here */
    if (c->takes_fds) {
        m.msg_control = space.buf;
        m.msg_controllen = sizeof(space.buf);
    }
    do {
        errno = 0;
        n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? VB_AGAIN : VB_UNREACHABLE;
    if (n == 0)
        return VB_UNREACHABLE;
    if (!keep_fds(c, &m))
        return VB_PROTO;
    c->in_bytes += (size_t)n;
    return VB_OK;
}

enum vb_st conn_frame(const struct conn *c, struct wire_hdr *hdr_out)
{
    return wire_cut(c->in, c->in_bytes, hdr_out);
}

void conn_drop(struct conn *c, size_t bytes)
{
    memmove(c->in, c->in + bytes, c->in_bytes - bytes);
    c->in_bytes -= bytes;
}

enum vb_st conn_get_offer(struct conn *c, struct wire_offer *m_out, struct tp_offer *o_out)
{
    struct wire_offer *m = m_out;

    memcpy(m, c->in + sizeof(struct wire_hdr), sizeof(*m));
    if (m->blob_bytes > sizeof(m->blob) || m->nfds != c->nfds_in)
        return VB_PROTO;
    *o_out = (struct tp_offer){ .bytes = m->blob_bytes, .nfds = m->nfds };
    memcpy(o_out->blob, m->blob, m->blob_bytes);
    memcpy(o_out->fds, c->fds_in, m->nfds * sizeof(int));
    c->nfds_in = 0;
    return VB_OK;
}
