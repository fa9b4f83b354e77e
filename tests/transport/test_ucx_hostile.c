/* Strangers at the door of ucx: wrong keys, garbage, connections that never prove themselves. */
#include "ucx_pair.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include "base/random.h"

static int wrong_key_is_refused_and_a_right_one_still_gets_in(void)
{
    static struct end e[2];

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[1], "a", false, "127.0.0.1", 7);
    link_new(&e[0], "b", true, "127.0.0.1", 8);
    offers_cross(&e[0], &e[1]);
    CHECK(settled(&e[0]) == VB_UNREACHABLE);
    CHECK(tp_link_ready(e[1].link) == VB_AGAIN);
    link_new(&e[0], "b", true, "127.0.0.1", 7);
    offers_cross(&e[0], &e[1]);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
    exchange(e);
    pair_close(e);
    return 0;
}

static int garbage_send(uint16_t port, unsigned round)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned char junk[2048];

    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    for (size_t i = 0; i < sizeof(junk); i++)
        junk[i] = (unsigned char)vb_random_u64(1, round, i);
    junk[7] = 0x47; /* UCX 1.13 aborts when the first 8 bytes announce less than has come */
    CHECK(send(fd, junk, round * 37 % sizeof(junk), MSG_NOSIGNAL) >= 0 || errno != EBADF);
    return fd;
}

static int garbage_at_the_port_does_no_harm(void)
{
    static struct end e[2];
    struct tp_offer a, b;
    uint16_t port;
    int fd[100];

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[0], "b", true, "127.0.0.1", 7);
    link_new(&e[1], "a", false, "127.0.0.1", 7);
    CHECK(tp_link_offer(e[0].link, &a) == VB_OK && tp_link_offer(e[1].link, &b) == VB_OK);
    memcpy(&port, b.blob + 12, sizeof(port));
    for (unsigned i = 0; i < VB_ARRAY_LEN(fd); i++) {
        fd[i] = garbage_send(port, i);
        if (i % 2 == 0)
            close(fd[i]);
    }
    CHECK(tp_link_connect(e[1].link, &a) == VB_OK && tp_link_connect(e[0].link, &b) == VB_OK);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
    exchange(e);
    for (unsigned i = 1; i < VB_ARRAY_LEN(fd); i += 2)
        close(fd[i]);
    pair_close(e);
    return 0;
}

/* What ends UCX 1.13: less is announced than comes. From another address than the peer's. */
static int deadly_send(const char *from, const char *host, uint16_t port)
{
    static const unsigned char zeros[64];
    struct addrinfo *a, *b, hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
    struct pollfd p = { .events = POLLOUT };
    char text[8];

    snprintf(text, sizeof(text), "%u", (unsigned)port);
    CHECK(getaddrinfo(from, "0", &hints, &a) == 0 && getaddrinfo(host, text, &hints, &b) == 0);
    p.fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(p.fd >= 0 && bind(p.fd, a->ai_addr, a->ai_addrlen) == 0);
    CHECK(connect(p.fd, b->ai_addr, b->ai_addrlen) != 0 && errno == EINPROGRESS);
    CHECK(poll(&p, 1, 100) == 0 || send(p.fd, zeros, sizeof(zeros), MSG_NOSIGNAL) == 0);
    freeaddrinfo(a);
    freeaddrinfo(b);
    return p.fd;
}

/* Is it listening, and can it be reached from there? */
static bool reached(int fd, const char *from)
{
    struct sockaddr_in to, own = { .sin_family = AF_INET };
    struct pollfd p = { .events = POLLOUT };
    socklen_t bytes = sizeof(to), int_bytes = sizeof(int);
    int listens = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_bytes) != 0 || listens == 0 ||
        getsockname(fd, (struct sockaddr *)&to, &bytes) != 0 || to.sin_family != AF_INET)
        return false;
    CHECK(inet_pton(AF_INET, from, &own.sin_addr) == 1);
    p.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(p.fd >= 0 && bind(p.fd, (const struct sockaddr *)&own, sizeof(own)) == 0);
    (void)connect(p.fd, (const struct sockaddr *)&to, sizeof(to));

    const bool yes = poll(&p, 1, 100) == 1 && (p.revents & (POLLERR | POLLHUP)) == 0;

    close(p.fd);
    return yes;
}

static unsigned reached_from(const char *from)
{
    unsigned n = 0;

    for (int fd = 3; fd < 256; fd++)
        n += reached(fd, from);
    return n;
}

/* UCX listens for data as long as it lives, and writes wherever a stranger says. */
static int sockets_of_data_are_shut_but_for_the_peer(void)
{
    static struct end e[2];
    const struct tp_link_params p = { .way = TP_TCP,
                                      .peer = "a",
                                      .channels = 1,
                                      .rail = { { .host = "127.0.0.1" } },
                                      .caller = { "127.0.0.1" },
                                      .key = { 7, 1 } };
    const uint64_t deadline = vb_now_ns() + 10 * VB_SEC;
    struct tp_offer a, b;

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[0], "b", true, "127.0.0.1", 7);
    CHECK(tp_link_new(e[1].node, &p, &e[1].link) == VB_OK);
    CHECK(tp_link_offer(e[1].link, &b) == VB_OK); /* this side waits, the other is not there yet */
    CHECK(reached_from("127.0.0.2") == 0 && reached_from("127.0.0.1") > 0);
    CHECK(tp_link_offer(e[0].link, &a) == VB_OK);
    CHECK(tp_link_connect(e[1].link, &a) == VB_OK && tp_link_connect(e[0].link, &b) == VB_OK);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
    exchange(e);
    while (reached_from("127.0.0.1") > 0 && vb_now_ns() < deadline)
        progress(e, 2);
    CHECK(reached_from("127.0.0.1") == 0);
    pair_close(e);
    return 0;
}

static int only_the_peer(const char *host, const char *const *stranger)
{
    static struct end e[2];
    const struct tp_link_params p = { .way = TP_TCP,
                                      .peer = "a",
                                      .channels = 1,
                                      .rail = { { .host = host } },
                                      .caller = { "192.0.2.1", host },
                                      .key = { 7, 1 } };
    struct tp_offer a, b;
    uint16_t port;

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[0], "b", true, host, 7);
    CHECK(tp_link_new(e[1].node, &p, &e[1].link) == VB_OK);
    CHECK(tp_link_offer(e[0].link, &a) == VB_OK && tp_link_offer(e[1].link, &b) == VB_OK);
    memcpy(&port, b.blob + 12, sizeof(port));
    for (; *stranger != NULL; stranger++)
        close(deadly_send(*stranger, host, port));
    CHECK(tp_link_ready(e[1].link) == VB_AGAIN);
    CHECK(tp_link_connect(e[1].link, &a) == VB_OK && tp_link_connect(e[0].link, &b) == VB_OK);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
    exchange(e);
    pair_close(e);
    return 0;
}

static int only_the_peer_reaches_the_port(void)
{
    return only_the_peer("127.0.0.1", (const char *const[]){ "127.0.0.2", "127.1.0.1", NULL });
}

static int only_the_peer_reaches_the_port_over_ipv6(void)
{
    char host[INET6_ADDRSTRLEN];

    if (!own_address(AF_INET6, host)) {
        fprintf(stderr, "this host has no IPv6 address beside ::1\n");
        return SKIP;
    }
    return only_the_peer(host, (const char *const[]){ "::1", NULL });
}

static void on_stranger_error(void *arg, ucp_ep_h ep, ucs_status_t s)
{
    *(bool *)arg = true;
}

/* Speaks UCX, but has no token; says things of every kind before it is closed. */
static void stranger(uint16_t port)
{
    const ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM };
    const ucp_worker_params_t wp = { 0 };
    const ucp_request_param_t rp = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_AM_SEND_FLAG_REPLY };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    static const unsigned char zeros[64];
    bool closed = false;
    const ucp_ep_params_t ep_params = {
        .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = { (const struct sockaddr *)&to, sizeof(to) },
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { on_stranger_error, &closed },
    };
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;
    ucp_context_h ctx;
    ucp_worker_h worker;
    ucp_ep_h ep;

    CHECK(ucp_init(&p, NULL, &ctx) == UCS_OK);
    CHECK(ucp_worker_create(ctx, &wp, &worker) == UCS_OK);
    CHECK(ucp_ep_create(worker, &ep_params, &ep) == UCS_OK);
    for (unsigned am = 2; am < 5; am++)
        for (unsigned bytes = 0; bytes <= sizeof(zeros); bytes += 8)
            (void)ucp_am_send_nbx(ep, am, zeros, bytes, zeros, bytes, &rp);
    while (!closed && vb_now_ns() < deadline)
        ucp_worker_progress(worker);
    _exit(closed ? 0 : 1);
}

static int connection_without_token_is_closed_in_time(void)
{
    static struct end e[2];
    struct tp_offer a, b;
    uint16_t port;
    int status;

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    link_new(&e[0], "b", true, "127.0.0.1", 7);
    link_new(&e[1], "a", false, "127.0.0.1", 7);
    CHECK(tp_link_offer(e[0].link, &a) == VB_OK && tp_link_offer(e[1].link, &b) == VB_OK);
    memcpy(&port, b.blob + 12, sizeof(port));

    const pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        char text[8];

        snprintf(text, sizeof(text), "%u", (unsigned)port);
        execl("/proc/self/exe", "test_ucx_hostile", "stranger", text, (char *)NULL);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(tp_link_ready(e[1].link) == VB_AGAIN && e[1].received + e[1].placed == 0);
    CHECK(tp_link_connect(e[1].link, &a) == VB_OK && tp_link_connect(e[0].link, &b) == VB_OK);
    CHECK(settled(&e[0]) == VB_OK && settled(&e[1]) == VB_OK);
    exchange(e);
    pair_close(e);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    vb_log_init();
    if (argc == 3 && strcmp(argv[1], "stranger") == 0)
        stranger((uint16_t)atoi(argv[2]));
    failed += test_run("wrong_key_is_refused_and_a_right_one_still_gets_in",
                       wrong_key_is_refused_and_a_right_one_still_gets_in);
    failed += test_run("garbage_at_the_port_does_no_harm", garbage_at_the_port_does_no_harm);
    failed += test_run("only_the_peer_reaches_the_port", only_the_peer_reaches_the_port);
    failed += test_run("sockets_of_data_are_shut_but_for_the_peer",
                       sockets_of_data_are_shut_but_for_the_peer);
    failed += test_run("only_the_peer_reaches_the_port_over_ipv6",
                       only_the_peer_reaches_the_port_over_ipv6);
    failed += test_run("connection_without_token_is_closed_in_time",
                       connection_without_token_is_closed_in_time);
    return failed == 0 ? 0 : 1;
}
