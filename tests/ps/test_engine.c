/* The engine's rules, one event at a time, and random schedules against a plain reference. */
#include "engine_rig.h"

#include "base/random.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

static struct rig started(bool two_phase)
{
    return rig_started(
        (struct ps_engine_params){ .nworkers = W, .nchunks = K, .two_phase = two_phase });
}

Test(engine, a_step_is_applied_when_the_last_live_worker_has_pushed)
{
    struct rig r = started(false);

    cr_assert_eq(feed(&r, push(2, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "K");
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "K");
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KAU");
    cr_assert_eq(r.a[1].clock, 0);
    cr_assert_eq(r.a[1].samples, 10 + 11 + 12);
    cr_assert_eq(r.a[2].clock, 1);
    cr_assert_eq(r.a[2].worker, PS_ALL);
    for (uint32_t w = 0; w < W; w++)
        cr_assert(ps_engine_has(r.e, 0, w));
}

Test(engine, chunks_do_not_wait_for_each_other)
{
    struct rig r = started(false);

    for (uint32_t w = 0; w < W; w++)
        cr_assert_eq(feed(&r, push(w, 1, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KAU");
    cr_assert_eq(feed(&r, push(0, 1, 1)), VB_OK);
    cr_assert_str_eq(acts(&r), "K");
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "K");
}

Test(engine, a_duplicate_or_late_push_is_dropped_and_counted)
{
    struct rig r = started(false);

    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "D");
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(2, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK); /* of the step before */
    cr_assert_str_eq(acts(&r), "D");
    cr_assert_eq(ps_engine_dropped(r.e), 2);
}

Test(engine, what_no_honest_peer_sends_is_refused_and_changes_nothing)
{
    struct rig r = rig_make((struct ps_engine_params){ .nworkers = W, .nchunks = K });

    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_PROTO); /* not in */
    r = started(false);
    cr_assert_eq(feed(&r, push(0, 0, 1)), VB_PROTO); /* from the future */
    cr_assert_eq(feed(&r, push(W, 0, 0)), VB_PROTO);
    cr_assert_eq(feed(&r, push(0, K, 0)), VB_PROTO);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_REDUCED }), VB_PROTO);
    cr_assert_eq(r.n, 0);
    for (uint32_t w = 0; w < W; w++)
        cr_assert_eq(feed(&r, push(w, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KAU");
}

Test(engine, nothing_is_pushed_or_read_before_the_first_value)
{
    struct rig r = rig_make((struct ps_engine_params){ .nworkers = W, .nchunks = K });

    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_JOINED, .worker = 0 }), VB_OK);
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_PROTO);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_READ, .worker = 0 }), VB_OK);
    cr_assert_str_eq(acts(&r), "");
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_INIT }), VB_OK);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_INIT }), VB_OK);
    cr_assert_str_eq(acts(&r), "D"); /* the second value is not taken */
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_READ, .worker = 0 }), VB_OK);
    cr_assert_str_eq(acts(&r), "U");
    cr_assert_eq(r.a[0].worker, 0);
}

Test(engine, a_finished_worker_leaves_the_quorum)
{
    struct rig r = started(false);

    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_FINISHED, .worker = 2 }), VB_OK);
    cr_assert_str_eq(acts(&r), "AU");
    cr_assert_eq(r.a[0].samples, 10 + 11);
    cr_assert(!ps_engine_has(r.e, 0, 2));
    cr_assert(!ps_engine_live(r.e, 2));
}

Test(engine, a_finish_that_overtakes_pushes_is_held_until_they_are_in)
{
    struct rig r = started(false);

    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_FINISHED, .worker = 2, .count = 2 }),
                 VB_OK);
    cr_assert_str_eq(acts(&r), "");
    cr_assert(ps_engine_live(r.e, 2));
    cr_assert_eq(feed(&r, push(2, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KAU");
    cr_assert(ps_engine_live(r.e, 2));
    cr_assert_eq(feed(&r, push(2, 1, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "K");
    cr_assert(!ps_engine_live(r.e, 2));
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_FINISHED, .worker = 2, .count = 2 }),
                 VB_OK);
}

Test(engine, what_a_lost_worker_has_pushed_stays_in_by_its_samples)
{
    struct rig r = started(false);

    cr_assert_eq(feed(&r, push(2, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(0, 0, 0)), VB_OK);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_LOST, .worker = 2 }), VB_OK);
    cr_assert_str_eq(acts(&r), "");
    cr_assert_eq(feed(&r, push(2, 1, 0)), VB_OK); /* still under way when it died */
    cr_assert_str_eq(acts(&r), "D");
    cr_assert_eq(feed(&r, push(1, 0, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KAU");
    cr_assert_eq(r.a[1].samples, 10 + 11 + 12);
}

Test(engine, two_phases_reduce_first_and_apply_with_the_value)
{
    struct rig r = started(true);

    for (uint32_t k = 0; k < K; k++)
        for (uint32_t w = 0; w < W; w++)
            cr_assert_eq(feed(&r, push(w, k, 0)), VB_OK);
    cr_assert_str_eq(acts(&r), "KP");
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_REDUCED, .clock = 7, .value = 0.5f }),
                 VB_OK);
    cr_assert_str_eq(acts(&r), ""); /* of another step */
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_REDUCED, .clock = 0, .value = 0.5f }),
                 VB_OK);
    cr_assert_str_eq(acts(&r), "AUAU");
    cr_assert_float_eq(r.a[0].value, 0.5f, 0);
    cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_REDUCED, .clock = 0, .value = 0.5f }),
                 VB_OK);
    cr_assert_str_eq(acts(&r), ""); /* twice */
}

Test(engine, it_says_whom_it_waits_for)
{
    struct rig r = started(false);
    uint32_t w = 9;
    uint64_t clock = 9;

    cr_assert(!ps_engine_missing(r.e, &w, &clock));
    cr_assert_eq(feed(&r, push(0, 1, 0)), VB_OK);
    cr_assert_eq(feed(&r, push(2, 1, 0)), VB_OK);
    cr_assert(ps_engine_missing(r.e, &w, &clock));
    cr_assert_eq(w, 1);
    cr_assert_eq(clock, 0);
}

/*
 * Random schedules: each worker pushes its clocks in order, every push may be sent twice, workers run
 * in any interleaving and one may die. Checked: a chunk's epochs come one by one, each with exactly
 * one gradient of every worker that was live at its end, and the run never stops early.
 */
static void random_schedule(uint64_t seed)
{
    enum { STEPS = 20 };
    struct rig r = started(false);
    uint64_t next[W][K] = { { 0 } }, epoch[K] = { 0 };
    bool dead[W] = { false };
    uint64_t i = 0;

    for (uint64_t left = STEPS * K; left > 0; i++) {
        const uint64_t x = vb_random_u64(seed, 1, i);
        const uint32_t w = x % W, k = (x >> 8) % K;

        cr_assert(i < 100000, "schedule %lu stands still", seed);
        if ((x >> 16) % 200 == 0 && seed % 2 == 1 && !dead[0] && w == 2 && !dead[2]) {
            dead[2] = true;
            cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_LOST, .worker = 2 }), VB_OK);
        } else if (!dead[w] && next[w][k] <= epoch[k] && next[w][k] < STEPS) {
            cr_assert_eq(feed(&r, push(w, k, next[w][k])), VB_OK);
            next[w][k] += (x >> 32) % 4 != 0; /* else the same again: a duplicate */
        } else {
            continue;
        }
        for (size_t a = 0; a < r.n; a++) {
            if (r.a[a].kind != PS_ACT_APPLY)
                continue;
            const uint32_t c = r.a[a].chunk;

            cr_assert_eq(r.a[a].clock, epoch[c]);
            for (uint32_t v = 0; v < W; v++)
                cr_assert(ps_engine_has(r.e, c, v) || dead[v]);
            epoch[c]++;
            left--;
        }
        /* a duplicate that became due again moves on once its step is over */
        for (uint32_t v = 0; v < W; v++)
            for (uint32_t c = 0; c < K; c++)
                if (next[v][c] < epoch[c])
                    next[v][c] = epoch[c];
    }
}

Test(engine, random_schedules_apply_every_step_once)
{
    for (uint64_t seed = 0; seed < 300; seed++)
        random_schedule(seed);
}

static bool same_action(const struct ps_action *a, const struct ps_action *b)
{
    return a->kind == b->kind && a->worker == b->worker && a->chunk == b->chunk &&
           a->clock == b->clock && a->samples == b->samples && a->updates == b->updates &&
           a->behind == b->behind && a->ahead == b->ahead && a->value == b->value;
}

/* Two engines, the same events: the same actions, statuses and answers. */
static void same_schedule(uint64_t seed)
{
    enum { STEPS = 3000 };
    static uint64_t memory[2][1024];
    const struct ps_engine_params p[2] = {
        { .nworkers = W, .nchunks = K, .two_phase = seed % 2 == 0 },
        { .nworkers = W, .nchunks = K, .two_phase = seed % 2 == 0, .mode = PS_SSP }
    };
    struct ps_engine *e[2];
    struct ps_action a[2][RIG_ACTIONS];
    size_t n[2] = { 0 };
    uint32_t applied = 0;

    for (int i = 0; i < 2; i++)
        e[i] = ps_engine_init(memory[i], &p[i]);
    for (uint64_t i = 0; i < STEPS; i++) {
        const uint64_t x = vb_random_u64(seed, 7, i);
        static const enum ps_event_kind kind[] = { PS_EV_PUSH, PS_EV_PUSH,     PS_EV_PUSH,
                                                   PS_EV_PUSH, PS_EV_JOINED,   PS_EV_INIT,
                                                   PS_EV_READ, PS_EV_FINISHED, PS_EV_LOST,
                                                   PS_EV_TICK, PS_EV_REDUCED,  PS_EV_BOUND };
        const uint32_t which = (x & 255) < 240 ? x % 6 : x % VB_ARRAY_LEN(kind);
        struct ps_event ev = { .kind = kind[which],
                               .worker = (x >> 8) % W,
                               .chunk = (x >> 16) % K,
                               .clock = ps_engine_minimum(e[0]) + (x >> 24) % 2,
                               .count = (x >> 32) % 8,
                               .samples = (x >> 40) % 100,
                               .value = 2.0f };

        if (i % 5 == 0)
            ev.kind = PS_EV_REDUCED;
        const enum vb_st st[2] = { ps_engine_step(e[0], &ev, a[0], &n[0]),
                                   ps_engine_step(e[1], &ev, a[1], &n[1]) };
        uint32_t whom[2] = { 0 };
        uint64_t clock[2] = { 0 };

        cr_assert_eq(st[0], st[1]);
        cr_assert_eq(n[0], n[1]);
        for (size_t j = 0; j < n[0]; j++)
            cr_assert(same_action(&a[0][j], &a[1][j]));
        cr_assert_eq(ps_engine_missing(e[0], &whom[0], &clock[0]),
                     ps_engine_missing(e[1], &whom[1], &clock[1]));
        cr_assert(whom[0] == whom[1] && clock[0] == clock[1]);
        for (size_t j = 0; j < n[0]; j++)
            applied += a[0][j].kind == PS_ACT_APPLY;
    }
    cr_assert_eq(ps_engine_dropped(e[0]), ps_engine_dropped(e[1]));
    cr_assert_eq(memcmp(ps_engine_staleness(e[0]), ps_engine_staleness(e[1]),
                        PS_STALENESS_BUCKETS * sizeof(uint64_t)),
                 0);
    cr_assert(applied > 10, "schedule %lu did nothing", seed);
}

Test(engine, a_staleness_of_0_is_sync)
{
    for (uint64_t seed = 0; seed < 200; seed++)
        same_schedule(seed);
}

Test(engine, it_says_for_whom_each_worker_waits)
{
    struct rig r = started(false);
    uint32_t w = 9;
    uint64_t clock = 9;

    GIVES(&r, push(2, 1, 0), "K");
    cr_assert(ps_engine_waits(r.e, 2, &w, &clock));
    cr_assert_eq(w, 0);
    GIVES(&r, push(0, 1, 0), "K");
    cr_assert(ps_engine_waits(r.e, 2, &w, &clock));
    cr_assert_eq(w, 1);
    cr_assert(!ps_engine_waits(r.e, 1, &w, &clock));
    GIVES(&r, lost(1), "AU");
    cr_assert(!ps_engine_waits(r.e, 2, &w, &clock));
    cr_assert_eq(ps_engine_staleness(r.e)[0], 2);
}

Test(engine, what_comes_from_a_lost_worker_has_no_effect)
{
    struct rig r = started(false);

    GIVES(&r, lost(1), "");
    GIVES(&r, push(1, 0, 0), "D");
    GIVES(&r, want(1, 0, 0), "");
    GIVES(&r, tick(1, 0, 0), "");
    GIVES(&r, finish(1, 0, 0), "");
    cr_assert_eq(ps_engine_dropped(r.e), 1);
}
