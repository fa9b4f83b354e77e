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

Test(sim, backup_workers_are_refused)
{
    const struct ps_table table = { .nps = 1, .nlanes = 1 };
    const struct ps_rule rule = { .mode = PS_BACKUP, .backups = 1 };
    struct sim_result r;

    cr_expect_eq(
        sim_run(&(struct sim_params){ .table = &table, .rule = &rule, .nworkers = 2, .steps = 1 },
                &r),
        VB_INVAL);
}
