#include "sim/recurrence.h"
#include "worker/jitter.h"

#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>

enum { N = 8, CLOCKS = 200000 };

struct law {
    enum jitter model;
    uint32_t nworkers;
};

static double compute(void *arg, uint32_t worker, uint64_t clock)
{
    const struct law *l = arg;

    return jitter_factor(l->model, 1, worker, l->nworkers, clock);
}

static double end_of(enum jitter model, uint32_t s, double d, uint64_t clocks)
{
    struct law law = { model, N };
    double end = 0;

    cr_assert_eq(rec_run(&(struct rec_params){ .nworkers = N,
                                               .staleness = s,
                                               .clocks = clocks,
                                               .release = d,
                                               .compute = compute,
                                               .arg = &law },
                         &end),
                 VB_OK);
    return end;
}

Test(recurrence, gains_over_sync_are_those_of_the_closed_forms)
{
    static const struct {
        enum jitter model;
        uint32_t s;
        double gain;
    } known[] = {
        { JITTER_EXP, 1, 1.44 },       { JITTER_EXP, 3, 1.67 },       { JITTER_EXP, 10, 1.81 },
        { JITTER_STRAGGLER, 1, 2.00 }, { JITTER_STRAGGLER, 3, 3.33 }, { JITTER_SLOW, 1, 1.00 },
        { JITTER_SLOW, 10, 1.00 },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(known); i++) {
        const double gain =
            end_of(known[i].model, 0, 0, CLOCKS) / end_of(known[i].model, known[i].s, 0, CLOCKS);

        cr_expect_lt(fabs(gain / known[i].gain - 1), 0.02, "%s, s = %u: %.3f, not %.2f",
                     jitter_names[known[i].model], known[i].s, gain, known[i].gain);
    }
}

Test(recurrence, without_jitter_no_bound_gains_and_each_release_costs_once)
{
    cr_expect_eq(end_of(JITTER_NONE, 0, 0, 100), 100);
    cr_expect_eq(end_of(JITTER_NONE, 3, 0, 100), 100);
    cr_expect_eq(end_of(JITTER_NONE, 0, 0.5, 100), 149.5);
    cr_expect_eq(end_of(JITTER_NONE, UINT32_MAX, 0.5, 100), 100);
}

Test(recurrence, nothing_to_run_is_refused)
{
    double end = 1;

    cr_expect_eq(rec_run(&(struct rec_params){ .clocks = 1, .compute = compute }, &end), VB_INVAL);
    cr_expect_eq(rec_run(&(struct rec_params){ .nworkers = 1, .compute = compute }, &end),
                 VB_INVAL);
}

Test(jitter, factors_have_their_means_and_depend_on_seed_worker_and_clock_alone)
{
    static const double mean[] = { 1, 1, 1.5, 1.5, 1, 1.125, 1.19 };

    for (unsigned m = 0; jitter_names[m] != NULL; m++) {
        double sum = 0;

        for (uint64_t c = 0; c < CLOCKS; c++)
            for (uint32_t w = 0; w < N; w++)
                sum += jitter_factor(m, 7, w, N, c);
        cr_expect_lt(fabs(sum / CLOCKS / N / mean[m] - 1), 0.02, "%s: %f", jitter_names[m],
                     sum / CLOCKS / N);
    }
    cr_expect_eq(jitter_factor(JITTER_EXP, 7, 3, N, 9), jitter_factor(JITTER_EXP, 7, 3, N, 9));
    cr_expect_neq(jitter_factor(JITTER_EXP, 7, 3, N, 9), jitter_factor(JITTER_EXP, 8, 3, N, 9));
    cr_expect_neq(jitter_factor(JITTER_EXP, 7, 3, N, 9), jitter_factor(JITTER_EXP, 7, 4, N, 9));
    cr_expect_neq(jitter_factor(JITTER_EXP, 7, 3, N, 9), jitter_factor(JITTER_EXP, 7, 3, N, 8));
}
