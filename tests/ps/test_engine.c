/* The engine's rules, one event at a time, and random schedules against a plain reference. */
#include "ps/engine.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { W = 3, K = 2 };

static uint64_t memory[512]; /* of the one engine that a test has at a time */

struct rig {
    struct ps_engine *e;
    struct ps_action a[64];
    size_t n;
};

static struct rig rig_make(bool two_phase)
{
    const struct ps_engine_params p = { .nworkers = W, .nchunks = K, .two_phase = two_phase };
    struct rig r = { 0 };

    cr_assert(ps_engine_max_actions(&p) <= 64);
    cr_assert(ps_engine_bytes(&p) <= sizeof(memory));
    r.e = ps_engine_init(memory, &p);
    return r;
}

static enum vb_st feed(struct rig *r, struct ps_event ev)
{
    return ps_engine_step(r->e, &ev, r->a, &r->n);
}

/* The actions of the last event as one word: S K D P A U for each kind. */
static const char *acts(const struct rig *r)
{
    static char text[65];

    for (size_t i = 0; i < r->n; i++)
        text[i] = "SKDPAU"[r->a[i].kind];
    text[r->n] = '\0';
    return text;
}

static struct ps_event push(uint32_t w, uint32_t k, uint64_t clock)
{
    return (struct ps_event){
        .kind = PS_EV_PUSH, .worker = w, .chunk = k, .clock = clock, .samples = 10 + w
    };
}

static struct rig started(bool two_phase)
{
    struct rig r = rig_make(two_phase);

    for (uint32_t w = 0; w < W; w++)
        cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_JOINED, .worker = w }), VB_OK);
    for (uint32_t k = 0; k < K; k++) {
        cr_assert_eq(feed(&r, (struct ps_event){ .kind = PS_EV_INIT, .chunk = k }), VB_OK);
        cr_assert_str_eq(acts(&r), "SU");
        cr_assert_eq(r.a[1].clock, 0);
    }
    return r;
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
    struct rig r = rig_make(false);

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
    struct rig r = rig_make(false);

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
