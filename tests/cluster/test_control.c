#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/conn.h"
#include "crew.h"
#include "fake.h"

static const uint32_t shapes[][2] = { { 1, 1 }, { 1, 2 }, { 2, 2 } };

static void check_end(struct crew *w, unsigned number, int code, const char *says)
{
    const struct crew_result r = crew_wait(w, number);

    cr_assert_eq(r.code, code, "process %u: code %d: %s", number, r.code, r.text);
    cr_assert_neq(strstr(r.text, says), NULL, "process %u: %s", number, r.text);
}

static void check_all_done(struct crew *w)
{
    for (uint32_t i = 0; i < w->ntasks; i++)
        check_end(w, i, 0, "");
}

Test(control, tasks_start_together_sum_in_rank_order_and_finish)
{
    const enum cl_transport ways[] = { CL_AUTO, CL_MAP, CL_TCP };

    for (size_t i = 0; i < 3 * VB_ARRAY_LEN(shapes); i++) {
        struct crew w;

        crew_open(&w, shapes[i / 3][0], shapes[i / 3][1]);
        w.transport = ways[i % 3];
        w.no_auth = i == 0;
        crew_start_all(&w, body_ps, body_worker, UINT32_MAX);
        crew_go(&w);
        check_all_done(&w);
        crew_close(&w);
    }
}

Test(control, a_killed_task_ends_all_others_with_its_name)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t victim = i % 4;
        struct crew w;
        char name[CL_NAME_MAX];

        crew_open(&w, 2, 2);
        w.transport = i < 4 ? CL_AUTO : CL_TCP;
        crew_start_all(&w, body_idle, body_idle, UINT32_MAX);
        crew_wait_started(&w, 4);
        crew_kill(&w, victim, SIGKILL);
        cl_name(&w.spec, victim, name);
        for (uint32_t k = 0; k < 4; k++)
            if (k != victim)
                check_end(&w, k, VB_EXIT_LOST, name);
        crew_close(&w);
    }
}

Test(control, a_task_that_never_starts_is_named_by_all)
{
    for (uint32_t absent = 0; absent < 4; absent++) {
        struct crew w;
        char text[100], name[CL_NAME_MAX];

        crew_open(&w, 2, 2);
        w.start_ns = VB_SEC;
        snprintf(text, sizeof(text), "still missing: %s (host 127.0.0.1:%u)",
                 cl_name(&w.spec, absent, name), w.spec.addr[absent].port);
        crew_start_all(&w, body_idle, body_idle, absent);
        for (uint32_t i = 0; i < 4; i++)
            if (i != absent)
                check_end(&w, i, VB_EXIT_TIMEOUT, text);
        crew_close(&w);
    }
}

Test(control, a_stopped_task_is_lost_by_silence)
{
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct crew w;
        char name[CL_NAME_MAX];

        crew_open(&w, 1, 2);
        w.silence_ns = VB_SEC / 2;
        crew_start_all(&w, body_idle, body_idle, UINT32_MAX);
        crew_wait_started(&w, 3);
        crew_kill(&w, victim, SIGSTOP);
        cl_name(&w.spec, victim, name);
        for (uint32_t i = 0; i < 3; i++)
            if (i != victim)
                check_end(&w, i, VB_EXIT_LOST, name);
        crew_close(&w);
    }
}

static void check_intruder(const struct crew_odd *odd, const char *says)
{
    struct crew w;

    crew_open(&w, 2, 2);
    crew_start_all(&w, body_ps, body_worker, UINT32_MAX);
    crew_wait_started(&w, 4);
    for (int again = 0; again < 3; again++)
        check_end(&w, crew_start(&w, 3, body_idle, odd), VB_EXIT_REFUSED, says);
    crew_go(&w);
    check_all_done(&w);
    crew_close(&w);
}

Test(control, an_intruder_is_refused_and_the_run_goes_on)
{
    check_intruder(&(struct crew_odd){ .secret = 1, .own_socket = true, .transport = CL_TCP },
                   "the job secret or the ClusterSpec differs");
    check_intruder(&(struct crew_odd){ .config = 1, .own_socket = true, .transport = CL_TCP },
                   "started with another job file or options");
    check_intruder(&(struct crew_odd){ .own_socket = true, .transport = CL_TCP },
                   "this task is already in the run");
}

Test(control, garbage_and_idle_connections_do_not_harm)
{
    static const char *const garbage[] = { "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff\xff\xff",
                                           "x" };
    struct crew w;
    int idle[100];

    crew_open(&w, 1, 2);
    w.transport = CL_TCP;
    for (size_t i = 0; i < VB_ARRAY_LEN(idle); i++) { /* in the queue before the tasks come */
        idle[i] = crew_connect(&w, 0);
        cr_assert(send(idle[i], garbage[i % 3], i % 10 == 0 ? strlen(garbage[i % 3]) : 0, 0) >= 0);
    }
    crew_start_all(&w, body_ps, body_worker, UINT32_MAX);
    crew_wait_started(&w, 3);
    for (size_t i = 0; i < VB_ARRAY_LEN(garbage); i++) {
        const int fd = crew_connect(&w, 0);

        cr_assert(send(fd, garbage[i], strlen(garbage[i]), 0) > 0);
        close(fd);
    }
    crew_go(&w);
    check_all_done(&w);
    for (size_t i = 0; i < VB_ARRAY_LEN(idle); i++)
        close(idle[i]);
    crew_close(&w);
}

static int body_fail(struct crew *w, struct ctl *c, uint32_t rank)
{
    ctl_fail(c, VB_EXIT_SIGTERM, "ended by SIGTERM");
    ctl_fail(c, VB_EXIT_FAILED, "too late");
    return 0;
}

Test(control, one_failure_ends_the_run_everywhere_for_the_first_reason)
{
    for (uint32_t who = 0; who < 4; who++) {
        struct crew w;

        crew_open(&w, 2, 2);
        for (uint32_t i = 0; i < 4; i++)
            crew_start(&w, i, i == who ? body_fail : body_idle, NULL);
        crew_let_go(&w);
        for (uint32_t i = 0; i < 4; i++)
            check_end(&w, i, VB_EXIT_SIGTERM, "ended by SIGTERM");
        crew_close(&w);
    }
}

Test(control, a_name_with_several_addresses_is_tried_by_each)
{
    struct crew w;

    crew_open(&w, 1, 1); /* the sockets are bound to 127.0.0.1, the name may be ::1 as well */
    w.transport = CL_TCP;
    for (uint32_t i = 0; i < 2; i++)
        snprintf(w.spec.addr[i].host, sizeof(w.spec.addr[i].host), "localhost");
    crew_start_all(&w, body_ps, body_worker, UINT32_MAX);
    crew_go(&w);
    check_all_done(&w);
    crew_close(&w);
}

Test(control, an_address_in_use_is_an_error_and_a_free_one_is_bound)
{
    struct cl_addr addr[2] = { { "127.0.0.1", 0 }, { "127.0.0.1", 1 } };
    const struct cl_spec spec = { .nps = 1, .nworkers = 1, .addr = addr };
    const struct tp_node_params np = { .name = "ps", .nports = 1 };
    struct ctl_params p = { .spec = &spec, .listen_fd = -1, .channels = 1, .transport = CL_TCP };
    struct ctl *c;
    struct crew w;

    crew_open(&w, 1, 1);
    addr[0].port = w.spec.addr[0].port;
    cr_assert_eq(tp_node_open(&np, &p.node), VB_OK);
    cr_assert_eq(ctl_start(&p, &c), VB_IO);
    crew_let_go(&w);
    cr_assert_eq(ctl_start(&p, &c), VB_OK);
    cr_assert(!ctl_ended(c, NULL));
    ctl_stop(c);
    tp_node_close(p.node);
    crew_close(&w);
}

Test(control, malformed_messages_of_a_proved_peer_end_the_run_with_its_name)
{
    static const unsigned char zeros[WIRE_FRAME_MAX];
    static const struct wire_offer offer = { .way = TP_TCP };
    static const struct wire_ask endless = { .can.rdma = 2 };
    static const struct {
        enum wire_kind kind;
        const void *body;
    } cases[] = {
        { WIRE_HELLO, zeros },   { WIRE_WELCOME, zeros }, { WIRE_OFFER, &offer },
        { WIRE_ASK, &endless },  { WIRE_START, zeros },   { WIRE_MISSING, zeros },
        { WIRE_REDUCED, zeros }, { WIRE_REDUCE, zeros },  { WIRE_FINISHED, zeros },
        { WIRE_END, zeros },     { WIRE_COUNTED, zeros }, { WIRE_SET, zeros },
        { WIRE_NORM, zeros },    { WIRE_NORMED, zeros },  { WIRE_KINDS, NULL },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct conn conn;
        struct crew w;

        crew_open(&w, 1, 1);
        w.transport = CL_TCP;
        crew_start_all(&w, body_idle, body_idle, 1);
        fake_worker(&w, &conn);
        if (cases[i].body != NULL)
            cr_assert_eq(conn_put(&conn, cases[i].kind, cases[i].body), VB_OK);
        else
            cr_assert_eq(conn_put_raw(&conn, "GET / HTTP/1.1", 14), VB_OK);
        cr_assert_eq(conn_flush(&conn), VB_OK);
        shutdown(conn.fd, SHUT_WR);
        check_end(&w, 0, VB_EXIT_FAILED, "/job:worker/task:0 sent a malformed message");
        conn_close(&conn);
        crew_close(&w);
    }
}

/* All at once, and more than there is room for connections that have not proved themselves. */
Test(control, a_crowd_of_256_workers_gets_in, .timeout = 90)
{
    struct crew *w = calloc(1, sizeof(*w));

    crew_open(w, 1, 256);
    w->start_ns = 60 * VB_SEC;
    crew_start_all(w, body_ps, body_worker, UINT32_MAX);
    crew_let_go(w);
    crew_wait_started(w, 257);
    crew_go(w);
    for (unsigned i = 0; i < 257; i++) {
        const struct crew_result r = crew_wait(w, i);

        cr_assert_eq(r.code, VB_EXIT_OK, "task %u: %d %s", i, r.code, r.text);
    }
    crew_close(w);
    free(w);
}
