/*
 * perf ssp - throughput of ssp:s where compute times vary: n workers that sleep for theirs, one ps, real tasks.
 *
 * Baseline: the exact recurrence with the very same compute times, as they were slept, and no time for
 * messages at all: start_i(c) = max(fin_i(c - 1), max over j of fin_j(c - s - 1)), fin_i(c) = start_i(c) +
 * X_i(c). Compute times have a mean of 20 ms: "exp" is half fixed and half exponential, seeded;
 * "straggler" has worker c mod n take five times as long as the others.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "perf/rig_turn.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

enum { CLOCKS = 48, LEAD_MS = 30 };
#define MEAN_S 0.02

enum model { EXPONENTIAL, STRAGGLER, NMODELS };
static const char *const model_name[] = { "exp", "straggler" };

/* What the tasks of a case share; a round is CLOCKS clocks from begin on. */
static struct board {
    enum model model;
    unsigned n, clocks;
    uint64_t begin_ns;
    double x[RIG_WORKERS_MAX][CLOCKS]; /* as it was slept */
    double end[RIG_WORKERS_MAX];       /* after begin */
} * board;

static double wish(const struct board *b, unsigned worker, unsigned c)
{
    if (b->model == STRAGGLER) /* 1 of n takes 5 parts, the others one */
        return MEAN_S * b->n / (b->n + 4) * (c % b->n == worker ? 5 : 1);
    return MEAN_S * (0.5 - 0.5 * log(1 - (double)vb_random_f32(1, worker, c)));
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = { .tv_sec = (time_t)(ns / VB_SEC), .tv_nsec = (long)(ns % VB_SEC) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static double work(void *arg, unsigned what, uint64_t n)
{
    struct rig *r = arg;
    struct board *b = board;

    sleep_until(b->begin_ns);
    for (unsigned c = 0; c < b->clocks; c++) {
        const uint64_t from = c == 0 ? b->begin_ns : vb_now_ns();

        sleep_until(from + (uint64_t)(wish(b, r->worker, c) * 1e9));
        b->x[r->worker][c] = (double)(vb_now_ns() - from) * 1e-9;
        if (c + 1 == b->clocks)
            b->end[r->worker] = (double)(vb_now_ns() - b->begin_ns) * 1e-9;
        if (!rig_exchange(r))
            return -1;
    }
    return 1;
}

/* Seconds until the last one has done its last clock. */
static double recurrence(const struct board *b, unsigned s)
{
    double fin[RIG_WORKERS_MAX] = { 0 }, all[CLOCKS], last = 0;

    for (unsigned c = 0; c < b->clocks; c++) {
        all[c] = 0;
        for (unsigned i = 0; i < b->n; i++) {
            const double start = c > s ? fmax(fin[i], all[c - s - 1]) : fin[i];

            fin[i] = start + b->x[i][c];
            all[c] = fmax(all[c], fin[i]);
        }
        last = fmax(last, all[c]);
    }
    return last;
}

static double ended(const struct board *b)
{
    double last = 0;

    for (unsigned i = 0; i < b->n; i++)
        last = fmax(last, b->end[i]);
    return last;
}

static bool take(struct rig_turn *g, unsigned s, unsigned rounds, double *ours, double *exact)
{
    for (unsigned i = 0; i < rounds; i++) {
        const double steps = (double)board->n * board->clocks;

        board->begin_ns = vb_now_ns() + LEAD_MS * VB_MS;
        if (turn_time(g->worker, g->n, 1) < 0)
            return false;
        ours[i] = steps / ended(board);
        exact[i] = steps / recurrence(board, s);
    }
    return true;
}

static bool one_case(const struct bench_out *o, const struct perf_engine_params *p,
                     enum cl_transport t, unsigned n, enum model model, unsigned s)
{
    const struct ps_rule rule = { .mode = PS_SSP, .staleness_lo = s, .staleness_hi = s };
    double ours[BENCH_ROUNDS_MAX], exact[BENCH_ROUNDS_MAX];
    struct rig_turn g = { 0 };
    char cases[160], label[64];
    bool ok = rig_make(&g.rig, n, p->bytes != 0 ? p->bytes : 65536, t);

    *board = (struct board){ .model = model, .n = n, .clocks = p->rounds < 3 ? 8 : CLOCKS };
    g.rig.pinned = false;
    if (s > 0)
        g.rig.cls.rule = rule;
    g.part = work;
    ok = ok && rig_turn_start(&g) && take(&g, s, p->rounds, ours, exact);
    rig_turn_stop(&g);
    if (!ok) {
        log_error("ssp:%u of %u workers failed", s, n);
        return false;
    }
    snprintf(cases, sizeof(cases),
             "\"transport\": \"%s\", \"workers\": %u, \"ps\": 1, \"mode\": \"ssp:%u\", \"jitter\": "
             "\"%s\", \"against\": \"recurrence\"",
             t == CL_MAP ? "map" : "tcp", n, s, model_name[model]);
    snprintf(label, sizeof(label), "ssp:%u %u workers, %s", s, n, model_name[model]);
    bench_print(o, &(struct bench_row){ .bench = "ssp",
                                        .cases = cases,
                                        .value = bench_median(ours, p->rounds),
                                        .unit = "1/s",
                                        .baseline = bench_median(exact, p->rounds),
                                        .goal = 0.97,
                                        .more_is_better = true,
                                        .first = -1,
                                        .label = label });
    return true;
}

static bool all_cases(const struct bench_out *o, const struct perf_engine_params *p, unsigned n)
{
    static const unsigned bounds[] = { 0, 1, 3 };
    const enum cl_transport t = p->transport == CL_TCP ? CL_TCP : CL_MAP;
    bool ok = true;

    for (unsigned model = 0; model < NMODELS; model++)
        for (size_t i = 0; i < VB_ARRAY_LEN(bounds); i++)
            ok &= one_case(o, p, t, n, (enum model)model, bounds[i]);
    return ok;
}

bool perf_ssp(const struct bench_out *o, const struct perf_engine_params *p)
{
    bool ok = true;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return false;
    for (unsigned n = 4; n <= 8; n += 4)
        if (p->workers == 0 || n == 4)
            ok &= all_cases(o, p, p->workers != 0 ? p->workers : n);
    munmap(board, sizeof(*board));
    return ok;
}
