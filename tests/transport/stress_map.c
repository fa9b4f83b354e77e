/*
 * Two nodes in two threads over map. One sends numbered messages whose payload is made from the
 * number; the other checks each and answers it; a piece of memory is written again only after the
 * answer. Both sleep as soon as there is nothing to do. Before that, one thread wakes the other's
 * wait again and again. VB_LONG: more of both.
 */
#include "far.h"

#include "base/clock.h"
#include "base/util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 32,
    PIECE_WORDS = 128,
    PIECE_BYTES = PIECE_WORDS * 8,
};

struct side {
    struct tp_node *node;
    struct tp_link *link;
    struct tp_port *port;
    uint64_t received, wrong;
};

static struct side a, b;
static uint64_t total, deadline_ns;
static unsigned nudges;

static void got_answer(void *arg, const struct tp_rx *rx)
{
    struct side *s = arg;
    uint64_t number;

    memcpy(&number, rx->hdr, sizeof(number));
    s->wrong += number != s->received++ || rx->hdr_bytes != sizeof(number);
}

static void got_message(void *arg, const struct tp_rx *rx)
{
    struct side *s = arg;
    const uint64_t *word = rx->payload;
    uint64_t number;

    memcpy(&number, rx->hdr, sizeof(number));
    s->wrong += number != s->received++ || rx->payload_bytes != PIECE_BYTES;
    for (unsigned i = 0; i < PIECE_WORDS; i++)
        s->wrong += word[i] != number * PIECE_WORDS + i;
}

struct piece {
    struct tp_op op;
    bool busy;
};

static void finished(struct tp_op *op, enum vb_st st)
{
    container_of(op, struct piece, op)->busy = false;
}

static bool side_open(struct side *s, const char *name,
                      void (*on_msg)(void *arg, const struct tp_rx *rx))
{
    uint32_t id;

    if (tp_node_open(&(struct tp_node_params){ .name = name, .nports = 1 }, &s->node) != VB_OK ||
        tp_region_new(s->node, WINDOW * PIECE_BYTES, false, &id) != VB_OK)
        return false;
    s->port = tp_port(s->node, 0);
    tp_port_set(s->port, &(struct tp_port_params){ .arg = s, .on_msg = on_msg });
    return tp_link_new(s->node,
                       &(struct tp_link_params){
                           .way = TP_MAP, .peer = "other", .channels = 1, .initiator = s == &a },
                       &s->link) == VB_OK;
}

static bool join(void)
{
    struct tp_offer x, y;

    if (tp_link_offer(a.link, &x) != VB_OK || tp_link_offer(b.link, &y) != VB_OK)
        return false;

    const bool ok = tp_link_connect(a.link, &y) == VB_OK && tp_link_connect(b.link, &x) == VB_OK;

    tp_offer_close(&x);
    tp_offer_close(&y);
    return ok;
}

static bool send_number(struct side *s, struct tp_op *op, uint64_t number)
{
    memcpy(op->hdr, &number, sizeof(number));
    op->hdr_bytes = sizeof(number);
    return tp_send(s->port, s->link, 0, op) == VB_OK;
}

/* The answering side. */
static void *answer_main(void *arg)
{
    struct tp_op op = { 0 };
    uint64_t answered = 0;

    while (answered < total && vb_now_ns() < deadline_ns) {
        tp_wait(b.port, deadline_ns);
        while (answered < b.received && send_number(&b, &op, answered))
            answered++;
    }
    return NULL;
}

/* False: the channel is full. */
static bool send_piece(struct piece *p, uint64_t number)
{
    const uint64_t at = number % WINDOW;
    uint64_t *words = (uint64_t *)tp_region_base(a.node, 0) + at * PIECE_WORDS;

    for (unsigned i = 0; i < PIECE_WORDS; i++)
        words[i] = number * PIECE_WORDS + i;
    p->op.done = finished;
    p->op.offset = at * PIECE_BYTES;
    p->op.bytes = PIECE_BYTES;
    p->busy = send_number(&a, &p->op, number);
    return p->busy;
}

static void send_all(void)
{
    struct piece piece[WINDOW] = { 0 };
    uint64_t sent = 0;

    while (a.received < total && vb_now_ns() < deadline_ns) {
        while (sent < total && sent < a.received + WINDOW && !piece[sent % WINDOW].busy &&
               send_piece(&piece[sent % WINDOW], sent))
            sent++;
        tp_wait(a.port, deadline_ns);
    }
    while (tp_progress(a.port) > 0)
        continue;
}

static atomic_uint waits;

/* One wake for each wait of the other thread. */
static void *nudge_main(void *arg)
{
    for (unsigned i = 0; i < nudges && vb_now_ns() < deadline_ns; i++) {
        tp_wake(a.port);
        while (atomic_load(&waits) <= i && vb_now_ns() < deadline_ns)
            sched_yield();
    }
    return NULL;
}

static bool wakes_end_waits(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, nudge_main, NULL) != 0)
        return false;
    for (unsigned i = 0; i < nudges; i++) {
        tp_wait(a.port, deadline_ns);
        atomic_fetch_add(&waits, 1);
    }
    pthread_join(thread, NULL);
    return vb_now_ns() < deadline_ns;
}

int main(void)
{
    pthread_t thread;

    total = far_rounds(100000, 10000000);
    nudges = far_rounds(10000, 1000000);
    deadline_ns = vb_now_ns() + far_rounds(100, 1500) * VB_SEC;
    if (!side_open(&a, "a", got_answer) || !side_open(&b, "b", got_message) || !join() ||
        !wakes_end_waits() || pthread_create(&thread, NULL, answer_main, NULL) != 0)
        return 1;
    send_all();
    pthread_join(thread, NULL);
    printf("%llu of %llu messages, %llu answers, %llu wrong\n", (unsigned long long)b.received,
           (unsigned long long)total, (unsigned long long)a.received,
           (unsigned long long)(a.wrong + b.wrong));

    const bool ok = a.received == total && b.received == total && a.wrong + b.wrong == 0;

    tp_node_close(a.node);
    tp_node_close(b.node);
    return ok ? 0 : 1;
}
