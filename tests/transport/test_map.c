/* What only links of one host do: other processes, mapping at a fixed place, many peers. */
#include "harness.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/util.h"

static const struct conf_way way = { "map", TP_MAP, false };

/* A process at the other end of a link. */
struct remote {
    pid_t pid;
    struct tp_node *node;
    struct tp_link *link;
    struct tp_port *port;
    unsigned received;
    uint64_t first_word; /* of the last payload */
};

static void remote_msg(void *arg, const struct tp_rx *rx)
{
    struct remote *r = arg;

    r->received++;
    if (rx->payload_bytes >= sizeof(r->first_word))
        memcpy(&r->first_word, rx->payload, sizeof(r->first_word));
}

/* One process's half: node, link, offers through the socket. */
static bool half_open(struct remote *r, int sock, bool initiator)
{
    struct tp_offer mine, theirs = { 0 };
    uint32_t id;

    if (tp_node_open(&(struct tp_node_params){ .name = "half", .nports = 1 }, &r->node) != VB_OK ||
        tp_region_new(r->node, 1 << 16, false, &id) != VB_OK)
        return false;
    r->port = tp_port(r->node, 0);
    tp_port_set(r->port, &(struct tp_port_params){ .arg = r, .on_msg = remote_msg });
    if (tp_link_new(r->node,
                    &(struct tp_link_params){
                        .way = TP_MAP, .peer = "other", .channels = 1, .initiator = initiator },
                    &r->link) != VB_OK ||
        tp_link_offer(r->link, &mine) != VB_OK)
        return false;

    bool ok = offer_to_socket(sock, &mine) && offer_from_socket(sock, &theirs);

    ok = ok && tp_link_connect(r->link, &theirs) == VB_OK;
    tp_offer_close(&mine);
    tp_offer_close(&theirs);
    return ok;
}

/* The child answers every message with one that carries the payload's first word plus one. */
static void child_main(int sock)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
    struct remote r = { 0 };
    struct tp_op op = { .hdr_bytes = 8, .bytes = 8 };
    unsigned answered = 0;

    if (!half_open(&r, sock, false))
        _exit(1);
    while (vb_now_ns() < deadline) {
        tp_wait(r.port, deadline);
        if (answered == r.received)
            continue;
        answered = r.received;
        *(uint64_t *)tp_region_base(r.node, 0) = r.first_word + 1;
        if (tp_send(r.port, r.link, 0, &op) != VB_OK)
            _exit(2);
    }
    _exit(0);
}

static void remote_open(struct remote *r)
{
    int sock[2];

    *r = (struct remote){ 0 };
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
    r->pid = fork();
    cr_assert_geq(r->pid, 0);
    if (r->pid == 0)
        child_main(sock[1]);
    cr_assert(half_open(r, sock[0], true));
    close(sock[0]);
    close(sock[1]);
}

static void remote_kill(struct remote *r)
{
    kill(r->pid, SIGKILL);
    cr_assert_eq(waitpid(r->pid, NULL, 0), r->pid);
}

Test(map, two_processes_read_each_others_payload_in_place)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
    struct tp_op op = { .hdr_bytes = 8, .bytes = 8 };
    struct remote r;

    remote_open(&r);
    for (unsigned i = 1; i <= 1000; i++) {
        *(uint64_t *)tp_region_base(r.node, 0) = UINT64_C(1000000) * i;
        cr_assert_eq(tp_send(r.port, r.link, 0, &op), VB_OK);
        while (r.received < i && vb_now_ns() < deadline)
            tp_wait(r.port, deadline);
        cr_assert_eq(r.received, i);
        cr_assert_eq(r.first_word, UINT64_C(1000000) * i + 1);
    }
    remote_kill(&r);
    tp_node_close(r.node);
}

Test(map, killed_peer_leaves_memory_readable_and_fail_ends_the_link)
{
    struct tp_op op = { .hdr_bytes = 8 };
    enum vb_st st = VB_OK;
    const void *theirs;
    struct remote r;

    remote_open(&r);
    remote_kill(&r);
    for (unsigned i = 0; i < 2 * TP_CHANNEL_SLOTS && st == VB_OK; i++)
        st = tp_send(r.port, r.link, 0, &op);
    cr_assert_eq(st, VB_AGAIN);
    cr_assert_eq(tp_link_map(r.link, 0, 0, 1 << 16, NULL, &theirs), VB_OK);
    for (unsigned i = 0; i < 1 << 16; i++)
        cr_assert(((const unsigned char *)theirs)[i] == 0 || i < 8);
    tp_link_fail(r.link);
    cr_assert_eq(tp_send(r.port, r.link, 0, &op), VB_UNREACHABLE);
    tp_progress(r.port);
    tp_node_close(r.node);
}

Test(map, regions_of_the_peer_map_side_by_side_into_a_window)
{
    enum { BYTES = 256 << 10 };
    const void *got;
    struct pair p;
    char *window = mmap(NULL, 2 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(window, MAP_FAILED);
    pair_make(&p, &way, &(struct pair_params){ 0 });
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES, window, &got), VB_INVAL, "not connected");
    pair_close(&p);
    pair_open(&p, &way, &(struct pair_params){ 0 });
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES + 1, window, &got), VB_INVAL);
    cr_assert_eq(tp_link_map(p.e[0].link, 2, 0, BYTES, window, &got), VB_INVAL);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES, window + 1, &got), VB_INVAL);
    cr_assert_eq(tp_link_map(p.e[0].link, 1, 0, BYTES, window, &got), VB_OK);
    cr_assert_eq(got, window);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES, window + BYTES, &got), VB_OK);
    memset(p.e[1].dst, 7, BYTES);
    cr_assert_eq(memcmp(window, p.e[1].dst, BYTES), 0);
    cr_assert_eq(memcmp(window + BYTES, p.e[1].src, BYTES), 0);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES, NULL, &got), VB_OK);
    cr_assert_eq(memcmp(got, p.e[1].src, BYTES), 0);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 4096, BYTES, window, &got), VB_INVAL);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 100, 4096, window, &got), VB_INVAL);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 8192, 4096, window + BYTES, &got), VB_OK);
    cr_assert_eq(memcmp(window + BYTES, p.e[1].src + 8192, 4096), 0);
    pair_close(&p);
    munmap(window, 2 * BYTES);
}

/* A figure of a file of /proc whose line begins with `what`, after the mapping of `at` if that is not NULL. */
static long proc_figure(const char *file, const char *what, const void *at)
{
    FILE *f = fopen(file, "r");
    char line[512], begin[32] = "";
    bool there = at == NULL;
    long figure = -1;

    cr_assert_not_null(f);
    if (at != NULL)
        snprintf(begin, sizeof(begin), "%lx-", (unsigned long)(uintptr_t)at);
    while (figure < 0 && fgets(line, sizeof(line), f) != NULL) {
        there = there || strncmp(line, begin, strlen(begin)) == 0;
        if (there && strncmp(line, what, strlen(what)) == 0)
            figure = strtol(line + strlen(what), NULL, 10);
    }
    fclose(f);
    return figure;
}

Test(map, region_of_large_pages_is_read_and_mapped_like_any_other)
{
    enum { BYTES = 2 << 20 };
    const void *got;
    struct send s = { 0 };
    struct pair p;
    char *reserved = mmap(NULL, 2 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = reserved + (BYTES - (uintptr_t)reserved % BYTES) % BYTES;

    const bool any = proc_figure("/proc/meminfo", "HugePages_Free:", NULL) >= 4;

    cr_assert_neq(reserved, MAP_FAILED);
    pair_open(&p, &way, &(struct pair_params){ .region_bytes = BYTES, .huge = true });
    cr_assert_eq(proc_figure("/proc/self/smaps", "KernelPageSize:", p.e[0].src), any ? 2048 : 4);
    send_fill(&s, 0, 1, BYTES - 1);
    cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_OK);
    cr_assert(pair_until(&p, &p.e[1].received, 1));
    cr_assert_eq(p.e[1].damaged, 0);
    cr_assert_eq(tp_link_map(p.e[0].link, 0, 0, BYTES, at, &got), VB_OK);
    cr_assert_eq(memcmp(got, p.e[1].src, BYTES), 0);
    pair_close(&p);
    munmap(reserved, 2 * BYTES);
}

Test(map, one_node_holds_links_to_many_peers)
{
    enum { PEERS = 6 };
    struct tp_offer mine, theirs;
    struct tp_node *hub, *node[PEERS];
    struct tp_link *out[PEERS], *in[PEERS];
    struct remote r[PEERS] = { 0 };
    struct tp_op op = { .hdr_bytes = 8 };
    struct tp_link_params lp = { .way = TP_MAP, .peer = "x", .channels = 2 };

    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "hub", .nports = 1 }, &hub), VB_OK);
    for (unsigned i = 0; i < PEERS; i++) {
        const struct tp_node_params np = { .name = "leaf", .nports = 2 };

        cr_assert_eq(tp_node_open(&np, &node[i]), VB_OK);
        tp_port_set(tp_port(node[i], 1),
                    &(struct tp_port_params){ .arg = &r[i], .on_msg = remote_msg });
        cr_assert_eq(tp_link_new(hub, &lp, &out[i]), VB_OK);
        cr_assert_eq(tp_link_new(node[i], &lp, &in[i]), VB_OK);
        cr_assert_eq(tp_link_offer(out[i], &mine), VB_OK);
        cr_assert_eq(tp_link_offer(in[i], &theirs), VB_OK);
        cr_assert_eq(tp_link_connect(out[i], &theirs), VB_OK);
        cr_assert_eq(tp_link_connect(in[i], &mine), VB_OK);
        tp_offer_close(&mine);
        tp_offer_close(&theirs);
    }
    for (unsigned i = 0; i < PEERS; i++)
        for (unsigned k = 0; k <= i; k++)
            cr_assert_eq(tp_send(tp_port(hub, 0), out[i], 1, &op), VB_OK);
    for (unsigned i = 0; i < PEERS; i++) {
        while (tp_progress(tp_port(node[i], 0)) + tp_progress(tp_port(node[i], 1)) > 0)
            continue;
        cr_assert_eq(r[i].received, i + 1);
        tp_node_close(node[i]);
    }
    tp_node_close(hub);
}
