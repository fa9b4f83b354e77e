/* Backup workers: the coordinator names who makes a step. */
#include "engine_rig.h"

#include "base/random.h"

static struct rig backup(bool two_phase)
{
    return rig_started((struct ps_engine_params){
        .nworkers = W, .nchunks = K, .mode = PS_BACKUP, .backups = 1, .two_phase = two_phase });
}

static struct ps_event name(uint64_t clock, const uint64_t *set)
{
    return (struct ps_event){ .kind = PS_EV_SET, .clock = clock, .set = set };
}

static const uint64_t set_0 = 1, set_01 = 3, set_02 = 5, set_12 = 6, set_none = 0, set_many = 11;

static void count(struct rig *r, uint32_t w, uint64_t clock, uint64_t pushes)
{
    cr_assert_eq(feed(r, push(w, 0, clock)), VB_OK);
    cr_assert_eq(feed(r, push(w, 1, clock)), VB_OK);
    GIVES(r, tick(w, clock, pushes), "C");
    cr_assert(r->a[0].worker == w && r->a[0].clock == clock);
}

Test(engine_backup, a_step_is_applied_when_its_set_is_named)
{
    struct rig r = backup(false);

    GIVES(&r, push(2, 0, 0), "K");
    GIVES(&r, push(2, 1, 0), "K");
    GIVES(&r, tick(2, 0, 2), "C");
    count(&r, 0, 0, 2);
    GIVES(&r, name(0, &set_02), "AUUAUU");
    cr_assert_eq(r.a[0].clock, 0);
    cr_assert_eq(r.a[0].samples, 10 + 12);
    cr_assert_eq(r.a[0].worker, PS_ALL);
    cr_assert(ps_engine_has(r.e, 0, 0) && !ps_engine_has(r.e, 0, 1) && ps_engine_has(r.e, 0, 2));
    cr_assert(r.a[1].worker == 0 && r.a[1].clock == 1);
    cr_assert(r.a[2].worker == 2 && r.a[2].clock == 1);
    GIVES(&r, name(0, &set_02), ""); /* twice */
}

Test(engine_backup, a_tick_counts_when_its_pushes_are_in)
{
    struct rig r = backup(false);

    GIVES(&r, tick(1, 0, 2), "");
    GIVES(&r, push(1, 1, 0), "K");
    GIVES(&r, push(1, 1, 0), "D");
    GIVES(&r, push(1, 0, 0), "KC");
    GIVES(&r, tick(1, 0, 2), "");
}

Test(engine_backup, what_is_not_in_the_set_is_dropped_and_its_sender_goes_on)
{
    struct rig r = backup(false);

    GIVES(&r, push(1, 0, 0), "K"); /* in time, and not counted */
    count(&r, 0, 0, 2);
    count(&r, 2, 0, 2);
    GIVES(&r, name(0, &set_02), "DAUUUAUU");
    cr_assert_eq(r.a[0].worker, 1);
    cr_assert_eq(r.a[1].samples, 10 + 12);
    cr_assert(!ps_engine_has(r.e, 0, 1));
    GIVES(&r, push(1, 1, 0), "DU");
    cr_assert(r.a[1].worker == 1 && r.a[1].clock == 1);
    cr_assert_eq(ps_engine_dropped(r.e), 2);
    GIVES(&r, tick(1, 0, 2), ""); /* of a step that is over */
    GIVES(&r, push(1, 0, 1), "K");
}

Test(engine_backup, a_late_worker_jumps_to_the_epoch)
{
    struct rig r = backup(false);

    for (uint64_t c = 0; c < 3; c++) {
        count(&r, 0, c, 2 * c + 2);
        count(&r, 2, c, 2 * c + 2);
        GIVES(&r, name(c, &set_02), "AUUAUU");
    }
    GIVES(&r, push(1, 0, 0), "DU");
    cr_assert_eq(r.a[1].clock, 3);
    GIVES(&r, push(1, 0, 0), "D");
    GIVES(&r, push(1, 0, 2), "DU"); /* it may, and is late again */
    cr_assert_eq(r.a[1].clock, 3);
    GIVES(&r, push(1, 1, 0), "DU");
    GIVES(&r, push(1, 0, 3), "K");
    GIVES(&r, push(1, 1, 3), "K");
    GIVES(&r, tick(1, 3, 5), "C");
    count(&r, 0, 3, 8);
    GIVES(&r, name(3, &(uint64_t){ 3 }), "AUUAUU");
    cr_assert_eq(r.a[0].samples, 10 + 11);
}

Test(engine_backup, a_set_is_refused_out_of_order_or_before_all_is_in)
{
    struct rig r = backup(false);

    count(&r, 0, 0, 2);
    GIVES(&r, push(1, 0, 0), "K");
    GIVES(&r, tick(1, 0, 2), "");
    cr_assert_eq(feed(&r, name(0, &set_01)), VB_PROTO);
    cr_assert_eq(feed(&r, name(1, &set_0)), VB_PROTO);
    cr_assert_eq(feed(&r, name(0, &set_none)), VB_PROTO);
    cr_assert_eq(feed(&r, name(0, &set_many)), VB_PROTO);
    cr_assert_eq(feed(&r, name(0, NULL)), VB_PROTO);
    cr_assert_eq(feed(&r, push(0, 0, 1)), VB_PROTO);
    cr_assert_eq(feed(&r, tick(2, 1, 0)), VB_PROTO);
    GIVES(&r, push(1, 1, 0), "KC");
    GIVES(&r, name(0, &set_01), "AUUAUU");
    cr_assert_eq(r.a[0].samples, 10 + 11);
}

Test(engine_backup, one_that_has_died_or_finished_holds_nobody_up)
{
    struct rig r = backup(false);
    uint32_t w = 9;
    uint64_t clock = 9;

    count(&r, 1, 0, 2);
    GIVES(&r, push(2, 0, 0), "K");
    cr_assert(ps_engine_missing(r.e, &w, &clock));
    cr_assert(w == 0 && clock == 0);
    GIVES(&r, lost(2), "");
    GIVES(&r, finish(0, 0, 0), "C"); /* one that skips every chunk */
    cr_assert(!ps_engine_missing(r.e, &w, &clock));
    GIVES(&r, push(2, 1, 0), "D");
    GIVES(&r, name(0, &(uint64_t){ 2 }), "DAUAU");
    cr_assert_eq(r.a[0].worker, 2);
}

Test(engine_backup, what_a_counted_worker_has_pushed_stays_in_when_it_dies)
{
    struct rig r = backup(false);

    count(&r, 1, 0, 2);
    count(&r, 2, 0, 2);
    GIVES(&r, lost(2), "");
    GIVES(&r, name(0, &set_12), "AUAU");
    cr_assert_eq(r.a[0].samples, 11 + 12);
}

Test(engine_backup, a_joiner_is_answered_with_the_epoch)
{
    struct rig r = backup(false);

    GIVES(&r, lost(2), "");
    for (uint64_t c = 0; c < 2; c++) {
        count(&r, 0, c, 2 * c + 2);
        count(&r, 1, c, 2 * c + 2);
        GIVES(&r, name(c, &set_01), "AUUAUU");
    }
    cr_assert_eq(ps_engine_minimum(r.e), 2);
    GIVES(&r, joined(2, 2), "");
    GIVES(&r, want(2, 0, 2), "U");
    cr_assert_eq(r.a[0].clock, 2);
    GIVES(&r, want(2, 0, 2), "");
    GIVES(&r, want(2, 1, 0), "U");
    cr_assert_eq(r.a[0].clock, 2);
    count(&r, 2, 2, 2);
}

Test(engine_backup, two_phases_reduce_first)
{
    struct rig r = backup(true);

    count(&r, 0, 0, 2);
    count(&r, 1, 0, 2);
    GIVES(&r, name(0, &set_01), "PP");
    GIVES(&r, push(2, 0, 0), "D"); /* answered when the step is made */
    cr_assert_eq(feed(&r, name(1, &set_01)), VB_PROTO);
    GIVES(&r, ((struct ps_event){ .kind = PS_EV_REDUCED, .clock = 0, .value = 0.5f }), "AUUUAUU");
    cr_assert_eq(r.a[0].samples, 10 + 11);
    cr_assert_float_eq(r.a[0].value, 0.5f, 0);
}

/*
 * Random schedules: workers of very different speed, some die, messages may come twice. Every step is
 * made of exactly its set, once, in order, and all get to the end.
 */
static void random_schedule(uint64_t seed)
{
    enum { STEPS = 30 };
    struct rig r = backup(false);
    uint64_t clock[W] = { 0 }, npushed[W] = { 0 }, epoch = 0, may[W][K] = { { 0 } }, i = 0;
    uint32_t at[W] = { 0 }, counted = 0;
    uint64_t dead = 0;

    for (; epoch < STEPS; i++) {
        const uint64_t x = vb_random_u64(seed, 2, i);
        const uint32_t w = (x % 16 < 9) ? 0 : (x % 16 < 14) ? 1 : 2;
        const uint32_t need = 2 - (dead != 0 && seed % 2 == 0);
        uint64_t set = counted;

        cr_assert(i < 200000, "schedule %lu stands still", seed);
        if (x >> 40 == 0 && dead == 0) {
            dead = 4;
            cr_assert_eq(feed(&r, lost(2)), VB_OK);
        } else if ((uint32_t)__builtin_popcountll(set) >= need) {
            cr_assert_eq(feed(&r, name(epoch, &set)), VB_OK);
            for (size_t a = 0; a < r.n; a++)
                for (uint32_t v = 0; r.a[a].kind == PS_ACT_APPLY && v < W; v++)
                    cr_assert_eq(ps_engine_has(r.e, r.a[a].chunk, v), (set >> v & 1) != 0);
            epoch++;
            counted = 0;
        } else if ((dead >> w & 1) != 0) {
            continue;
        } else if (at[w] < K) {
            cr_assert_eq(feed(&r, push(w, at[w], clock[w])), VB_OK);
            npushed[w] += (x >> 8) % 4 != 0;
            at[w] += (x >> 8) % 4 != 0; /* else once more */
        } else if (at[w] == K) {
            cr_assert_eq(feed(&r, tick(w, clock[w], npushed[w])), VB_OK);
            at[w]++;
        } else if (may[w][0] > clock[w] && may[w][1] > clock[w]) {
            clock[w] = may[w][(x >> 8) % K];
            at[w] = 0;
        }
        for (size_t a = 0; a < r.n; a++) {
            if (r.a[a].kind == PS_ACT_PUBLISH)
                may[r.a[a].worker][r.a[a].chunk] = r.a[a].clock;
            if (r.a[a].kind == PS_ACT_COUNTED) {
                cr_assert_eq(r.a[a].clock, epoch);
                counted |= 1u << r.a[a].worker;
            }
        }
        r.n = 0;
    }
}

Test(engine_backup, random_schedules_apply_every_set_once_in_order)
{
    for (uint64_t seed = 0; seed < 300; seed++)
        random_schedule(seed);
}
