/*
 * Two nodes over tcp, each with several ports, each port a thread that sends, waits and now and then is
 * busy with something else for so long that others have to do UCX's work. All messages arrive once, in
 * order, whole, and nobody waits for ever: a wake-up or a turn that is lost ends this at its deadline.
 * argv[1]: messages per channel and direction. VB_TEST_RDMA: the address of an RDMA device to use instead.
 */
#include "transport/tp.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/util.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 6, WINDOW = 16, PIECE = 128 << 10, DEADLINE_S = 40, SRC = 0, DST = 1 };
enum { PAUSE_EVERY = 50, PAUSE_MAX_NS = 2000000, SEED = 5 };

struct head {
    uint64_t number, have; /* have: how many the sender has received on this channel */
    uint32_t is_data, channel;
};

struct side;
struct chan {
    struct side *side;
    struct piece {
        struct tp_op op;
        bool busy;
    } piece[WINDOW], ack;
    uint64_t sent, received, told, peer_has, wrong;
};

struct side {
    struct tp_node *node;
    struct tp_link *link;
    unsigned nports;
    unsigned char *src, *dst;
    struct chan chan[CHANNELS];
    struct runner {
        struct side *side;
        unsigned port;
        pthread_t thread;
    } runner[CHANNELS];
};

static struct side sides[2];
static uint64_t total = 500, deadline_ns;

/* Small ones, those around the switch to rendezvous, and large ones. */
static uint64_t bytes_of(uint64_t number)
{
    const uint64_t r = vb_random_u64(SEED, 0, number);

    return r % 3 == 0 ? 8 : r % 3 == 1 ? 65536 - 16 + r / 3 % 32 : 8 + r / 3 % (PIECE - 8);
}

static uint64_t place_of(unsigned channel, uint64_t number)
{
    return ((uint64_t)channel * WINDOW + number % WINDOW) * PIECE;
}

static void on_msg(void *arg, const struct tp_rx *rx)
{
    struct chan *c = &((struct side *)arg)->chan[rx->channel];
    uint64_t first, last;
    struct head h;

    memcpy(&h, rx->hdr, sizeof(h));
    c->peer_has = VB_MAX(c->peer_has, h.have);
    if (h.is_data == 0)
        return;
    c->wrong += h.number != c->received++ || rx->payload_bytes != bytes_of(h.number);
    memcpy(&first, rx->payload, sizeof(first));
    memcpy(&last, (const char *)rx->payload + rx->payload_bytes - 8, sizeof(last));
    c->wrong += first != h.number || last != h.number;
}

static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    struct side *s = arg;
    struct head h;
    unsigned channel;

    memcpy(&h, hdr, sizeof(h));
    channel = (unsigned)h.channel;
    return channel < CHANNELS && payload_bytes <= PIECE ? s->dst + place_of(channel, h.number)
                                                        : NULL;
}

static void finished(struct tp_op *op, enum vb_st st)
{
    container_of(op, struct piece, op)->busy = false;
}

static bool post(struct chan *c, unsigned channel, struct piece *p, struct head h, uint64_t bytes)
{
    struct side *s = c->side;

    h.have = c->received;
    h.channel = channel;
    p->op.done = finished;
    p->op.region = SRC;
    p->op.offset = place_of(channel, h.number);
    p->op.bytes = bytes;
    p->op.hdr_bytes = sizeof(h);
    memcpy(p->op.hdr, &h, sizeof(h));
    p->busy = tp_send(tp_port(s->node, channel % s->nports), s->link, channel, &p->op) == VB_OK;
    if (p->busy)
        c->told = h.have;
    return p->busy;
}

static void send_some(struct chan *c, unsigned channel)
{
    while (c->sent < total && c->sent < c->peer_has + WINDOW && !c->piece[c->sent % WINDOW].busy) {
        const uint64_t number = c->sent, bytes = bytes_of(number);
        unsigned char *at = c->side->src + place_of(channel, number);

        memcpy(at, &number, sizeof(number));
        memcpy(at + bytes - 8, &number, sizeof(number));
        if (!post(c, channel, &c->piece[number % WINDOW],
                  (struct head){ .number = number, .is_data = 1 }, bytes))
            return;
        c->sent++;
    }
    if (c->received >= c->told + WINDOW / 2 || (c->received == total && c->told < total))
        if (!c->ack.busy)
            (void)post(c, channel, &c->ack, (struct head){ 0 }, 0);
}

static bool is_over(const struct chan *c)
{
    return c->sent == total && c->received == total && c->peer_has == total && c->told == total &&
           !c->ack.busy;
}

static void be_busy(uint64_t ns)
{
    const uint64_t until = vb_now_ns() + ns;

    while (vb_now_ns() < until)
        continue;
}

static void *run(void *arg)
{
    const struct runner *r = arg;
    struct side *s = r->side;
    struct tp_port *port = tp_port(s->node, r->port);
    bool over = false;

    for (uint64_t turn = 0; !over && vb_now_ns() < deadline_ns; turn++) {
        over = true;
        for (unsigned c = r->port; c < CHANNELS; c += s->nports) {
            send_some(&s->chan[c], c);
            over = over && is_over(&s->chan[c]);
        }
        if (!over)
            tp_wait(port, deadline_ns);
        if (turn % PAUSE_EVERY == 0)
            be_busy(vb_random_u64(SEED, 1 + r->port, turn) % PAUSE_MAX_NS);
    }
    return NULL;
}

static bool side_open(struct side *s, const char *name, unsigned nports, uint64_t spin_ns)
{
    const struct tp_node_params np = { .name = name, .nports = nports, .spin_ns = spin_ns };
    const char *rdma = getenv("VB_TEST_RDMA");
    const struct tp_link_params lp = { .way = rdma != NULL ? TP_RDMA : TP_TCP,
                                       .peer = s == &sides[0] ? "b" : "a",
                                       .channels = CHANNELS,
                                       .initiator = s == &sides[0],
                                       .rail = { { .host = rdma != NULL ? rdma : "127.0.0.1" } },
                                       .key = { 3 } };
    uint32_t id;

    s->nports = nports;
    if (tp_node_open(&np, &s->node) != VB_OK)
        return false;
    for (unsigned i = SRC; i <= DST; i++)
        if (tp_region_new(s->node, (uint64_t)CHANNELS * WINDOW * PIECE, false, &id) != VB_OK)
            return false;
    s->src = tp_region_base(s->node, SRC);
    s->dst = tp_region_base(s->node, DST);
    for (unsigned c = 0; c < CHANNELS; c++)
        s->chan[c] = (struct chan){ .side = s };
    for (unsigned i = 0; i < nports; i++)
        tp_port_set(tp_port(s->node, i),
                    &(struct tp_port_params){ .arg = s, .on_msg = on_msg, .place = place });
    return tp_link_new(s->node, &lp, &s->link) == VB_OK;
}

static bool join(void)
{
    struct tp_offer a, b;

    if (tp_link_offer(sides[0].link, &a) != VB_OK || tp_link_offer(sides[1].link, &b) != VB_OK ||
        tp_link_connect(sides[0].link, &b) != VB_OK || tp_link_connect(sides[1].link, &a) != VB_OK)
        return false;
    while (vb_now_ns() < deadline_ns &&
           (tp_link_ready(sides[0].link) == VB_AGAIN || tp_link_ready(sides[1].link) == VB_AGAIN))
        usleep(1000);
    return tp_link_ready(sides[0].link) == VB_OK && tp_link_ready(sides[1].link) == VB_OK;
}

/* How many channels are not in order and complete. */
static unsigned check(const struct side *s)
{
    unsigned bad = 0;

    for (unsigned c = 0; c < CHANNELS; c++) {
        const struct chan *ch = &s->chan[c];

        if (is_over(ch) && ch->wrong == 0)
            continue;
        fprintf(stderr, "channel %u: sent %llu, received %llu, peer has %llu, %llu wrong\n", c,
                (unsigned long long)ch->sent, (unsigned long long)ch->received,
                (unsigned long long)ch->peer_has, (unsigned long long)ch->wrong);
        bad++;
    }
    return bad;
}

static unsigned round_of(unsigned ports_a, unsigned ports_b, uint64_t spin_ns)
{
    unsigned bad = 0;

    memset(sides, 0, sizeof(sides));
    deadline_ns = vb_now_ns() + DEADLINE_S * VB_SEC;
    if (!side_open(&sides[0], "a", ports_a, spin_ns) ||
        !side_open(&sides[1], "b", ports_b, spin_ns) || !join())
        return 1;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned p = 0; p < sides[i].nports; p++) {
            sides[i].runner[p] = (struct runner){ .side = &sides[i], .port = p };
            if (pthread_create(&sides[i].runner[p].thread, NULL, run, &sides[i].runner[p]) != 0)
                abort();
        }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned p = 0; p < sides[i].nports; p++)
            pthread_join(sides[i].runner[p].thread, NULL);
    for (unsigned i = 0; i < 2; i++) {
        bad += check(&sides[i]);
        tp_node_close(sides[i].node);
    }
    printf("%u and %u ports, spin %llu us: %u bad channels\n", ports_a, ports_b,
           (unsigned long long)spin_ns / 1000, bad);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        total = strtoull(argv[1], NULL, 10);
    return round_of(1, 1, 20000) + round_of(1, 3, 0) + round_of(2, 3, 20000) == 0 ? 0 : 1;
}
