#include <criterion/criterion.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "cluster/control.h"
#include "fake.h"

/* An RDMA device behind loopback, which UCX then does not find. */
static struct rdma_port port = { .device = "rdma9", .port = 1, .netdev = "lo" };
static const struct rdma_ports ports = { &port, 1 };
static const struct rdma_ports none = { 0 };

static void check_end(struct crew *w, unsigned number, int code, const char *says)
{
    const struct crew_result r = crew_wait(w, number);

    cr_assert_eq(r.code, code, "process %u: code %d: %s", number, r.code, r.text);
    cr_assert_neq(strstr(r.text, says), NULL, "process %u: %s", number, r.text);
}

static void ps_alone(struct crew *w, struct conn *conn)
{
    crew_start_all(w, body_idle, body_idle, 1);
    fake_worker(w, conn);
}

static struct wire_offer next_offer(struct conn *conn, enum tp_way way, const char *why)
{
    struct wire_offer m;

    cr_assert_eq(fake_hear(conn, &m, sizeof(m)), WIRE_OFFER);
    cr_assert(m.way == way && strstr(m.can.why, why) != NULL, "way %u: %s", m.way, m.can.why);
    return m;
}

Test(link, a_ps_offers_tcp_with_the_reason_when_one_end_cannot)
{
    static const struct {
        const struct rdma_ports *ports;
        struct wire_can worker;
        const char *why;
    } cases[] = {
        { &none, { .rdma = 0, .why = "no RDMA device on b" }, "no RDMA device on /job:ps/task:0" },
        { &ports, { .rdma = 0, .why = "no RDMA device on b" }, "no RDMA device on b" },
        { &none, { .rdma = 1 }, "no RDMA device on /job:ps/task:0" },
        { &ports, { .rdma = 1 }, "/job:ps/task:0 cannot use its RDMA device" }, /* it has tried */
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct crew w;
        struct conn conn;

        crew_open(&w, 1, 1);
        w.ports = cases[i].ports;
        ps_alone(&w, &conn);
        fake_say(&conn, WIRE_ASK, &(struct wire_ask){ .can = cases[i].worker });
        const struct wire_offer m = next_offer(&conn, TP_TCP, cases[i].why);

        cr_assert(m.nhosts == 1 && strcmp(m.host[0], "127.0.0.1") == 0);
        conn_close(&conn);
        check_end(&w, 0, VB_EXIT_LOST, "/job:worker/task:0");
        crew_close(&w);
    }
}

/* So that the limit counts, also for root. */
static void drop_ipc_lock(void)
{
    struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct d[2];

    cr_assert_eq(syscall(SYS_capget, &h, d), 0);
    d[0].effective &= ~(1U << CAP_IPC_LOCK);
    cr_assert_eq(syscall(SYS_capset, &h, d), 0);
}

Test(link, too_little_memory_that_may_be_locked_is_the_reason_with_need_and_limit)
{
    const struct rlimit limit = { 4096, 4096 };
    struct crew w;
    struct conn conn;

    drop_ipc_lock();
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    crew_open(&w, 1, 1);
    w.ports = &ports;
    ps_alone(&w, &conn);
    fake_say(&conn, WIRE_ASK, &(struct wire_ask){ .can.rdma = 1 });
    next_offer(&conn, TP_TCP, "/job:ps/task:0 needs 41 MiB locked, limit 4 KiB");
    conn_close(&conn);
    crew_wait(&w, 0);
    crew_close(&w);
}

Test(link, what_makes_no_sense_for_a_ps_ends_the_run)
{
    static const struct wire_ask can = { .can.rdma = 1 };
    static const struct wire_offer map = { .way = TP_MAP }, rdma = { .way = TP_RDMA },
                                   hosts = { .way = TP_TCP, .nhosts = 1 },
                                   empty = { .way = TP_TCP };
    static const struct {
        bool asks;
        enum wire_kind kind;
        const void *body;
    } cases[] = {
        { true, WIRE_ASK, &can },     { true, WIRE_OFFER, &map },    { true, WIRE_OFFER, &rdma },
        { true, WIRE_OFFER, &hosts }, { false, WIRE_OFFER, &empty },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct crew w;
        struct conn conn;

        crew_open(&w, 1, 1);
        ps_alone(&w, &conn);
        if (cases[i].asks) {
            fake_say(&conn, WIRE_ASK, &(struct wire_ask){ 0 });
            next_offer(&conn, TP_TCP, "");
        }
        fake_say(&conn, cases[i].kind, cases[i].body);
        check_end(&w, 0, VB_EXIT_FAILED, "/job:worker/task:0 sent a malformed message");
        conn_close(&conn);
        crew_close(&w);
    }
}

/* Worker 0 alone; its first question. */
static struct wire_ask worker_asks(struct crew *w, struct conn *conn)
{
    struct wire_ask m;

    crew_start(w, 1, body_idle, NULL);
    fake_ps(w, conn);
    cr_assert_eq(fake_hear(conn, &m, sizeof(m)), WIRE_ASK);
    return m;
}

/* The offer of a ps that listens nowhere. */
static struct wire_offer offer_of(enum tp_way way, const char *host)
{
    const unsigned char blob[] = {
        0x32, 0x4f, 0x62, 0x76,            /* magic */
        0,    0,    1,    0,               /* link, rails */
        1,    0,    0,    0,               /* channels */
        1,    0,    0,    0,    0, 0, 0, 0 /* ports */
    };
    struct wire_offer m = { .way = way, .nhosts = 1, .blob_bytes = sizeof(blob) };

    memcpy(m.blob, blob, sizeof(blob));
    snprintf(m.host[0], sizeof(m.host[0]), "%s", host);
    return m;
}

Test(link, a_worker_whose_rdma_fails_asks_again_without_it)
{
    struct wire_offer m = offer_of(TP_RDMA, "127.0.0.1"), own;
    struct wire_ask ask;
    struct crew w;
    struct conn conn;

    crew_open(&w, 1, 1);
    w.ports = &ports;
    ask = worker_asks(&w, &conn);
    cr_assert(ask.can.rdma == 1 && strcmp(ask.can.device, "rdma9:1") == 0);
    fake_say(&conn, WIRE_OFFER, &m);
    cr_assert_eq(fake_hear(&conn, &own, sizeof(own)), WIRE_OFFER);
    cr_assert_eq(own.way, TP_RDMA);
    cr_assert_eq(fake_hear(&conn, &ask, sizeof(ask)), WIRE_ASK);
    cr_assert(ask.can.rdma == 0 &&
                  strstr(ask.can.why, "/job:worker/task:0 cannot use its RDMA device"),
              "%s", ask.can.why);
    m = offer_of(TP_TCP, "127.0.0.1");
    fake_say(&conn, WIRE_OFFER, &m);
    cr_assert_eq(fake_hear(&conn, &own, sizeof(own)), WIRE_OFFER);
    cr_assert_eq(own.way, TP_TCP);
    conn_close(&conn);
    crew_wait(&w, 0);
    crew_close(&w);
}

Test(link, a_worker_takes_no_offer_that_leads_nowhere)
{
    static const struct {
        enum tp_way way;
        const char *host, *says;
    } cases[] = {
        { TP_TCP, "0.0.0.0",
          "cannot link /job:worker/task:0 with /job:ps/task:0: it offers 0.0.0.0, which "
          "is no address of one host" },
        { TP_TCP, "ff02::1", "is no address of one host" },
        { TP_TCP, "example.com", "is no numeric address" },
        { TP_TCP, "", "is no numeric address" },
        { TP_RDMA, "127.0.0.1", "/job:ps/task:0 sent a malformed message" }, /* it cannot */
        { TP_MAP, "127.0.0.1", "/job:ps/task:0 sent a malformed message" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        const struct wire_offer m = offer_of(cases[i].way, cases[i].host);
        struct crew w;
        struct conn conn;

        crew_open(&w, 1, 1);
        w.ports = &none;
        cr_assert_eq(worker_asks(&w, &conn).can.rdma, 0);
        fake_say(&conn, WIRE_OFFER, &m);
        check_end(&w, 0, VB_EXIT_FAILED, cases[i].says);
        conn_close(&conn);
        crew_close(&w);
    }
}

Test(link, without_rdma_a_run_that_wants_it_ends_at_once_everywhere)
{
    static const char *const says[] = { "no RDMA device on /job:", "cannot use its RDMA device" };

    for (int i = 0; i < 4; i++) {
        struct crew w;

        crew_open(&w, 2, 2);
        w.transport = CL_RDMA;
        w.ports = i < 2 ? &none : &ports;
        crew_start_all(&w, body_idle, body_idle, UINT32_MAX);
        for (uint32_t k = 0; k < 4; k++)
            check_end(&w, k, VB_EXIT_NOFABRIC, says[i / 2]);
        crew_close(&w);
    }
}
