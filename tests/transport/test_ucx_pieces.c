/* Payloads that leave in pieces: kept while they have no place, and refused when they make no sense. */
#include "transport/ucx.h"

#include "ucx_pair.h"

static void until(struct end *e, const unsigned *what, unsigned is)
{
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;

    while (__atomic_load_n(what, __ATOMIC_RELAXED) < is && vb_now_ns() < deadline)
        progress(e, 2);
    CHECK(*what >= is);
}

static int what_has_no_place_is_kept_and_the_next_are_announced(void)
{
    enum { KEPT = 4 };
    static struct end e[2];

    pair_open(e, "127.0.0.1");
    e[1].later = true;
    for (unsigned i = 0; i < KEPT; i++)
        send_start(&e[0], i, MIB - i);
    until(e, &e[1].placed, KEPT);
    send_start(&e[1], 0, 100); /* comes after the choke */
    until(e, &e[0].received, 1);
    for (unsigned i = KEPT; i < 2 * KEPT; i++)
        send_start(&e[0], i, MIB);
    until(e, &e[1].placed, 2 * KEPT);
    for (unsigned i = KEPT; i < 2 * KEPT; i++) /* an announced one ends when it has arrived */
        CHECK(e[0].send[i].done == 0);
    CHECK(e[1].received == 0);
    e[1].later = false;
    tp_retry_places(tp_port(e[1].node, 0));
    until(e, &e[1].received, 2 * KEPT);
    CHECK(e[1].damaged == 0);
    CHECK(tp_link_stats(e[1].link).copied_bytes >= 2 * (MIB - KEPT) &&
          tp_link_stats(e[1].link).copied_bytes <= 2 * KEPT * MIB);
    while (ended(&e[0], VB_OK) < 2 * KEPT)
        progress(e, 2);
    pair_close(e);
    return 0;
}

/* The other side does not hear the choke, nor anything else, for a moment. */
static int what_is_sent_before_the_choke_is_heard_can_be_kept(void)
{
    static struct end e[2];
    struct ucx_link *l;

    pair_open(e, "127.0.0.1");
    e[1].later = true;
    l = (struct ucx_link *)e[1].link;
    ucx_turn_last(l->un);
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e[0], i, MIB);
    atomic_store(&l->un->turn, false);
    (void)ucx_turn(l->un, true);
    until(e, &e[1].placed, MESSAGES);
    CHECK(!tp_link_failed(e[1].link));
    /* and what the sockets hold */
    CHECK(l->kept_bytes > 0 && l->kept_bytes <= TP_CREDIT_BYTES + (32 << 20));
    pair_close(e);
    return 0;
}

static int a_link_may_end_over_what_is_kept(void)
{
    static struct end e[2];

    pair_open(e, "127.0.0.1");
    e[1].later = true;
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e[0], i, MIB);
    until(e, &e[1].placed, 2);
    pair_close(e);
    return 0;
}

static unsigned came_at(const struct end *e, unsigned number)
{
    unsigned i = 0;

    while (i < MESSAGES && e->order[i] != number)
        i++;
    return i;
}

/* The other side reads nothing until sockets and credit are full: of what waits, what is needed first leaves first, and
 * what is needed equally in the order of sending. */
static int what_is_needed_first_overtakes_what_waits(void)
{
    static struct end e[2];
    struct ucx_link *l;

    pair_open(e, "127.0.0.1");
    l = (struct ucx_link *)e[1].link;
    ucx_turn_last(l->un);
    for (unsigned i = 0; i < MESSAGES - 3; i++)
        send_needed(&e[0], i, MIB, 9);
    for (unsigned n = 0; n < 50; n++)
        progress(e, 1);
    CHECK(ended(&e[0], VB_OK) < MESSAGES - 8); /* the last ones wait */
    send_needed(&e[0], MESSAGES - 3, MIB, 5);
    send_needed(&e[0], MESSAGES - 2, 0, 1);
    send_needed(&e[0], MESSAGES - 1, MIB, 9);
    for (unsigned n = 0; n < 20; n++)
        progress(e, 1);
    atomic_store(&l->un->turn, false);
    (void)ucx_turn(l->un, true);
    until(e, &e[1].received, MESSAGES);
    CHECK(came_at(&e[1], MESSAGES - 2) < MESSAGES - 8); /* before some that were sent earlier */
    CHECK(came_at(&e[1], MESSAGES - 3) < MESSAGES - 8);
    CHECK(came_at(&e[1], MESSAGES - 1) == MESSAGES - 1);
    for (unsigned i = 1; i < MESSAGES - 3; i++)
        CHECK(came_at(&e[1], i) > came_at(&e[1], i - 1));
    CHECK(ended(&e[0], VB_OK) == MESSAGES);
    pair_close(e);
    return 0;
}

/* What waits for credit ends with the link. */
static int what_waits_ends_when_its_link_does(void)
{
    static struct end e[2];
    struct ucx_link *l;

    pair_open(e, "127.0.0.1");
    l = (struct ucx_link *)e[1].link;
    ucx_turn_last(l->un);
    for (unsigned i = 0; i < MESSAGES; i++)
        send_start(&e[0], i, MIB);
    for (unsigned n = 0; n < 50; n++)
        progress(e, 1);
    tp_link_fail(e[0].link);
    for (unsigned n = 0; n < 2000 && ended(&e[0], VB_OK) + ended(&e[0], VB_UNREACHABLE) < MESSAGES;
         n++)
        progress(e, 1);
    CHECK(ended(&e[0], VB_UNREACHABLE) > 8);
    CHECK(ended(&e[0], VB_OK) + ended(&e[0], VB_UNREACHABLE) == MESSAGES);
    atomic_store(&l->un->turn, false);
    (void)ucx_turn(l->un, true);
    pair_close(e);
    return 0;
}

/* ---- a peer that has the key, and lies ---- */

struct piece {
    uint64_t payload_bytes, offset, bytes;
    uint32_t seq;
    bool rndv;
};

static void forge(const struct end *e, const struct piece *x)
{
    const struct ucx_link *l = (const struct ucx_link *)e->link;
    static struct {
        struct ucx_prefix prefix;
        struct head head;
    } wire[2];
    static unsigned n;
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags =
            UCP_AM_SEND_FLAG_REPLY | (x->rndv ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
    };

    wire[n].prefix = (struct ucx_prefix){ .link = (uint16_t)l->peer_id,
                                          .hdr_bytes = sizeof(struct head),
                                          .seq = x->seq,
                                          .payload_bytes = x->payload_bytes,
                                          .offset = x->offset };
    CHECK(!UCS_PTR_IS_ERR(ucp_am_send_nbx(l->rail[0].conn->ep, UCX_AM_MSG, &wire[n],
                                          sizeof(wire[n]), e->src, x->bytes, &p)));
    n++;
}

static int a_place_that_is_free_before_the_last_piece_is_found(void)
{
    static struct end e[2];
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;
    struct ucx_node *un;

    pair_open(e, "127.0.0.1");
    un = ((struct ucx_link *)e[0].link)->un;
    ucx_turn_last(un);
    e[1].later = true;
    forge(&e[0], &(struct piece){ .payload_bytes = 100000, .bytes = 60000 });
    while (__atomic_load_n(&e[1].placed, __ATOMIC_RELAXED) < 1 && vb_now_ns() < deadline) {
        ucp_worker_progress(un->worker);
        progress(&e[1], 1);
    }
    e[1].later = false;
    tp_retry_places(tp_port(e[1].node, 0)); /* looks while the payload is not whole */
    progress(&e[1], 1);
    forge(&e[0], &(struct piece){ .payload_bytes = 100000, .offset = 60000, .bytes = 40000 });
    while (e[1].received < 1 && vb_now_ns() < deadline) {
        ucp_worker_progress(un->worker);
        progress(&e[1], 1);
    }
    CHECK(e[1].received == 1);
    _exit(0);
}

static void forged_ends_the_link(const struct piece *x, unsigned n)
{
    static struct end e[2];
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;
    struct ucx_node *un;

    pair_open(e, "127.0.0.1");
    un = ((struct ucx_link *)e[0].link)->un;
    ucx_turn_last(un); /* nobody else goes inside */
    for (unsigned i = 0; i < n; i++)
        forge(&e[0], &x[i]);
    while (!tp_link_failed(e[1].link) && vb_now_ns() < deadline) {
        ucp_worker_progress(un->worker);
        progress(&e[1], 1);
    }
    CHECK(tp_link_failed(e[1].link) && e[1].received == 0);
    _exit(0);
}

#define FORGED(name, ...)                                                                          \
    static int name(void)                                                                          \
    {                                                                                              \
        static const struct piece x[] = { __VA_ARGS__ };                                           \
                                                                                                   \
        forged_ends_the_link(x, VB_ARRAY_LEN(x));                                                  \
        return 0;                                                                                  \
    }

FORGED(piece_beyond_its_payload, { .payload_bytes = 1000, .offset = 900, .bytes = 101 })
FORGED(piece_whose_end_overflows, { .payload_bytes = 1000, .offset = UINT64_MAX - 5, .bytes = 100 })
FORGED(piece_larger_than_its_payload, { .payload_bytes = 10, .bytes = 20 })
FORGED(piece_of_nothing, { .payload_bytes = 1000 })
FORGED(piece_of_another_payload, { .payload_bytes = 1000, .bytes = 100 },
       { .payload_bytes = 2000, .offset = 1500, .bytes = 100 })
FORGED(more_pieces_than_a_payload_has, { .payload_bytes = 1000, .bytes = 600 },
       { .payload_bytes = 1000, .offset = 400, .bytes = 600 })
FORGED(piece_that_is_announced, { .payload_bytes = 2 * MIB, .bytes = MIB, .rndv = true })
FORGED(announcement_of_what_comes_in_pieces, { .payload_bytes = MIB, .bytes = 100 },
       { .payload_bytes = MIB, .bytes = MIB, .rndv = true })
FORGED(piece_that_leaves_a_hole, { .payload_bytes = 1000, .bytes = 100 },
       { .payload_bytes = 1000, .offset = 200, .bytes = 100 })
FORGED(piece_twice, { .payload_bytes = 1000, .bytes = 100 },
       { .payload_bytes = 1000, .bytes = 100 })
FORGED(piece_beyond_the_window, { .payload_bytes = 10, .bytes = 10, .seq = TP_CHANNEL_SLOTS })

int main(void)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } tests[] = {
#define TEST(name) { #name, name }
        TEST(what_has_no_place_is_kept_and_the_next_are_announced),
        TEST(what_is_sent_before_the_choke_is_heard_can_be_kept),
        TEST(a_place_that_is_free_before_the_last_piece_is_found),
        TEST(a_link_may_end_over_what_is_kept),
        TEST(what_is_needed_first_overtakes_what_waits),
        TEST(what_waits_ends_when_its_link_does),
        TEST(piece_beyond_its_payload),
        TEST(piece_whose_end_overflows),
        TEST(piece_larger_than_its_payload),
        TEST(piece_of_nothing),
        TEST(piece_of_another_payload),
        TEST(more_pieces_than_a_payload_has),
        TEST(piece_that_is_announced),
        TEST(announcement_of_what_comes_in_pieces),
        TEST(piece_that_leaves_a_hole),
        TEST(piece_twice),
        TEST(piece_beyond_the_window),
    };
    int failed = 0;

    vb_log_init();
    for (size_t i = 0; i < VB_ARRAY_LEN(tests); i++)
        failed += test_run(tests[i].name, tests[i].run);
    return failed == 0 ? 0 : 1;
}
