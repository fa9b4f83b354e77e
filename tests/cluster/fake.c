#include "fake.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "cluster/hello.h"

static bool fill(struct conn *conn)
{
    struct pollfd pfd = { .fd = conn->fd, .events = POLLIN };

    cr_assert_eq(poll(&pfd, 1, CREW_WAIT_S * 1000), 1);
    return conn_fill(conn) == VB_OK;
}

static void say_hello(struct conn *conn, struct hello *h)
{
    cr_assert_eq(conn_put_raw(conn, h->out, h->out_bytes), VB_OK);
    h->out_bytes = 0;
    cr_assert_eq(conn_flush(conn), VB_OK);
}

static void hear_hello(struct conn *conn, struct hello *h)
{
    while (h->state == HELLO_GOING && h->out_bytes == 0) {
        const size_t n = hello_input(h, conn->in, conn->in_bytes);

        conn_drop(conn, n);
        if (n == 0)
            cr_assert(fill(conn));
    }
}

static struct hello_self self_of(const struct crew *w, uint32_t rank)
{
    static const unsigned char config[32];
    struct hello_self self = { .spec = &w->spec, .rank = rank, .secret = { 7 } };

    hello_set_config(&self, config);
    return self;
}

void fake_worker(const struct crew *w, struct conn *conn)
{
    const struct hello_self self = self_of(w, 1);
    struct hello h;

    cr_assert_eq(conn_init(conn, crew_connect(w, 0), false), VB_OK);
    hello_start(&h, &self, 0);
    say_hello(conn, &h);
    hear_hello(conn, &h);
    say_hello(conn, &h);
    hear_hello(conn, &h);
    cr_assert_eq(h.state, HELLO_IN);
}

void fake_ps(struct crew *w, struct conn *conn)
{
    const struct hello_self self = self_of(w, 0);
    struct pollfd pfd = { .fd = w->listen_fd[0], .events = POLLIN };
    struct hello h;

    cr_assert_eq(poll(&pfd, 1, CREW_WAIT_S * 1000), 1);
    cr_assert_eq(conn_init(conn, accept(w->listen_fd[0], NULL, NULL), false), VB_OK);
    hello_accept(&h, &self);
    hear_hello(conn, &h);
    say_hello(conn, &h);
    hear_hello(conn, &h);
    cr_assert_eq(h.state, HELLO_PROVED);
    hello_answer(&h, HELLO_NONE);
    say_hello(conn, &h);
    cr_assert_eq(h.state, HELLO_IN);
}

void fake_say(struct conn *conn, enum wire_kind kind, const void *body)
{
    cr_assert_eq(conn_put(conn, kind, body), VB_OK);
    cr_assert_eq(conn_flush(conn), VB_OK);
}

unsigned fake_hear(struct conn *conn, void *buf, size_t buf_bytes)
{
    struct wire_hdr h = { 0 };

    for (;;) {
        const enum vb_st st = conn_frame(conn, &h);

        if (st == VB_AGAIN && !fill(conn))
            return 0;
        if (st != VB_OK) {
            cr_assert_eq(st, VB_AGAIN);
            continue;
        }
        cr_assert(h.bytes - sizeof(h) <= buf_bytes);
        memcpy(buf, conn->in + sizeof(h), h.bytes - sizeof(h));
        conn_drop(conn, h.bytes);
        if (h.kind != WIRE_PING && h.kind != WIRE_MISSING)
            return h.kind;
    }
}
