/*
 * perf ssp - throughput of ssp:s where compute times vary: n workers that sleep for theirs, one ps, real tasks.
 *
 * Baseline: the exact recurrence with the very same compute times, as they were slept, and no time for
 * messages at all: start_i(c) = max(fin_i(c - 1), max over j of fin_j(c - s - 1)), fin_i(c) = start_i(c) +
 * X_i(c). Compute times have a mean of 20 ms and follow the seven models of worker/jitter.h.
 *
 * Every start and end is written down, and the bound is looked for in them: nobody may start clock c before all have
 * ended clock c - s - 1.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "perf/rig_turn.h"
#include "worker/jitter.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

enum { CLOCKS = 48, LEAD_MS = 30 };
#define MEAN_S 0.02

/* What the tasks of a case share; a round is CLOCKS clocks from begin on. */
static struct board {
    enum jitter model;
    unsigned n, clocks;
    uint64_t begin_ns;
    double x[RIG_WORKERS_MAX][CLOCKS]; /* as it was slept */
    uint64_t started[RIG_WORKERS_MAX][CLOCKS], ended[RIG_WORKERS_MAX][CLOCKS];
} * board;

static double wish(const struct board *b, unsigned worker, unsigned c)
{
    return MEAN_S / jitter_mean(b->model, b->n) * jitter_factor(b->model, 1, worker, b->n, c);
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
        b->started[r->worker][c] = from;
        b->ended[r->worker][c] = vb_now_ns();
        b->x[r->worker][c] = (double)(b->ended[r->worker][c] - from) * 1e-9;
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
    uint64_t last = 0;

    for (unsigned i = 0; i < b->n; i++)
        last = VB_MAX(last, b->ended[i][b->clocks - 1]);
    return (double)(last - b->begin_ns) * 1e-9;
}

/* What was written down keeps to the bound. */
static bool is_bounded(const struct board *b, unsigned s)
{
    for (unsigned c = s + 1; c < b->clocks; c++)
        for (unsigned i = 0; i < b->n; i++)
            for (unsigned j = 0; j < b->n; j++)
                if (b->started[i][c] < b->ended[j][c - s - 1]) {
                    log_error(
                        "ssp:%u: worker %u started clock %u before worker %u had ended clock %u", s,
                        i, c, j, c - s - 1);
                    return false;
                }
    return true;
}

static bool take(struct rig_turn *g, unsigned s, unsigned rounds, double *ours, double *exact)
{
    for (unsigned i = 0; i < rounds; i++) {
        const double steps = (double)board->n * board->clocks;

        board->begin_ns = vb_now_ns() + LEAD_MS * VB_MS;
        if (turn_time(g->worker, g->n, 1) < 0 || !is_bounded(board, s))
            return false;
        ours[i] = steps / ended(board);
        exact[i] = steps / recurrence(board, s);
    }
    return true;
}

static bool one_case(const struct bench_out *o, const struct perf_engine_params *p,
                     enum cl_transport t, unsigned n, enum jitter model, unsigned s)
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
             t == CL_MAP ? "map" : "tcp", n, s, jitter_names[model]);
    snprintf(label, sizeof(label), "ssp:%u %u workers, %s", s, n, jitter_names[model]);
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

    for (unsigned model = 0; jitter_names[model] != NULL; model++)
        for (size_t i = 0; i < VB_ARRAY_LEN(bounds); i++)
            ok &= one_case(o, p, t, n, (enum jitter)model, bounds[i]);
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
