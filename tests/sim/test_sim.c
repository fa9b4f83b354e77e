#include "sim/sim.h"
#include "worker/jitter.h"

#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { STEPS = 300 };

struct law {
    enum jitter model;
    uint32_t nworkers;
};

static double compute(void *arg, uint32_t worker, uint64_t clock)
{
    const struct law *l = arg;

    return 0.02 * jitter_factor(l->model, 3, worker, l->nworkers, clock);
}

static struct sim_result run(const char *mode, struct law *law, uint32_t nps, struct sim_link link,
                             double apply)
{
    const struct ps_var var = { .name = "w", .elems = 100000 };
    const struct ps_table_params tp = { .var = &var, .nvars = 1, .nps = nps, .nlanes = 2 };
    struct ps_table table;
    struct ps_rule rule;
    struct vb_err err;
    struct sim_result r;

    cr_assert_eq(ps_table_make(&tp, &table, &err), VB_OK);
    cr_assert_eq(ps_rule_parse(mode, law->nworkers, &rule, &err), VB_OK);
    cr_assert_eq(sim_run(&(struct sim_params){ .table = &table,
                                               .rule = &rule,
                                               .nworkers = law->nworkers,
                                               .steps = STEPS,
                                               .link = link,
                                               .apply_per_byte = apply,
                                               .compute = compute,
                                               .arg = law },
                         &r),
                 VB_OK);
    ps_table_fini(&table);
    return r;
}

Test(sim, without_costs_of_links_it_is_the_recurrence)
{
    static const struct {
        const char *mode;
        uint32_t s;
    } modes[] = { { "sync", 0 }, { "ssp:1", 1 }, { "ssp:3", 3 }, { "async", UINT32_MAX } };

    for (unsigned m = 0; jitter_names[m] != NULL; m++)
        for (size_t i = 0; i < VB_ARRAY_LEN(modes); i++) {
            struct law law = { m, 8 };
            double end = 0;
            const struct sim_result r =
                run(modes[i].mode, &law, 2, (struct sim_link){ .latency = 0 }, 0);

            cr_assert_eq(rec_run(&(struct rec_params){ .nworkers = 8,
                                                       .staleness = modes[i].s,
                                                       .clocks = STEPS,
                                                       .compute = compute,
                                                       .arg = &law },
                                 &end),
                         VB_OK);
            cr_expect_lt(fabs(r.seconds / end - 1), 1e-9, "%s %s: %f, not %f", modes[i].mode,
                         jitter_names[m], r.seconds, end);
        }
}

Test(sim, staleness_stays_within_the_bound_and_every_read_is_counted)
{
    struct law law = { JITTER_EXP, 8 };
    const struct sim_result r =
        run("ssp:3", &law, 1, (struct sim_link){ 1e-5, 1e-6, 1e-6, 1e-9 }, 1e-10);
    uint64_t within = 0, beyond = 0;

    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
        *(b <= 3 ? &within : &beyond) += r.staleness[b];
    cr_expect_eq(beyond, 0);
    cr_expect_gt(within, 0);
    cr_expect_eq(r.pushed_bytes, (uint64_t)8 * STEPS * 400000);
    cr_expect_eq(r.pulled_bytes, r.pushed_bytes);
}

Test(sim, the_same_numbers_give_the_same_run)
{
    struct law law = { JITTER_PARETO, 5 };
    const struct sim_link link = { 1e-5, 1e-6, 1e-6, 1e-9 };
    const struct sim_result a = run("ssp:2", &law, 2, link, 1e-10),
                            b = run("ssp:2", &law, 2, link, 1e-10);

    cr_expect_eq(a.seconds, b.seconds);
    cr_expect_eq(a.waited, b.waited);
    cr_expect_eq(memcmp(a.staleness, b.staleness, sizeof(a.staleness)), 0);
}

Test(sim, one_worker_pays_for_a_message_what_the_link_says)
{
    struct law law = { JITTER_NONE, 1 };
    const struct sim_result r = run("sync", &law, 1, (struct sim_link){ 0.001, 0, 0, 0 }, 0);

    cr_expect_lt(fabs(r.seconds - STEPS * (0.02 + 2 * 0.001)), 1e-9);
}

static struct sim_result run_params(struct sim_params p, const char *mode, struct law *law)
{
    const struct ps_var var = { .name = "w", .elems = 100000 };
    const struct ps_table_params tp = { .var = &var, .nvars = 1, .nps = 2, .nlanes = 2 };
    struct ps_table table;
    struct ps_rule rule;
    struct vb_err err;
    struct sim_result r;

    cr_assert_eq(ps_table_make(&tp, &table, &err), VB_OK);
    cr_assert_eq(ps_rule_parse(mode, law->nworkers, &rule, &err), VB_OK);
    p.table = &table;
    p.rule = &rule;
    p.nworkers = law->nworkers;
    p.steps = STEPS;
    p.compute = compute;
    p.arg = law;
    cr_assert_eq(sim_run(&p, &r), VB_OK);
    ps_table_fini(&table);
    return r;
}

/* Goals that are known in closed form: a worker that always takes twice as long costs half, a backup worker nothing. */
Test(sim, one_backup_worker_makes_up_for_a_slow_one)
{
    struct law law = { JITTER_SLOW, 8 };
    const struct sim_params p = { .link = { .latency = 1e-5 } };
    const double sync = run_params(p, "sync", &law).seconds;
    const struct sim_result backup = run_params(p, "sync+1", &law);

    cr_expect_lt(fabs(sync / backup.seconds - 2), 0.02, "%f and %f", sync, backup.seconds);
    cr_expect_gt(backup.dropped, 0);
    cr_expect_eq(backup.staleness[1], 0);
}

Test(sim, without_jitter_a_backup_worker_changes_little)
{
    struct law law = { JITTER_NONE, 4 };
    const struct sim_params p = { .link = { .latency = 1e-5 } };
    const double sync = run_params(p, "sync", &law).seconds,
                 backup = run_params(p, "sync+1", &law).seconds;

    cr_expect(backup > sync && backup < 1.02 * sync, "%f and %f", sync, backup);
}

Test(sim, a_bound_that_is_chosen_lies_between_its_ends)
{
    struct law law = { JITTER_EXP, 8 };
    const struct sim_params p = { .link = { .latency = 1e-5 } };
    const double s0 = run_params(p, "sync", &law).seconds,
                 s3 = run_params(p, "ssp:3", &law).seconds;
    const struct sim_result r = run_params(p, "ssp:0-3", &law);

    cr_expect(r.seconds < 0.9 * s0 && r.seconds >= s3, "%f: %f to %f", r.seconds, s3, s0);
    for (unsigned b = 4; b < PS_STALENESS_BUCKETS; b++)
        cr_expect_eq(r.staleness[b], 0);
}

Test(sim, who_waited_for_whom_adds_up)
{
    struct law law = { JITTER_SLOW, 4 };
    double waited[16] = { 0 }, sum = 0, for_slow = 0;
    const struct sim_params p = { .link = { .latency = 1e-5 }, .waited_for = waited };
    const struct sim_result r = run_params(p, "sync", &law);

    for (int i = 0; i < 16; i++)
        sum += waited[i];
    for (int w = 1; w < 4; w++)
        for_slow += waited[4 * w]; /* worker 0 is the slow one */
    cr_expect_lt(fabs(sum / 4 / r.waited - 1), 1e-9);
    cr_expect_gt(for_slow, 0.95 * sum);
}

/* The others wait until the engines are told, and then go on without it. */
Test(sim, a_worker_that_dies_holds_the_others_up_until_it_is_noticed)
{
    struct law law = { JITTER_NONE, 4 };
    const struct sim_params p = {
        .link = { .latency = 1e-5 }, .dies = 3, .dies_at = 100, .noticed = 15
    };
    const double whole = run_params((struct sim_params){ .link = p.link }, "sync", &law).seconds;
    struct sim_result r = run_params(p, "sync", &law);

    cr_expect(r.seconds > whole + 14.9 && r.seconds < whole + 15.1, "%f and %f", whole, r.seconds);
    cr_expect_eq(r.steps, 3 * STEPS + 100);
    r = run_params(p, "async", &law);
    cr_expect_lt(fabs(r.seconds / whole - 1), 0.01);
}

/* What is compressed or read in place takes less time on the wire. */
Test(sim, bytes_are_those_that_travel)
{
    struct law law = { JITTER_NONE, 2 };
    struct sim_params p = { .link = { .latency = 1e-5, .per_byte = 1e-8 } };
    const struct sim_result whole = run_params(p, "sync", &law);

    p.push_ratio = 4;
    p.pull_ratio = INFINITY;
    const struct sim_result less = run_params(p, "sync", &law);

    cr_expect_lt(fabs((double)whole.pushed_bytes / (double)less.pushed_bytes - 4), 1e-3);
    cr_expect_eq(less.pulled_bytes, 0);
    cr_expect_lt(less.seconds, whole.seconds);
}

Test(sim, what_it_cannot_do_is_refused)
{
    const struct ps_table table = { .nps = 1, .nlanes = 1, .nclasses = 2 };
    const struct ps_rule rule = { .mode = PS_SYNC };
    struct sim_result r;

    cr_expect_eq(
        sim_run(&(struct sim_params){ .table = &table, .rule = &rule, .nworkers = 2, .steps = 1 },
                &r),
        VB_INVAL);
}
