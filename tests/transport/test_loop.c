/* What the loop's seed and knobs do. */
#include "harness.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "transport/tp_loop.h"

enum { N = 400, ROOM = 2 * N };

static const struct conf_way way = { "loop", TP_LOOP, false };
static const struct conf_way placed = { "loop, placed", TP_LOOP, true };

struct trace {
    unsigned n;
    struct {
        uint64_t number, step;
        uint32_t channel;
    } at[ROOM];
    unsigned damaged, done;
};
static struct trace *now;

static void record(struct end *e, const struct tp_rx *rx)
{
    struct msg_hdr h;

    memcpy(&h, rx->hdr, sizeof(h));
    now->at[now->n].number = h.number;
    now->at[now->n].step = tp_loop_steps(e->node);
    now->at[now->n++].channel = rx->channel;
}

/* N messages over two channels under these knobs; all deliveries go into t. */
static void run(const struct conf_way *w, uint64_t seed, struct tp_loop_knobs knobs,
                struct trace *t)
{
    struct send *s = calloc(N, sizeof(*s));
    struct pair p;

    memset(t, 0, sizeof(*t));
    now = t;
    pair_open(&p, w, &(struct pair_params){ .channels = 2, .seed = seed });
    knobs.place = w->place;
    tp_loop_set(p.e[0].link, &knobs);
    p.e[1].hook = record;
    for (unsigned i = 0; i < N; i++) {
        send_fill(&s[i], i / 2, i, 100);
        s[i].total = &t->done;
        cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, i % 2, &s[i].op), VB_OK);
        if (i % 5 == 0)
            pair_progress(&p);
    }
    for (unsigned i = 0; i < 100; i++)
        pair_progress(&p);
    t->damaged = p.e[1].damaged;
    pair_close(&p);
    free(s);
}

/* How many messages of channel c came after one with a higher number. */
static unsigned overtaken(const struct trace *t, uint32_t c)
{
    uint64_t highest = 0;
    unsigned late = 0;

    for (unsigned i = 0; i < t->n; i++) {
        if (t->at[i].channel != c)
            continue;
        late += t->at[i].number < highest;
        if (t->at[i].number > highest)
            highest = t->at[i].number;
    }
    return late;
}

Test(loop, same_seed_repeats_every_step_and_another_does_not)
{
    const struct tp_loop_knobs knobs = {
        .delay = 0.5f, .reorder = 0.2f, .duplicate = 0.1f, .drop = 0.1f
    };
    static struct trace a, b, c;

    run(&way, 7, knobs, &a);
    run(&way, 7, knobs, &b);
    run(&way, 8, knobs, &c);
    cr_assert_eq(memcmp(&a, &b, sizeof(a)), 0);
    cr_assert_neq(memcmp(&a, &c, sizeof(a)), 0);
    cr_assert(a.damaged == 0 && a.done == N && c.done == N);
}

Test(loop, seed_zero_delivers_in_order_at_once_whatever_the_knobs)
{
    const struct tp_loop_knobs knobs = { .delay = 1, .reorder = 1, .duplicate = 1, .drop = 1 };
    static struct trace t;

    run(&way, 0, knobs, &t);
    cr_assert_eq(t.n, N);
    cr_assert_eq(overtaken(&t, 0) + overtaken(&t, 1), 0);
}

Test(loop, delay_reorders_across_channels_only)
{
    static struct trace t;
    unsigned crossed = 0;

    run(&way, 1, (struct tp_loop_knobs){ .delay = 0.5f }, &t);
    cr_assert_eq(t.n, N);
    cr_assert_eq(overtaken(&t, 0) + overtaken(&t, 1), 0);
    for (unsigned i = 1; i < t.n; i++)
        crossed += t.at[i].number + 2 < t.at[i - 1].number;
    cr_assert_gt(crossed, 0);
}

Test(loop, reorder_lets_messages_of_a_channel_overtake)
{
    static struct trace t;

    run(&placed, 1, (struct tp_loop_knobs){ .reorder = 0.3f }, &t);
    cr_assert(t.n == N && t.done == N && t.damaged == 0);
    cr_assert_gt(overtaken(&t, 0), 0);
}

Test(loop, dropped_messages_are_done_and_never_arrive)
{
    static struct trace t;

    run(&placed, 3, (struct tp_loop_knobs){ .drop = 0.25f }, &t);
    cr_assert(t.n < N && t.n > N / 2 && t.done == N);
    run(&placed, 3, (struct tp_loop_knobs){ .drop = 1 }, &t);
    cr_assert(t.n == 0 && t.done == N);
}

Test(loop, duplicates_arrive_twice_and_are_done_once)
{
    static struct trace t;
    static unsigned seen[2][N];

    run(&placed, 3, (struct tp_loop_knobs){ .duplicate = 1 }, &t);
    cr_assert(t.n == 2 * N && t.done == N && t.damaged == 0);
    for (unsigned i = 0; i < t.n; i++)
        seen[t.at[i].channel][t.at[i].number]++;
    for (unsigned i = 0; i < N; i++)
        cr_assert_eq(seen[i % 2][i / 2], 2);
}

Test(loop, wait_lets_steps_pass_for_a_delayed_message)
{
    const uint64_t deadline = vb_now_ns() + PAIR_DEADLINE_S * VB_SEC;
    struct send s = { 0 };
    struct pair p;

    pair_open(&p, &way, &(struct pair_params){ .seed = 5 });
    tp_loop_set(p.e[0].link, &(struct tp_loop_knobs){ .delay = 1, .delay_steps = 1000 });
    send_fill(&s, 0, 0, 10);
    cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_OK);
    cr_assert_eq(tp_wait(tp_port(p.e[1].node, 0), deadline), 1);
    cr_assert_gt(tp_loop_steps(p.e[1].node), 2);
    pair_close(&p);
}

Test(loop, closing_one_end_leaves_the_other_usable)
{
    struct send s = { 0 };
    struct pair p;

    pair_open(&p, &way, &(struct pair_params){ 0 });
    send_fill(&s, 0, 0, 0);
    cr_assert_eq(tp_send(tp_port(p.e[0].node, 0), p.e[0].link, 0, &s.op), VB_OK);
    tp_node_close(p.e[0].node);
    tp_progress(tp_port(p.e[1].node, 0));
    cr_assert_eq(p.e[1].received, 0);
    cr_assert_eq(tp_link_ready(p.e[1].link), VB_AGAIN);
    tp_node_close(p.e[1].node);
}
