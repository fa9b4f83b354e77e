#include "cluster/control_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LOG_MOD "cluster"
#include "base/log.h"

bool talk_is_open(const struct talk *t)
{
    return t->conn.fd >= 0;
}

void talk_close(struct talk *t)
{
    conn_close(&t->conn);
    *t = (struct talk){ .conn.fd = -1 };
}

/* Takes fd also on failure. */
static bool talk_begin(struct talk *t, int fd, bool is_unix)
{
    *t = (struct talk){ .since_ns = vb_now_ns() };
    if (conn_init(&t->conn, fd, is_unix) == VB_OK)
        return true;
    close(fd);
    talk_close(t);
    return false;
}

/* Sends what hello has to say. false: the connection is gone. */
static bool say(struct talk *t)
{
    const enum vb_st st = conn_put_raw(&t->conn, t->hello.out, t->hello.out_bytes);

    t->hello.out_bytes = 0;
    return st == VB_OK && conn_flush(&t->conn) != VB_UNREACHABLE;
}

/* Lets hello see what has come, until it has an answer or needs more. false: gone. */
static bool listen_to(struct talk *t)
{
    size_t n = 1;

    while (n > 0 && t->hello.state == HELLO_GOING) {
        n = hello_input(&t->hello, t->conn.in, t->conn.in_bytes);
        conn_drop(&t->conn, n);
        if (t->hello.out_bytes > 0 && !say(t))
            return t->hello.state != HELLO_GOING;
    }
    return true;
}

/* The acceptor's side. */

/* One line per source and reason: a wrong task that tries for hours must not fill the log. */
static void note_refused(struct ctl *c, const struct talk *t, enum hello_reason reason)
{
    char name[CL_NAME_MAX] = "a connection";

    for (unsigned i = 0; i < c->nsources; i++)
        if (c->source[i].reason == reason && strcmp(c->source[i].from, t->from) == 0)
            return;
    if (c->nsources == CTL_SOURCES)
        return;
    struct refused_source *s = &c->source[c->nsources++];

    s->reason = reason;
    memcpy(s->from, t->from, sizeof(s->from));
    if (reason == HELLO_CONFIG || reason == HELLO_DUPLICATE)
        cl_name(c->p.spec, t->hello.peer, name);
    log_warn("refused %s from %s: %s", name, t->from,
             reason == HELLO_NONE ? "it does not speak verbena's protocol"
                                  : hello_reason_str(reason));
}

static struct talk *free_pending(struct ctl *c)
{
    const uint64_t now = vb_now_ns();
    struct talk *oldest = &c->pending[0];

    for (int i = 0; i < CTL_PENDING; i++) {
        if (!talk_is_open(&c->pending[i]))
            return &c->pending[i];
        if (c->pending[i].since_ns < oldest->since_ns)
            oldest = &c->pending[i];
    }
    if (now - oldest->since_ns < CTL_OLD_MS * VB_MS)
        return NULL;
    talk_close(oldest);
    return oldest;
}

void join_accept(struct ctl *c, int listen_fd, bool is_unix)
{
    struct talk *t;

    while ((t = free_pending(c)) != NULL) {
        const int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                log_warn("cannot accept a connection, trying again: %s", strerror(errno));
            return;
        }
        if (is_unix && !net_same_user(fd)) {
            log_warn("refused a connection of another user on the job's unix socket");
            close(fd);
            continue;
        }
        if (!talk_begin(t, fd, is_unix))
            continue;
        net_peer_text(fd, t->from);
        hello_accept(&t->hello, &c->self);
    }
}

static void answer(struct ctl *c, struct talk *t)
{
    enum hello_reason reason = HELLO_NONE;

    if (c->p.transport == CL_MAP && !t->conn.is_unix)
        reason = HELLO_WAY;
    else if (c->peer[t->hello.peer].in)
        reason = HELLO_DUPLICATE;
    hello_answer(&t->hello, reason);
    if (!say(t))
        t->hello.state = HELLO_BROKEN;
}

void join_pending(struct ctl *c, struct talk *t)
{
    enum vb_st st = conn_flush(&t->conn);

    if (st != VB_UNREACHABLE)
        st = conn_fill(&t->conn);
    if (st == VB_AGAIN)
        return;
    if (st != VB_OK || !listen_to(t)) {
        talk_close(t);
        return;
    }
    if (t->hello.state == HELLO_PROVED)
        answer(c, t);
    if (t->hello.state == HELLO_GOING)
        return;
    if (t->hello.state == HELLO_IN) {
        peer_comes_in(c, t->hello.peer, t);
        return;
    }
    note_refused(c, t, t->hello.reason);
    talk_close(t);
}

/* The initiator's side. */

static void fail_try(struct ctl *c, uint32_t rank, const char *why)
{
    struct peer *p = &c->peer[rank];

    talk_close(&p->talk);
    p->try_ns = vb_now_ns() + CTL_RETRY_MS * VB_MS;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static bool begin_hello(struct ctl *c, uint32_t rank, int fd, bool is_unix)
{
    struct talk *t = &c->peer[rank].talk;

    if (!talk_begin(t, fd, is_unix))
        return false;
    t->connecting = !is_unix;
    hello_start(&t->hello, &c->self, rank);
    if (!is_unix || say(t))
        return true;
    talk_close(t);
    return false;
}

/* true: hello runs over the job's unix socket. Else errno. */
static bool try_unix(struct ctl *c, uint32_t rank)
{
    char name[NET_UNIX_NAME];

    hello_unix_name(&c->self, rank, name);
    const int fd = net_connect_unix(name);

    if (fd < 0)
        return false;
    if (!net_same_user(fd)) {
        close(fd);
        errno = EPERM;
        return false;
    }
    const bool begun = begin_hello(c, rank, fd, true);

    errno = EAGAIN; /* whoever closed at once is there and will be tried again */
    return begun;
}

static void try_tcp(struct ctl *c, uint32_t rank)
{
    const char *why;
    const int fd = net_connect(&c->p.spec->addr[rank], c->peer[rank].attempts++, &why);

    if (fd < 0 || !begin_hello(c, rank, fd, false))
        fail_try(c, rank, fd < 0 ? why : "no memory for a connection");
}

void join_try(struct ctl *c, uint32_t rank, uint64_t now)
{
    struct peer *p = &c->peer[rank];

    if (talk_is_open(&p->talk) || now < p->try_ns)
        return;
    if (ctl_takes_unix(c) && try_unix(c, rank))
        return;
    if (ctl_takes_unix(c) && errno == EAGAIN)
        fail_try(c, rank, "its unix socket takes no connection now"); /* not a case for TCP */
    else
        try_tcp(c, rank);
}

/*
 * The peer's TCP socket may have been listening before its process was there to open the unix one
 * (a launcher binds it). Whoever answers has opened both, so once there is an answer, look again.
 */
static bool move_to_unix(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];

    if (!ctl_takes_unix(c) || p->talk.conn.is_unix)
        return false;
    struct talk old = p->talk;

    p->talk = (struct talk){ .conn.fd = -1 };
    if (!try_unix(c, rank)) {
        p->talk = old;
        return false;
    }
    talk_close(&old);
    return true;
}

static void hello_ended(struct ctl *c, uint32_t rank)
{
    struct talk *t = &c->peer[rank].talk;
    const enum hello_reason reason = t->hello.reason;
    char text[NET_TASK];

    if (t->hello.state == HELLO_IN) {
        peer_comes_in(c, rank, t);
        return;
    }
    if (t->hello.state == HELLO_BROKEN) {
        fail_try(c, rank, "what listens there does not speak verbena's protocol");
        return;
    }
    ctl_set_end(c, VB_EXIT_REFUSED, "refused by %.150s: %s", ctl_task_text(c, rank, text),
                hello_reason_str(reason));
    talk_close(t);
}

void join_step(struct ctl *c, uint32_t rank)
{
    struct talk *t = &c->peer[rank].talk;
    const int err = t->connecting ? net_connected(t->conn.fd) : 0;

    if (err != 0) {
        fail_try(c, rank, strerror(err));
        return;
    }
    t->connecting = false;
    if (t->hello.out_bytes > 0 && !say(t)) {
        fail_try(c, rank, "the connection was closed");
        return;
    }
    const enum vb_st sent = conn_flush(&t->conn), st = conn_fill(&t->conn);

    if (st == VB_AGAIN && sent != VB_UNREACHABLE)
        return;
    if (st == VB_OK && move_to_unix(c, rank))
        return;
    if (st != VB_OK || !listen_to(t))
        fail_try(c, rank, "the connection was closed before hello was answered");
    else if (t->hello.state != HELLO_GOING)
        hello_ended(c, rank);
}

void join_expire(struct ctl *c, uint64_t now)
{
    const uint64_t limit = CTL_HELLO_MS * VB_MS;

    for (int i = 0; i < CTL_PENDING; i++)
        if (talk_is_open(&c->pending[i]) && now > c->pending[i].since_ns + limit)
            talk_close(&c->pending[i]);
    for (uint32_t i = 0; i < c->ntasks; i++) {
        const struct talk *t = &c->peer[i].talk;

        /* a ps may be busy with other links; who leaves after its proof would count as lost */
        if (talk_is_open(t) && now > t->since_ns + (t->connecting ? limit : CTL_ANSWER_MS * VB_MS))
            fail_try(c, i, "no answer to hello");
    }
}
