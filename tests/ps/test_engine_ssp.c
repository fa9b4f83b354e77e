/* Bounded staleness, one rule at a time. Proofs over all schedules: explore_engine.c, witness_engine.c. */
#include "engine_rig.h"

#include "base/random.h"

static struct rig bounded(uint32_t lo, uint32_t hi)
{
    return rig_started((struct ps_engine_params){
        .nworkers = W, .nchunks = K, .mode = PS_SSP, .staleness_lo = lo, .staleness_hi = hi });
}

/* Action i answers worker at clock, so much behind and ahead. */
static void answers(const struct rig *r, size_t i, uint32_t w, uint64_t clock, uint64_t behind,
                    uint64_t ahead)
{
    cr_assert_eq(r->a[i].kind, PS_ACT_PUBLISH);
    cr_assert_eq(r->a[i].worker, w);
    cr_assert_eq(r->a[i].clock, clock);
    cr_assert_eq(r->a[i].behind, behind);
    cr_assert_eq(r->a[i].ahead, ahead);
}

Test(engine_ssp, a_push_is_a_step_on_arrival_and_a_read_of_the_next_clock)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, push(1, 0, 0), "KAU");
    cr_assert_eq(r.a[1].worker, 1);
    cr_assert_eq(r.a[1].clock, 0);
    cr_assert_eq(r.a[1].samples, 11);
    cr_assert_eq(r.a[1].updates, 0);
    cr_assert(ps_engine_has(r.e, 0, 1) && !ps_engine_has(r.e, 0, 0));
    answers(&r, 2, 1, 1, 1, 0);
    cr_assert_eq(r.a[2].updates, 1);
    GIVES(&r, push(2, 0, 0), "KAU");
    cr_assert_eq(r.a[1].updates, 1);
    cr_assert(ps_engine_has(r.e, 0, 2) && !ps_engine_has(r.e, 0, 1));
}

Test(engine_ssp, a_read_waits_until_the_slowest_is_within_the_bound)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, push(1, 0, 0), "KAU");
    GIVES(&r, push(0, 0, 1), "KA");
    GIVES(&r, push(1, 0, 1), "KA");
    GIVES(&r, push(2, 0, 0), "KAUUU");
    answers(&r, 2, 0, 2, 1, 0);
    answers(&r, 3, 1, 2, 1, 0);
    answers(&r, 4, 2, 1, 0, 1);
    cr_assert_eq(ps_engine_staleness(r.e)[0], 1);
    cr_assert_eq(ps_engine_staleness(r.e)[1], 4);
}

Test(engine_ssp, duplicates_are_dropped_counted_and_answer_nothing)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, push(0, 0, 0), "D");
    GIVES(&r, push(0, 0, 1), "KA");
    GIVES(&r, push(0, 0, 1), "D");
    GIVES(&r, push(0, 0, 0), "D");
    GIVES(&r, want(0, 0, 2), "");
    GIVES(&r, push(1, 0, 0), "KAU");
    GIVES(&r, push(2, 0, 0), "KAUU");
    GIVES(&r, want(0, 0, 2), "");
    cr_assert_eq(ps_engine_dropped(r.e), 3);
}

Test(engine_ssp, a_read_that_overtakes_the_own_push_waits_for_it)
{
    struct rig r = bounded(3, 3);

    GIVES(&r, want(0, 0, 1), "");
    GIVES(&r, push(0, 0, 0), "KAU");
    answers(&r, 2, 0, 1, 1, 0);
}

Test(engine_ssp, a_worker_that_skips_a_chunk_is_counted_by_its_tick)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, push(0, 0, 1), "KA");
    GIVES(&r, push(1, 0, 0), "KAU");
    GIVES(&r, tick(2, 0, 1), ""); /* held: its push of the other chunk is under way */
    GIVES(&r, push(2, 1, 0), "KAUU");
    cr_assert_eq(r.a[2].chunk, 1);
    answers(&r, 3, 0, 2, 1, 0);
}

Test(engine_ssp, pushes_of_later_clocks_do_not_count_for_a_tick)
{
    struct rig r = bounded(3, 3);

    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, tick(0, 0, 2), "");
    GIVES(&r, push(0, 0, 1), "KAU");
    GIVES(&r, want(0, 1, 1), ""); /* two are in, but chunk 1's of clock 0 is not */
    GIVES(&r, push(0, 1, 0), "KAU");
    cr_assert_eq(r.a[1].clock, 0);
}

Test(engine_ssp, the_minimum_may_jump)
{
    struct rig r = bounded(2, 2);

    for (uint64_t c = 0; c < 3; c++)
        for (uint32_t w = 0; w < 2; w++)
            cr_assert_eq(feed(&r, push(w, 0, c)), VB_OK);
    cr_assert_str_eq(acts(&r), "KA");
    GIVES(&r, lost(2), "UU");
    answers(&r, 0, 0, 3, 0, 0);
    answers(&r, 1, 1, 3, 0, 0);
    GIVES(&r, push(2, 0, 0), "D");
}

Test(engine_ssp, a_finished_worker_never_blocks)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, finish(2, 0, 1), "");
    for (uint32_t w = 0; w < 2; w++) {
        GIVES(&r, push(w, 0, 0), "KAU");
        GIVES(&r, push(w, 0, 1), "KA");
    }
    GIVES(&r, push(2, 1, 0), "KAUUU"); /* the last that it announced */
    cr_assert(!ps_engine_live(r.e, 2));
    cr_assert_eq(r.a[2].worker, 2); /* told before it left: one answer a push */
    GIVES(&r, push(2, 1, 1), "D");
}

Test(engine_ssp, a_joiner_enters_at_the_minimum)
{
    struct rig r = bounded(1, 1);

    GIVES(&r, lost(2), "");
    for (uint64_t c = 0; c < 4; c++)
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t w = 0; w < 2; w++)
                cr_assert_eq(feed(&r, push(w, k, c)), VB_OK);
    cr_assert_eq(ps_engine_minimum(r.e), 4);
    GIVES(&r, joined(2, 4), "");
    cr_assert_eq(feed(&r, push(2, 0, 4)), VB_PROTO); /* it has read nothing */
    GIVES(&r, want(2, 0, 4), "U");
    answers(&r, 0, 2, 4, 0, 0);
    GIVES(&r, push(0, 0, 4), "KAU");
    GIVES(&r, push(0, 0, 5), "KA");
    GIVES(&r, push(1, 0, 4), "KAU");
    GIVES(&r, push(2, 0, 4), "KAUU");
}

Test(engine_ssp, asynchronous_reads_wait_for_nobody)
{
    struct rig r = bounded(PS_UNBOUNDED, PS_UNBOUNDED);

    for (uint64_t c = 0; c < 40; c++)
        GIVES(&r, push(0, 0, c), "KAU");
    answers(&r, 2, 0, 40, 40, 0);
    cr_assert_eq(ps_engine_staleness(r.e)[15], 1);
    cr_assert_eq(ps_engine_staleness(r.e)[16], 25);
    GIVES(&r, push(1, 0, 0), "KAU");
    answers(&r, 2, 1, 1, 1, 39);
}

Test(engine_ssp, the_bound_moves_between_lo_and_hi)
{
    struct rig r = bounded(1, 3);
    struct ps_event bound = { .kind = PS_EV_BOUND, .count = 2 };

    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, push(0, 0, 1), "KA");
    GIVES(&r, bound, "U");
    GIVES(&r, push(0, 0, 2), "KA");
    bound.count = UINT64_MAX;
    GIVES(&r, bound, "U");
    GIVES(&r, push(0, 0, 3), "KA"); /* no further than hi */
    bound.count = 0;
    GIVES(&r, bound, ""); /* no nearer than lo */
    GIVES(&r, push(1, 0, 0), "KAU");
    GIVES(&r, push(1, 0, 1), "KA");
}

Test(engine_ssp, it_says_for_whom_each_worker_waits)
{
    struct rig r = bounded(1, 1);
    uint32_t w = 9;
    uint64_t clock = 9;

    cr_assert(!ps_engine_missing(r.e, &w, &clock));
    GIVES(&r, push(0, 1, 0), "KAU");
    cr_assert(!ps_engine_missing(r.e, &w, &clock));
    GIVES(&r, push(0, 1, 1), "KA");
    cr_assert(ps_engine_waits(r.e, 0, &w, &clock));
    cr_assert(w == 1 && clock == 0);
    GIVES(&r, push(1, 1, 0), "KAU");
    cr_assert(ps_engine_missing(r.e, &w, &clock));
    cr_assert(w == 2 && clock == 0);
    cr_assert(!ps_engine_waits(r.e, 1, &w, &clock));
    GIVES(&r, want(2, 1, 1), ""); /* its own push is not in */
    cr_assert(ps_engine_waits(r.e, 2, &w, &clock));
    cr_assert(w == 2 && clock == 0);
    GIVES(&r, push(2, 1, 0), "KAUU");
    cr_assert(!ps_engine_missing(r.e, &w, &clock));
}

Test(engine_ssp, what_no_honest_peer_sends_is_refused_and_changes_nothing)
{
    struct rig r = rig_make((struct ps_engine_params){
        .nworkers = W, .nchunks = K, .mode = PS_SSP, .staleness_lo = 1, .staleness_hi = 1 });

    cr_assert_eq(feed(&r, want(0, 0, 0)), VB_PROTO); /* not in */
    cr_assert_eq(feed(&r, joined(0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_PROTO); /* no value */
    r = bounded(1, 1);
    cr_assert_eq(feed(&r, push(0, 0, 1)), VB_PROTO);
    cr_assert_eq(feed(&r, push(0, 0, UINT64_MAX)), VB_PROTO);
    cr_assert_eq(feed(&r, want(0, 0, UINT64_MAX)), VB_PROTO);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_SET }), VB_PROTO);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_REDUCED }), VB_PROTO);
    GIVES(&r, push(0, 0, 0), "KAU");
    GIVES(&r, push(0, 0, 1), "KA");
    cr_assert_eq(feed(&r, push(0, 0, 2)), VB_PROTO); /* its read is not answered */
    GIVES(&r, tick(1, UINT64_MAX, 0), "");
    GIVES(&r, push(1, 0, 0), "KAU");
    cr_assert_eq(ps_engine_dropped(r.e), 0);
}

Test(engine_ssp, what_does_not_go_together_is_no_engine)
{
    struct ps_engine_params p = {
        .nworkers = W, .nchunks = K, .mode = PS_SSP, .staleness_lo = 2, .staleness_hi = 1
    };

    cr_assert_eq(ps_engine_bytes(&p), 0);
    p.staleness_hi = 2;
    cr_assert_gt(ps_engine_bytes(&p), 0);
    p.two_phase = true;
    cr_assert_eq(ps_engine_bytes(&p), 0);
    p = (struct ps_engine_params){ .nworkers = W, .nchunks = K, .mode = PS_BACKUP, .backups = W };
    cr_assert_eq(ps_engine_bytes(&p), 0);
    p = (struct ps_engine_params){
        .nworkers = UINT32_MAX, .nchunks = UINT32_MAX, .mode = PS_SSP, .staleness_hi = 1
    };
    cr_assert_eq(ps_engine_bytes(&p), 0);
}

/* Any bytes as events: no crash, never more actions than promised, chunks counted right. */
Test(engine_ssp, hostile_events_break_nothing)
{
    uint64_t total = 0;

    for (uint64_t seed = 0; seed < 60; seed++) {
        static const enum ps_event_kind kind[] = { PS_EV_PUSH, PS_EV_READ, PS_EV_TICK,
                                                   PS_EV_JOINED };
        static const uint32_t bounds[] = { 1, 3, PS_UNBOUNDED };
        struct rig r = rig_make((struct ps_engine_params){ .nworkers = W,
                                                           .nchunks = K,
                                                           .mode = PS_SSP,
                                                           .staleness_lo = 1,
                                                           .staleness_hi = bounds[seed % 3] });
        uint64_t updates[K] = { 0 };

        for (uint64_t i = 0; i < 3000; i++) {
            const uint64_t x = vb_random_u64(seed, 3, i), y = vb_random_u64(seed, 4, i);
            const struct ps_event ev = {
                .kind = (x & 255) < 8 ? x % (PS_EV_TIMER + 2) : kind[x % 4],
                .worker = (x >> 8) % (W + 1),
                .chunk = (x >> 16) % (K + 1),
                .clock = (x >> 24) % 2048 > 0 ? i / 100 + (y % 64 < 4 ? y % 4 : 0) : y,
                .count = (x >> 36) % 256 > 0 ? (y >> 8) % 4 : y
            };

            const enum vb_st st = feed(&r, ev);

            cr_assert(st == VB_OK || (st == VB_PROTO && r.n == 0));
            cr_assert(r.n <= RIG_ACTIONS);
            for (size_t j = 0; j < r.n; j++) {
                if (r.a[j].kind != PS_ACT_APPLY)
                    continue;
                cr_assert_eq(r.a[j].updates, updates[r.a[j].chunk]);
                updates[r.a[j].chunk]++;
            }
        }
        total += updates[0];
    }
    cr_assert_gt(total, 60, "only %lu updates", total);
}
