#include "cluster/conn.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct conn a, b;
static struct wire_offer msg;

static void set_up(void)
{
    int fd[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    cr_assert(conn_init(&a, fd[0], true) == VB_OK && conn_init(&b, fd[1], true) == VB_OK);
}

static void tear_down(void)
{
    conn_close(&a);
    conn_close(&b);
}

TestSuite(conn, .init = set_up, .fini = tear_down);

static void both_open(void)
{
    cr_assert(conn_open(&a) == VB_OK && conn_open(&b) == VB_OK);
}

static unsigned count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static struct tp_offer make_offer(uint32_t nfds)
{
    struct tp_offer o = { .bytes = 5, .nfds = nfds, .blob = "blob" };

    for (uint32_t i = 0; i < nfds; i++)
        o.fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return o;
}

Test(conn, frames_arrive_whole_and_in_order)
{
    struct wire_hdr h;

    both_open();
    cr_assert_eq(conn_fill(&b), VB_AGAIN);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(conn_put(&a, WIRE_REDUCE, &(struct wire_reduce){ .tag = i }), VB_OK);
    cr_assert_eq(conn_put(&a, WIRE_PING, NULL), VB_OK);
    cr_assert_eq(conn_flush(&a), VB_OK);
    cr_assert_eq(conn_fill(&b), VB_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_reduce r;

        cr_assert_eq(conn_frame(&b, &h), VB_OK);
        memcpy(&r, b.in + sizeof(h), sizeof(r));
        cr_assert(h.kind == WIRE_REDUCE && r.tag == i);
        conn_drop(&b, h.bytes);
    }
    cr_assert(conn_frame(&b, &h) == VB_OK && h.kind == WIRE_PING);
    conn_drop(&b, h.bytes);
    cr_assert_eq(conn_frame(&b, &h), VB_AGAIN);
}

Test(conn, descriptors_come_with_their_offer_and_none_is_left_open)
{
    const unsigned before = count_fds();
    const uint32_t counts[] = { 0, 1, TP_OFFER_FDS };

    both_open();
    for (size_t i = 0; i < 3; i++) {
        struct tp_offer o = make_offer(counts[i]), got;
        struct wire_hdr h;

        cr_assert_eq(conn_put(&a, WIRE_PING, NULL), VB_OK);
        cr_assert_eq(conn_put_offer(&a, &msg, &o), VB_OK);
        cr_assert_eq(o.nfds, 0); /* taken */
        cr_assert_eq(conn_put(&a, WIRE_PING, NULL), VB_OK);
        cr_assert_eq(conn_flush(&a), VB_OK);
        while (conn_fill(&b) == VB_OK)
            ;
        conn_drop(&b, sizeof(h));
        cr_assert_eq(conn_frame(&b, &h), VB_OK);
        cr_assert_eq(h.kind, WIRE_OFFER);
        cr_assert_eq(conn_get_offer(&b, &msg, &got), VB_OK);
        cr_assert(got.nfds == counts[i] && got.bytes == 5 && strcmp((char *)got.blob, "blob") == 0);
        for (uint32_t k = 0; k < got.nfds; k++)
            cr_assert_eq(fcntl(got.fds[k], F_GETFD), FD_CLOEXEC);
        tp_offer_close(&got);
        conn_drop(&b, h.bytes + sizeof(h));
    }
    cr_assert_eq(count_fds(), before);
}

Test(conn, before_hello_no_descriptor_gets_in)
{
    const unsigned before = count_fds();
    struct tp_offer o = make_offer(3);

    cr_assert_eq(conn_open(&a), VB_OK);
    cr_assert_eq(conn_put_offer(&a, &msg, &o), VB_OK);
    cr_assert_eq(conn_flush(&a), VB_OK);
    cr_assert_eq(conn_fill(&b), VB_OK);
    cr_assert_eq(b.nfds_in, 0);
    cr_assert_eq(count_fds(), before);
}

Test(conn, an_offer_must_count_its_descriptors_right)
{
    struct tp_offer o = make_offer(2), got;
    const uint32_t lie = 1;

    both_open();
    cr_assert_eq(conn_put_offer(&a, &msg, &o), VB_OK);
    memcpy(a.out + sizeof(struct wire_hdr) + offsetof(struct wire_offer, nfds), &lie, sizeof(lie));
    cr_assert_eq(conn_flush(&a), VB_OK);
    cr_assert_eq(conn_fill(&b), VB_OK);
    cr_assert_eq(conn_get_offer(&b, &msg, &got), VB_PROTO);
}

Test(conn, too_many_descriptors_are_closed_and_refused)
{
    const unsigned before = count_fds();
    enum vb_st st = VB_OK;

    both_open();
    for (int i = 0; i < 2; i++) {
        struct tp_offer o = make_offer(TP_OFFER_FDS);

        cr_assert_eq(conn_put_offer(&a, &msg, &o), VB_OK);
        cr_assert_eq(conn_flush(&a), VB_OK);
    }
    while (st == VB_OK)
        st = conn_fill(&b);
    cr_assert_eq(st, VB_PROTO);
    conn_close(&b);
    cr_assert_eq(count_fds(), before - 1);
}

Test(conn, a_peer_that_reads_nothing_is_an_error_not_growth)
{
    size_t n = 0;

    while (conn_put(&a, WIRE_CHALLENGE, &(struct wire_challenge){ 0 }) == VB_OK)
        n++;
    cr_assert_eq(n, WIRE_FRAME_MAX / 104);
    both_open();
    while (conn_put(&a, WIRE_PING, NULL) == VB_OK)
        if (conn_flush(&a) == VB_AGAIN)
            n++;
    cr_assert_leq(a.out_bytes, CONN_OUT_MAX);
    cr_assert_gt(a.out_bytes, CONN_OUT_MAX - 8);
}

Test(conn, the_end_of_the_peer_is_seen_after_what_it_said)
{
    struct wire_hdr h;

    cr_assert_eq(conn_put(&a, WIRE_PING, NULL), VB_OK);
    cr_assert_eq(conn_flush(&a), VB_OK);
    conn_close(&a);
    cr_assert_eq(conn_fill(&b), VB_OK);
    cr_assert(conn_frame(&b, &h) == VB_OK && h.kind == WIRE_PING);
    cr_assert_eq(conn_fill(&b), VB_UNREACHABLE);
    cr_assert_eq(conn_put(&b, WIRE_PING, NULL), VB_OK);
    cr_assert_eq(conn_flush(&b), VB_UNREACHABLE); /* and no SIGPIPE */
}
