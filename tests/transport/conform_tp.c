/* What tp.h promises about messages, on every way. Each test loops over the ways itself. */
#include "harness.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

#define FOR_WAYS(w) for (const struct conf_way *w = conf_ways; w < conf_ways + conf_nways; w++)

static void send_until_accepted(struct pair *p, struct end *e, unsigned channel, struct send *s)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
    enum vb_st st = tp_send(port_of(e, channel), e->link, channel, &s->op);

    while (st == VB_AGAIN && vb_now_ns() < deadline) {
        pair_progress(p);
        st = tp_send(port_of(e, channel), e->link, channel, &s->op);
    }
    cr_assert_eq(st, VB_OK, "%s: %s", p->way->name, vb_st_str(st));
}

Test(tp, payload_of_any_size_arrives_intact)
{
    static const uint64_t sizes[] = { 0, 1, 4095, 4096, 65536, 1 << 20, (16 << 20) + 1 };

    FOR_WAYS(w)
    {
        struct pair p;
        struct send s = { 0 };

        pair_open(&p, w, &(struct pair_params){ .region_bytes = (16 << 20) + 8 });
        for (unsigned i = 0; i < VB_ARRAY_LEN(sizes) * 2; i++) {
            struct end *from = &p.e[i % 2], *to = &p.e[1 - i % 2];

            s = (struct send){ 0 };
            send_fill(&s, i / 2, i % 8, sizes[i / 2]);
            send_until_accepted(&p, from, 0, &s);
            cr_assert(pair_until(&p, &to->received, i / 2 + 1), "%s", w->name);
            cr_assert(pair_until(&p, &s.done, 1), "%s", w->name);
            cr_assert_eq(s.st, VB_OK);
            cr_assert_eq(to->last.payload_bytes, sizes[i / 2]);
            cr_assert_eq(to->damaged + to->disorder, 0, "%s: size %llu", w->name,
                         (unsigned long long)sizes[i / 2]);
        }
        pair_close(&p);
    }
}

/* From so many bytes below to two above where a protocol or a segment may end; from any alignment. */
Test(tp, sizes_around_every_switch_of_protocol_arrive_intact)
{
    static const struct {
        uint64_t at;
        unsigned below; /* what goes before the payload in a segment */
    } edges[] = { { 64, 1 },    { 1024, 1 },    { 4096, 1 },    { 8192, 192 },
                  { 16384, 1 }, { 65536, 192 }, { 1 << 18, 1 }, { 1 << 20, 1 } };
    static const unsigned hdrs[] = { 16, TP_HDR_MAX };

    FOR_WAYS(w)
    {
        struct pair p;
        unsigned n = 0;

        pair_open(&p, w, &(struct pair_params){ .region_bytes = (1 << 20) + 16 });
        for (unsigned i = 0; i < VB_ARRAY_LEN(edges); i++) {
            for (uint64_t bytes = edges[i].at - edges[i].below; bytes <= edges[i].at + 2; bytes++) {
                struct send s = { 0 };

                send_fill(&s, n, n % 13, bytes);
                s.op.hdr_bytes = hdrs[bytes % 2];
                send_until_accepted(&p, &p.e[0], 0, &s);
                cr_assert(pair_until(&p, &p.e[1].received, ++n), "%s: %llu", w->name,
                          (unsigned long long)bytes);
                cr_assert(pair_until(&p, &s.done, 1), "%s", w->name);
                cr_assert_eq(p.e[1].last.payload_bytes, bytes);
                cr_assert_eq(p.e[1].damaged + p.e[1].disorder, 0, "%s: %llu bytes", w->name,
                             (unsigned long long)bytes);
            }
        }
        pair_close(&p);
    }
}

/* Both close, the one that sends first; what nobody took is no reason to hang, nor what was parked. */
Test(tp, nodes_close_while_messages_are_in_flight_both_ways)
{
    enum { N = 600 };
    static const uint64_t sizes[] = { 0, 100, 70000, 8, 200000 };

    FOR_WAYS(w)
    {
        for (unsigned round = 0; round < 4; round++) {
            struct send *s = calloc(2 * N, sizeof(*s));
            struct pair p;

            pair_open(&p, w, &(struct pair_params){ .nports = { 2, 2 }, .channels = 2 });
            p.e[1].answer = round % 2 == 0 ? PLACE_AT_OFFSET : PLACE_LATER;
            for (unsigned i = 0; i < 2 * N; i++) {
                struct end *e = &p.e[i % 2];

                send_fill(&s[i], i / 4, i, sizes[i % VB_ARRAY_LEN(sizes)]);
                cr_assert_eq(tp_send(port_of(e, i / 2 % 2), e->link, i / 2 % 2, &s[i].op), VB_OK);
                if (i % 64 == 0 && round >= 2)
                    pair_progress(&p);
            }
            pair_close(&p);
            for (unsigned i = 0; i < 2 * N; i++)
                cr_assert_leq(s[i].done, 1, "%s", w->name);
            free(s);
        }
    }
}

Test(tp, header_of_any_length_arrives_with_and_without_payload)
{
    FOR_WAYS(w)
    {
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        for (unsigned i = 0; i < 2 * (TP_HDR_MAX + 1); i++) {
            struct send s = { 0 };

            send_fill(&s, 0, 0, i % 2 * 100);
            s.op.hdr_bytes = i / 2;
            p.e[1].next[0] = 0;
            send_until_accepted(&p, &p.e[0], 0, &s);
            cr_assert(pair_until(&p, &p.e[1].received, i + 1), "%s", w->name);
            cr_assert_eq(p.e[1].last.hdr_bytes, i / 2);
            cr_assert_eq(memcmp(p.e[1].last_hdr, s.op.hdr, i / 2), 0, "%s: %u", w->name, i);
            cr_assert(pair_until(&p, &s.done, 1), "%s", w->name);
        }
        cr_assert_eq(p.e[1].damaged, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, messages_of_a_channel_arrive_in_order_at_its_port)
{
    enum { CHANNELS = 4, EACH = 300 };
    static const uint64_t sizes[] = { 0, 100, 70000, 8, 20000 };

    FOR_WAYS(w)
    {
        struct send *s = calloc(CHANNELS * EACH, sizeof(*s));
        unsigned done = 0;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ .nports = { 3, 3 }, .channels = CHANNELS });
        for (unsigned i = 0; i < CHANNELS * EACH; i++) {
            send_fill(&s[i], i / CHANNELS, i, sizes[i % VB_ARRAY_LEN(sizes)]);
            s[i].total = &done;
            send_until_accepted(&p, &p.e[1], i % CHANNELS, &s[i]);
        }
        cr_assert(pair_until(&p, &p.e[0].received, CHANNELS * EACH), "%s", w->name);
        cr_assert(pair_until(&p, &done, CHANNELS * EACH), "%s", w->name);
        cr_assert_eq(p.e[0].disorder + p.e[0].wrong_port + p.e[0].damaged, 0, "%s", w->name);
        pair_close(&p);
        free(s);
    }
}

Test(tp, ends_may_have_different_numbers_of_ports)
{
    FOR_WAYS(w)
    {
        struct send s[6] = { 0 };
        unsigned done = 0;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ .nports = { 1, 3 }, .channels = 6 });
        for (unsigned i = 0; i < 6; i++) {
            send_fill(&s[i], 0, i, 1000);
            s[i].total = &done;
            send_until_accepted(&p, &p.e[i % 2], i, &s[i]);
        }
        cr_assert(pair_until(&p, &done, 6), "%s", w->name);
        cr_assert(pair_until(&p, &p.e[0].received, 3), "%s", w->name);
        cr_assert(pair_until(&p, &p.e[1].received, 3), "%s", w->name);
        cr_assert_eq(p.e[0].damaged + p.e[1].damaged, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, done_runs_once_and_never_inside_send)
{
    enum { N = 100 };

    FOR_WAYS(w)
    {
        struct send s[N] = { 0 };
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        for (unsigned i = 0; i < N; i++) {
            send_fill(&s[i], i, 0, i % 2 * 5000);
            cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s[i].op), VB_OK);
            cr_assert_eq(s[i].done, 0, "%s", w->name);
        }
        for (unsigned i = 0; i < N; i++)
            cr_assert(pair_until(&p, &s[i].done, 1), "%s", w->name);
        cr_assert(pair_until(&p, &p.e[1].received, N), "%s", w->name);
        pair_settle(&p);
        for (unsigned i = 0; i < N; i++)
            cr_assert(s[i].done == 1 && s[i].st == VB_OK, "%s: %u", w->name, i);
        cr_assert_eq(p.e[1].received, N, "%s", w->name);
        pair_close(&p);
    }
}

static struct end *chain_end;
static struct send *chain_send;
static unsigned chain_left;

static void send_again(struct tp_op *op, enum vb_st st)
{
    if (st == VB_OK && --chain_left > 0)
        cr_assert_eq(tp_send(port_of(chain_end, 0), chain_end->link, 0, &chain_send->op), VB_OK);
}

Test(tp, done_may_send_the_same_op_again)
{
    FOR_WAYS(w)
    {
        struct send s = { 0 };
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        send_fill(&s, 0, 0, 10);
        s.op.done = send_again;
        chain_end = &p.e[0];
        chain_send = &s;
        chain_left = 20;
        cr_assert_eq(tp_send(port_of(chain_end, 0), chain_end->link, 0, &s.op), VB_OK);
        cr_assert(pair_until(&p, &p.e[1].received, 20), "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, full_channel_answers_again_and_everything_arrives_after_retry)
{
    enum { N = 4 * TP_CHANNEL_SLOTS };

    FOR_WAYS(w)
    {
        struct send *s = calloc(N, sizeof(*s));
        unsigned done = 0, i = 0;
        enum vb_st st = VB_OK;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        for (; i < N && st == VB_OK; i += st == VB_OK) {
            send_fill(&s[i], i, i % 1000, i % 3);
            s[i].total = &done;
            st = tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s[i].op);
        }
        cr_assert_eq(st, VB_AGAIN, "%s: %u sent", w->name, i);
        for (; i < N; i++) {
            send_fill(&s[i], i, i % 1000, i % 3);
            s[i].total = &done;
            send_until_accepted(&p, &p.e[0], 0, &s[i]);
        }
        cr_assert(pair_until(&p, &p.e[1].received, N), "%s", w->name);
        cr_assert(pair_until(&p, &done, N), "%s", w->name);
        cr_assert_eq(p.e[1].disorder + p.e[1].damaged, 0, "%s", w->name);
        pair_close(&p);
        free(s);
    }
}

Test(tp, mistakes_are_refused_and_nothing_is_sent)
{
    static const struct {
        uint64_t offset, bytes;
        uint32_t region, hdr_bytes;
    } bad[] = {
        { 0, (256 << 10) + 1, 0, 8 },
        { 256 << 10, 1, 0, 8 },
        { 1, 256 << 10, 0, 8 },
        { UINT64_MAX, 2, 0, 8 },
        { 2, UINT64_MAX, 0, 8 },
        { UINT64_MAX, UINT64_MAX, 0, 8 },
        { 0, 1, 2, 8 },
        { 0, 1, UINT32_MAX, 8 },
        { 0, 1, TP_REGIONS_MAX, 8 },
        { 0, 0, 0, TP_HDR_MAX + 1 },
        { 0, 0, 0, UINT32_MAX },
    };

    FOR_WAYS(w)
    {
        struct send s = { 0 };
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ .nports = { 2, 2 }, .channels = 2 });

        struct end *a = &p.e[0];

        for (unsigned i = 0; i < VB_ARRAY_LEN(bad); i++) {
            send_fill(&s, 0, bad[i].offset, bad[i].bytes);
            s.op.region = bad[i].region;
            s.op.hdr_bytes = bad[i].hdr_bytes;
            cr_assert_eq(tp_send(tp_port(a->node, 0), a->link, 0, &s.op), VB_INVAL, "%s: %u",
                         w->name, i);
        }
        send_fill(&s, 0, 0, 1);
        cr_assert_eq(tp_send(tp_port(a->node, 0), a->link, 1, &s.op), VB_INVAL);
        cr_assert_eq(tp_send(tp_port(a->node, 0), a->link, 2, &s.op), VB_INVAL);
        cr_assert_eq(tp_send(tp_port(a->node, 0), p.e[1].link, 0, &s.op), VB_INVAL);
        pair_settle(&p);
        cr_assert_eq(p.e[1].received + s.done, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, failed_link_ends_ops_as_unreachable_and_refuses_more)
{
    enum { N = 50 };

    FOR_WAYS(w)
    {
        struct send s[N] = { 0 }, more = { 0 };
        unsigned done = 0;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        for (unsigned i = 0; i < N; i++) {
            send_fill(&s[i], i, 0, i % 2 * 4096);
            s[i].total = &done;
            cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s[i].op), VB_OK);
        }
        tp_link_fail(p.e[0].link);
        tp_link_fail(p.e[0].link);
        cr_assert_eq(done, 0, "%s", w->name);
        cr_assert(pair_until(&p, &done, N), "%s", w->name);
        for (unsigned i = 0; i < N; i++)
            cr_assert(s[i].done == 1 && s[i].st == VB_UNREACHABLE, "%s: %u", w->name, i);
        send_fill(&more, 0, 0, 1);
        cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &more.op), VB_UNREACHABLE);
        cr_assert(tp_link_failed(p.e[0].link));
        cr_assert_eq(tp_link_ready(p.e[0].link), VB_UNREACHABLE);
        pair_settle(&p);
        cr_assert_eq(more.done, 0);
        pair_close(&p);
    }
}

Test(tp, failed_link_delivers_nothing)
{
    FOR_WAYS(w)
    {
        struct send s = { 0 };
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ 0 });
        send_fill(&s, 0, 0, 100);
        tp_link_fail(p.e[1].link);
        if (tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op) == VB_OK)
            pair_settle(&p);
        cr_assert_eq(p.e[1].received, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, payload_without_a_place_fails_the_link)
{
    FOR_WAYS(w)
    {
        const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
        struct send s = { 0 };
        struct pair p;

        if (!w->place)
            continue;
        pair_open(&p, w, &(struct pair_params){ 0 });
        p.e[1].answer = PLACE_NULL;
        send_fill(&s, 0, 0, 100000);
        send_until_accepted(&p, &p.e[0], 0, &s);
        while (!tp_link_failed(p.e[1].link) && vb_now_ns() < deadline)
            pair_progress(&p);
        cr_assert(tp_link_failed(p.e[1].link), "%s", w->name);
        cr_assert_eq(p.e[1].received, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, parked_payload_arrives_after_retry)
{
    FOR_WAYS(w)
    {
        struct send s[3] = { 0 };
        struct pair p;

        if (!w->place)
            continue;
        pair_open(&p, w, &(struct pair_params){ 0 });
        p.e[1].answer = PLACE_LATER;
        for (unsigned i = 0; i < 3; i++) {
            send_fill(&s[i], i, i, 100000);
            send_until_accepted(&p, &p.e[0], 0, &s[i]);
        }
        pair_until(&p, &p.e[1].placed, 1);
        cr_assert_gt(p.e[1].placed, 0, "%s", w->name);
        pair_settle(&p);
        tp_retry_places(tp_port(p.e[1].node, 0)); /* still no place */
        pair_settle(&p);
        cr_assert_eq(p.e[1].received, 0, "%s", w->name);
        p.e[1].answer = PLACE_AT_OFFSET;
        tp_retry_places(tp_port(p.e[1].node, 0));
        cr_assert(pair_until(&p, &p.e[1].received, 3), "%s", w->name);
        for (unsigned i = 0; i < 3; i++)
            cr_assert(pair_until(&p, &s[i].done, 1), "%s", w->name);
        cr_assert_eq(p.e[1].damaged, 0, "%s", w->name);
        pair_close(&p);
    }
}

Test(tp, stats_count_messages_and_payload_of_both_directions)
{
    FOR_WAYS(w)
    {
        struct send s[4] = { 0 };
        unsigned done = 0;
        struct pair p;

        pair_open(&p, w, &(struct pair_params){ .nports = { 2, 2 }, .channels = 2 });
        for (unsigned i = 0; i < 4; i++) {
            send_fill(&s[i], i / 2, 0, i * 1000);
            s[i].total = &done;
            send_until_accepted(&p, &p.e[0], i % 2, &s[i]);
        }
        cr_assert(pair_until(&p, &p.e[1].received, 4), "%s", w->name);
        cr_assert(pair_until(&p, &done, 4), "%s", w->name);

        const struct tp_link_stats a = tp_link_stats(p.e[0].link), b = tp_link_stats(p.e[1].link);

        cr_assert(a.sent_msgs == 4 && a.sent_bytes == 6000 && a.recv_msgs == 0, "%s", w->name);
        cr_assert(b.recv_msgs == 4 && b.recv_bytes == 6000 && b.sent_msgs == 0, "%s", w->name);
        cr_assert(w->place || b.copied_bytes == 0, "%s", w->name);
        pair_close(&p);
    }
}
