/*
 * perf pull-lat - a blocking pull: a worker asks for a chunk and waits until it can read what the ps has now.
 * Baseline: a message of the chunk's size there and back over a raw link between two other processes.
 *
 * perf read-lat - what a read costs a worker once its value is there: in sync, asking for the variable's
 * round and loading from the mapped parameters; in ssp, asking alone. Baseline of the first: two loads that
 * depend on each other from the first-level cache.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "perf/link_parts.h"
#include "perf/rig_turn.h"

#include <inttypes.h>
#include <stdio.h>

static const struct ps_rule ssp = { .mode = PS_SSP, .staleness_lo = 1, .staleness_hi = 1 };

static const char *name_of(enum cl_transport t)
{
    return t == CL_MAP ? "map" : "tcp";
}

/* ---- pull-lat ---- */

static double pull(void *arg, unsigned what, uint64_t n)
{
    struct rig *r = arg;
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++) {
        exchange_refresh(r->x);
        if (!rig_wait(r))
            return -1;
        while (!exchange_idle(r->x))
            exchange_poll(r->x);
    }
    return bench_now_s() - begun;
}

static double ask_and_answer(void *arg, unsigned what, uint64_t n)
{
    const double half = link_ping(arg, n);

    return half < 0 ? -1 : half * 2;
}

static bool serve_raw(struct pair *s, void *result)
{
    turn_serve(ask_and_answer, s);
    return true;
}

static void raw_link(void *arg)
{
    struct pair_params pp = { .way = *(enum cl_transport *)arg == CL_MAP ? TP_MAP : TP_TCP,
                              .bytes = 1 << 20,
                              .spin_ns = 100 * VB_MS };
    char none = 0;

    (void)pair_run(&pp, serve_raw, link_serve, &none, sizeof(none));
}

static bool pull_case(const struct bench_out *o, enum cl_transport t, uint64_t bytes,
                      unsigned rounds)
{
    struct rig_turn g = { 0 };
    struct turn raw = { 0 };
    struct turn_result res;
    char cases[160], label[64];
    bool ok;

    link_now.bytes = bytes;
    ok = rig_make(&g.rig, 1, bytes, t);
    g.rig.cls.rule = ssp;
    g.part = pull;
    ok = ok && rig_turn_start(&g) && turn_fork(&raw, raw_link, &t) && turn_ready(&raw, 1) &&
         turn_run(&(struct turn_race){ g.worker, &raw, 1, 1, rounds, 0.04 }, &res);
    turn_stop(&raw, 1);
    rig_turn_stop(&g);
    if (!ok) {
        log_error("pull-lat of %" PRIu64 " bytes over %s failed", bytes, name_of(t));
        return false;
    }
    snprintf(cases, sizeof(cases),
             "\"transport\": \"%s\", \"bytes\": %" PRIu64
             ", \"against\": \"a message back and forth\"",
             name_of(t), bytes);
    snprintf(label, sizeof(label), "pull-lat %s %" PRIu64 " B", name_of(t), bytes);
    bench_print(o, &(struct bench_row){ .bench = "pull-lat",
                                        .cases = cases,
                                        .value = res.value,
                                        .unit = "s",
                                        .baseline = res.base,
                                        .goal = t == CL_MAP ? 1.10 : 1.03,
                                        .noisy = res.base_spread > 0.1,
                                        .first = res.first,
                                        .label = label });
    return true;
}

bool perf_pull_lat(const struct bench_out *o, const struct perf_engine_params *p)
{
    static const uint64_t sizes[] = { 8, 64, 512, 4096 };
    bool ok = true;

    for (enum cl_transport t = CL_MAP; t <= CL_TCP; t++) {
        if (p->transport != CL_AUTO && p->transport != t)
            continue;
        for (size_t i = 0; i < (p->bytes != 0 ? 1 : VB_ARRAY_LEN(sizes)); i++)
            ok &= pull_case(o, t, p->bytes != 0 ? p->bytes : sizes[i], p->rounds);
    }
    return ok;
}

/* ---- read-lat ---- */

enum { READ, ASK, HITS };

/* Each load's address depends on the one before, as does each question. */
static double reads(void *arg, unsigned what, uint64_t n)
{
    static volatile uint64_t line[2][8];
    struct rig *r = arg;
    uint64_t sum = 0;
    const double begun = bench_now_s();

    switch (what) {
    case READ:
        for (uint64_t i = 0; i < n; i++)
            if (exchange_round(r->x, 0) == r->clock)
                sum += *(const volatile uint32_t *)(const void *)exchange_param(r->x, 0);
        break;
    case ASK:
        for (uint64_t i = 0; i < n; i++)
            sum += exchange_round(r->x, 0) == r->clock;
        break;
    default:
        for (uint64_t i = 0; i < n; i++) {
            sum += line[0][sum & 1];
            sum += line[1][sum & 1];
        }
    }
    __asm__ volatile("" ::"r"(sum));
    return bench_now_s() - begun;
}

static bool read_case(const struct bench_out *o, bool in_place, unsigned rounds)
{
    struct rig_turn g = { 0 };
    struct turn hits;
    struct turn_result res;
    bool ok = rig_make(&g.rig, 1, 4096, CL_MAP);

    if (!in_place)
        g.rig.cls.rule = ssp;
    g.part = reads;
    ok = ok && rig_turn_start(&g);
    hits = g.worker[0];
    g.worker[0].what = in_place ? READ : ASK;
    hits.what = HITS;
    ok = ok && turn_run(&(struct turn_race){ g.worker, &hits, 1, 1, rounds, 0.04 }, &res);
    rig_turn_stop(&g);
    if (!ok) {
        log_error("read-lat failed");
        return false;
    }
    bench_print(
        o,
        &(struct bench_row){
            .bench = "read-lat",
            .cases = in_place
                         ? "\"transport\": \"map\", \"mode\": \"sync\", \"what\": \"a read in "
                           "place\", \"against\": \"two cache hits\""
                         : "\"transport\": \"map\", \"mode\": \"ssp:1\", \"what\": \"is it fresh "
                           "enough\", \"against\": \"two cache hits\"",
            .value = res.value,
            .unit = "s",
            .baseline = res.base,
            .goal = in_place ? 20e-9 : 10e-9,
            .goal_of_value = true,
            .noisy = res.value_spread > 0.1,
            .first = -1,
            .label = in_place ? "read-lat in place" : "read-lat fresh enough?" });
    return true;
}

bool perf_read_lat(const struct bench_out *o, const struct perf_engine_params *p)
{
    const bool place = read_case(o, true, p->rounds);

    return read_case(o, false, p->rounds) && place;
}
