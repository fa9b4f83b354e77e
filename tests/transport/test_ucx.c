/* What only ucx can get wrong: lost peers, closing, large messages both ways, IPv6. */
#include "ucx_pair.h"

#include <signal.h>
#include <sys/socket.h>

static int large_messages_both_ways_at_once_arrive(void)
{
    static struct end e[2];

    pair_open(e, "127.0.0.1");
    exchange(e);
    /* pieces: once, from what UCX has received to their place */
    CHECK(tp_link_stats(e[0].link).copied_bytes > MIB &&
          tp_link_stats(e[0].link).copied_bytes <= tp_link_stats(e[1].link).sent_bytes);
    pair_close(e);
    return 0;
}

static int messages_over_ipv6_arrive(void)
{
    static struct end e[2];
    char host[INET6_ADDRSTRLEN], text[200];

    if (!own_address(AF_INET6, host)) {
        fprintf(stderr, "this host has no IPv6 address beside ::1\n");
        return SKIP;
    }
    pair_open(e, host);
    tp_link_describe(e[0].link, text, sizeof(text));
    CHECK(strstr(text, host) != NULL);
    exchange(e);
    pair_close(e);
    return 0;
}

static int large_messages_share_two_rails(void)
{
    static struct end e[2];
    struct tp_link_info info;
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;
    char host[INET6_ADDRSTRLEN], both[INET6_ADDRSTRLEN + 16];

    if (!own_address(AF_INET, host)) {
        fprintf(stderr, "this host has no IPv4 address beside 127.0.0.1\n");
        return SKIP;
    }
    snprintf(both, sizeof(both), "127.0.0.1 %s", host);
    pair_open(e, both);
    do {
        progress(e, 2);
        tp_link_info(e[0].link, &info);
    } while (info.nrails < 2 && vb_now_ns() < deadline);
    exchange(e);
    tp_link_info(e[0].link, &info);
    CHECK(info.nrails == 2 && info.rail[0].sent_bytes > 0 && info.rail[1].sent_bytes > 0);
    CHECK(strcmp(info.rail[0].name, info.rail[1].name) != 0);
    CHECK(info.rail[0].sent_bytes + info.rail[1].sent_bytes == tp_link_stats(e[0].link).sent_bytes);
    CHECK(tp_link_stats(e[0].link).copied_bytes == MESSAGES / 8 * 100); /* announced: never */
    pair_close(e);
    return 0;
}

/* 203.0.113.0/24 is nobody's (RFC 5737). */
static int a_rail_that_cannot_be_is_left_out(void)
{
    static struct end e[2];
    struct tp_link_info info;

    pair_open(e, "203.0.113.7 127.0.0.1");
    exchange(e);
    tp_link_info(e[0].link, &info);
    CHECK(info.nrails == 1 && strcmp(info.rail[0].name, "lo") == 0 &&
          strncmp(info.local, "127.0.0.1:", 10) == 0);
    pair_close(e);
    return 0;
}

/* ---- many ---- */

enum { CROWD = 256 };

static bool all_ready(struct tp_link *const *link)
{
    for (unsigned i = 0; i < CROWD; i++)
        if (tp_link_ready(link[i]) != VB_OK)
            return false;
    return true;
}

/* More than may wait for their proof at a time: those that are refused at first must come again. */
static int crowd_of_links_comes_up_at_once(void)
{
    static struct end e[2];
    static struct tp_link *link[2][CROWD];
    static struct tp_offer offer[2][CROWD];
    const uint64_t deadline = vb_now_ns() + 40 * VB_SEC;

    node_open(&e[0], "a");
    node_open(&e[1], "b");
    for (unsigned i = 0; i < CROWD; i++)
        for (unsigned k = 0; k < 2; k++) {
            link_new(&e[k], k == 0 ? "b" : "a", k == 0, "127.0.0.1", 7);
            link[k][i] = e[k].link;
            CHECK(tp_link_offer(link[k][i], &offer[k][i]) == VB_OK);
        }
    for (unsigned i = 0; i < CROWD; i++)
        CHECK(tp_link_connect(link[1][i], &offer[0][i]) == VB_OK &&
              tp_link_connect(link[0][i], &offer[1][i]) == VB_OK);
    while ((!all_ready(link[0]) || !all_ready(link[1])) && vb_now_ns() < deadline)
        progress(e, 2);
    CHECK(all_ready(link[0]) && all_ready(link[1]));
    pair_close(e);
    return 0;
}

/* A child has all that was mapped and none of the threads; what it does must not be seen here. */
static int fork_in_between_does_no_harm(void)
{
    static struct end e[2];
    int status;

    pair_open(e, "127.0.0.1");
    for (unsigned i = 0; i < 3; i++) {
        const pid_t pid = fork();

        CHECK(pid >= 0);
        if (pid == 0) {
            memset(malloc(1 << 20), 1, 1 << 20);
            if (i == 1)
                execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    exchange(e);
    pair_close(e);
    return 0;
}

/* ---- UCX itself ---- */

void ucs_fatal_error_format(const char *file, unsigned line, const char *function,
                            const char *format, ...);

static void *place_that_breaks(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                               uint64_t payload_bytes)
{
    ucs_fatal_error_format("test_ucx.c", 1, "place", "Assertion `%s' failed", "a test");
    return NULL;
}

/* place is called from inside UCX, as everything that could find such a thing. */
static int broken_assertion_of_ucx_fails_its_links(void)
{
    static struct end e[2];
    struct tp_op more = { .hdr_bytes = 8 };
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;

    pair_open(e, "127.0.0.1");
    tp_port_set(
        tp_port(e[1].node, 0),
        &(struct tp_port_params){ .arg = &e[1], .on_msg = on_msg, .place = place_that_breaks });
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e[1], i, i % 2 == 0 ? MIB : 100);
    send_start(&e[0], 0, MIB);
    while ((!tp_link_failed(e[1].link) ||
            ended(&e[1], VB_UNREACHABLE) + ended(&e[1], VB_OK) < MESSAGES) &&
           vb_now_ns() < deadline)
        progress(e, 2);
    CHECK(tp_link_failed(e[1].link));
    CHECK(ended(&e[1], VB_UNREACHABLE) + ended(&e[1], VB_OK) == MESSAGES);
    CHECK(tp_send(tp_port(e[1].node, 0), e[1].link, 0, &more) == VB_UNREACHABLE);
    CHECK(!tp_node_close(e[1].node));
    CHECK(tp_node_close(e[0].node));
    _exit(0); /* what was left behind is no leak */
}

/* ---- a peer that is killed ---- */

static void offer_pass(int fd, const struct tp_offer *mine, struct tp_offer *theirs)
{
    CHECK(write(fd, mine, sizeof(*mine)) == sizeof(*mine));
    CHECK(recv(fd, theirs, sizeof(*theirs), MSG_WAITALL) == sizeof(*theirs));
}

static void end_join(struct end *e, int fd)
{
    struct tp_offer mine, theirs;

    CHECK(tp_link_offer(e->link, &mine) == VB_OK);
    offer_pass(fd, &mine, &theirs);
    CHECK(tp_link_connect(e->link, &theirs) == VB_OK);
    CHECK(settled(e) == VB_OK);
}

/* Parks all but small messages, says so after the first, and never ends by itself. */
static void victim(int fd)
{
    static struct end e;
    bool said = false;

    node_open(&e, "b");
    e.later = true;
    link_new(&e, "a", true, "127.0.0.1", 7);
    end_join(&e, fd);
    for (;;) {
        progress(&e, 1);
        if (!said && __atomic_load_n(&e.placed, __ATOMIC_RELAXED) > 0)
            CHECK(write(fd, "x", 1) == 1);
        said = said || __atomic_load_n(&e.placed, __ATOMIC_RELAXED) > 0;
    }
}

static int killed_peer_ends_all_ops_as_unreachable(void)
{
    static struct end e;
    struct tp_op op = { .hdr_bytes = 8 };
    char byte;
    int fd[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
    const pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(TEST_S);
        victim(fd[1]);
    }
    node_open(&e, "a");
    link_new(&e, "b", false, "127.0.0.1", 7);
    end_join(&e, fd[0]);
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e, i, MIB);
    CHECK(read(fd[0], &byte, 1) == 1);
    kill(pid, SIGKILL);

    const uint64_t deadline = vb_now_ns() + 5 * VB_SEC;

    /* some have left already, which is not to say that they arrived */
    while (ended(&e, VB_UNREACHABLE) + ended(&e, VB_OK) < MESSAGES && vb_now_ns() < deadline)
        progress(&e, 1);
    CHECK(ended(&e, VB_UNREACHABLE) + ended(&e, VB_OK) == MESSAGES);
    CHECK(ended(&e, VB_UNREACHABLE) > 0);
    CHECK(tp_link_failed(e.link) && tp_link_ready(e.link) == VB_UNREACHABLE);
    CHECK(tp_send(tp_port(e.node, 0), e.link, 0, &op) == VB_UNREACHABLE);
    tp_node_close(e.node);
    waitpid(pid, NULL, 0);
    return 0;
}

/* ---- closing ---- */

static int close_ends_though_the_peer_never_takes_what_was_sent(void)
{
    static struct end e[2];

    pair_open(e, "127.0.0.1");
    e[1].later = true;
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e[0], i, i % 2 == 0 ? MIB : 100);
    while (__atomic_load_n(&e[1].placed, __ATOMIC_RELAXED) < MESSAGES)
        progress(e, 2);
    const uint64_t began = vb_now_ns();

    pair_close(e);
    CHECK(vb_now_ns() - began < 15 * VB_SEC);
    return 0;
}

int main(void)
{
    int failed = 0;

    vb_log_init();
    failed += test_run("large_messages_both_ways_at_once_arrive",
                       large_messages_both_ways_at_once_arrive);
    failed += test_run("large_messages_share_two_rails", large_messages_share_two_rails);
    failed += test_run("crowd_of_links_comes_up_at_once", crowd_of_links_comes_up_at_once);
    failed += test_run("fork_in_between_does_no_harm", fork_in_between_does_no_harm);
    failed += test_run("broken_assertion_of_ucx_fails_its_links",
                       broken_assertion_of_ucx_fails_its_links);
    failed += test_run("a_rail_that_cannot_be_is_left_out", a_rail_that_cannot_be_is_left_out);
    failed += test_run("messages_over_ipv6_arrive", messages_over_ipv6_arrive);
    failed += test_run("killed_peer_ends_all_ops_as_unreachable",
                       killed_peer_ends_all_ops_as_unreachable);
    failed += test_run("close_ends_though_the_peer_never_takes_what_was_sent",
                       close_ends_though_the_peer_never_takes_what_was_sent);
    return failed == 0 ? 0 : 1;
}
