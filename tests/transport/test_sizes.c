/*
 * Payloads around 2^31 and 2^32 bytes over map, tcp and loop. The source is one region of a little over
 * 4 GiB, zero but for marks; over tcp the payload lands in memory that exists where it was written.
 */
#include "transport/tp.h"

#include "base/clock.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SKIP = 77, WAIT_S = 120 };

#define GIB (UINT64_C(1) << 30)
#define ROOM (4 * GIB + 4096)
#define MARK_EVERY ((UINT64_C(1) << 28) + 4099)

static const uint64_t sizes[] = { 2 * GIB - 1, 2 * GIB, 2 * GIB + 1, 4 * GIB + 1 };

struct side {
    struct tp_node *node;
    struct tp_link *link;
    unsigned char *dst;
    uint64_t got, wrong;
    bool received;
};

static unsigned char mark(uint64_t at)
{
    return (unsigned char)(1 + at % 251);
}

static void on_msg(void *arg, const struct tp_rx *rx)
{
    struct side *s = arg;
    const unsigned char *p = rx->payload;

    s->received = true;
    s->got = rx->payload_bytes;
    for (uint64_t at = 0; at < rx->payload_bytes; at += MARK_EVERY)
        s->wrong += p[at] != mark(at);
    s->wrong += p[rx->payload_bytes - 1] != mark(rx->payload_bytes - 1);
}

static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    return payload_bytes <= ROOM ? ((struct side *)arg)->dst : NULL;
}

static bool side_open(struct side *s, enum tp_way way, const char *name, bool sends)
{
    const struct tp_link_params lp = { .way = way,
                                       .peer = sends ? "receiver" : "sender",
                                       .channels = 1,
                                       .initiator = sends,
                                       .rail = { { .host = "127.0.0.1" } } };
    uint32_t id;

    if (tp_node_open(&(struct tp_node_params){ .name = name, .nports = 1 }, &s->node) != VB_OK ||
        tp_region_new(s->node, sends ? ROOM : 4096, false, &id) != VB_OK)
        return false;
    tp_port_set(tp_port(s->node, 0),
                &(struct tp_port_params){
                    .arg = s, .on_msg = on_msg, .place = way == TP_TCP ? place : NULL });
    return tp_link_new(s->node, &lp, &s->link) == VB_OK;
}

static bool join(struct side *a, struct side *b)
{
    const uint64_t deadline = vb_now_ns() + 30 * VB_SEC;
    struct tp_offer x, y;

    if (tp_link_offer(a->link, &x) != VB_OK || tp_link_offer(b->link, &y) != VB_OK)
        return false;

    const bool ok = tp_link_connect(b->link, &x) == VB_OK && tp_link_connect(a->link, &y) == VB_OK;

    tp_offer_close(&x);
    tp_offer_close(&y);
    while (ok && (tp_link_ready(a->link) == VB_AGAIN || tp_link_ready(b->link) == VB_AGAIN) &&
           vb_now_ns() < deadline)
        usleep(1000);
    return ok && tp_link_ready(a->link) == VB_OK && tp_link_ready(b->link) == VB_OK;
}

static unsigned transfer(struct side *a, struct side *b, uint64_t bytes, const char *way)
{
    const uint64_t deadline = vb_now_ns() + WAIT_S * VB_SEC;
    unsigned char *src = tp_region_base(a->node, 0);
    struct tp_op op = { .bytes = bytes, .hdr_bytes = 8 };

    src[bytes - 1] = mark(bytes - 1);
    b->received = false;
    b->wrong = 0;
    if (tp_send(tp_port(a->node, 0), a->link, 0, &op) != VB_OK)
        return 1;
    while (!b->received && vb_now_ns() < deadline) {
        tp_wait(tp_port(b->node, 0), vb_now_ns() + VB_MS);
        tp_progress(tp_port(a->node, 0));
    }

    const bool good = b->received && b->got == bytes && b->wrong == 0;

    src[bytes - 1] = (bytes - 1) % MARK_EVERY == 0 ? mark(bytes - 1) : 0;
    printf("%s %s %llu bytes\n", good ? "pass" : "FAIL", way, (unsigned long long)bytes);
    return !good;
}

static unsigned run(enum tp_way way, const char *name)
{
    struct side a = { 0 }, b = { 0 };
    unsigned bad = 1;

    b.dst = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (b.dst != MAP_FAILED && side_open(&a, way, "sender", true) &&
        side_open(&b, way, "receiver", false) && join(&a, &b)) {
        unsigned char *src = tp_region_base(a.node, 0);

        for (uint64_t at = 0; at < ROOM; at += MARK_EVERY)
            src[at] = mark(at);
        bad = 0;
        for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++)
            bad += transfer(&a, &b, sizes[i], name);
    }
    (void)tp_node_close(a.node);
    (void)tp_node_close(b.node);
    if (b.dst != MAP_FAILED)
        munmap(b.dst, ROOM);
    return bad;
}

int main(void)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    if (memory < 10 * GIB) {
        printf("skipped: needs 10 GiB of free memory\n");
        return SKIP;
    }
    return run(TP_MAP, "map") + run(TP_LOOP, "loop") + run(TP_TCP, "tcp") == 0 ? 0 : 1;
}
