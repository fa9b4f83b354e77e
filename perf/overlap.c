/*
 * perf overlap - how much of the exchange hides behind compute: one worker and one ps in network namespaces
 * joined by a cable whose rate makes a step's bytes, one way, take 0.8 of the compute time (root only).
 *
 * A step is a backward pass over LAYERS layers, last layer first, each sleeping for two thirds of its compute
 * before its gradient is pushed, and a forward pass, first layer first, each waiting for its parameters and
 * sleeping for the other third. Baseline: the same sleeps alone. The first layer's gradient comes last
 * and its parameters are needed first.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/netns.h"
#include "perf/rig_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAYERS = 16 };
#define COMPUTE_S 0.16
#define SHARE 0.8
#define USUAL_BYTES (UINT64_C(8) << 20)

enum { STEP, SLEEPS };

static void rest(double parts)
{
    const double s = COMPUTE_S / LAYERS * parts;

    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = (long)(s * 1e9) }, NULL);
}

/* The chunks that begin in this layer are whole now: those that reach into later ones have come by. */
static void push_layer(struct rig *r, uint32_t v)
{
    uint32_t first = 0;
    const uint32_t n = ps_var_chunks(&r->table, v, &first);

    for (uint32_t c = first; c < first + n; c++)
        if (r->table.chunk[c].first_var == v)
            exchange_push(r->x, c, r->clock, 1, 1);
    exchange_poll(r->x);
}

static bool step(struct rig *r, bool alone)
{
    for (uint32_t v = 0; v < LAYERS; v++) {
        if (!alone && !rig_wait_var(r, v))
            return false;
        rest(1.0 / 3);
    }
    for (uint32_t v = LAYERS; v-- > 0;) {
        rest(2.0 / 3);
        if (!alone)
            push_layer(r, v);
    }
    r->clock += alone ? 0 : 1;
    return true;
}

static double steps(void *arg, unsigned what, uint64_t n)
{
    struct rig *r = arg;
    double begun;
    bool ok = what == SLEEPS || step(r, false); /* one in flight at both ends */

    begun = bench_now_s();
    for (uint64_t i = 0; ok && i < n; i++)
        ok = step(r, what == SLEEPS);

    const double took = bench_now_s() - begun;

    return (what == SLEEPS || rig_wait(r)) && ok ? took : -1;
}

static bool limit(int ns, const char *dev, uint64_t bytes)
{
    const double per_s = (double)bytes / (SHARE * COMPUTE_S);
    char command[256];

    /* headers: 66 bytes of every 1514 */
    snprintf(command, sizeof(command),
             "ip link set %s mtu 1500; tc qdisc add dev %s root tbf rate %.0fbit burst 64kb "
             "latency 200ms",
             dev, dev, per_s * 8 * 1514 / 1448);
    if (netns_run(ns, command))
        return true;
    log_error("the cable's rate cannot be limited: the package iproute2 is needed");
    return false;
}

static bool one_case(const struct bench_out *o, const struct perf_engine_params *p,
                     const struct netns *ns)
{
    static const char *const host[] = { NETNS_ACTIVE, NETNS_PASSIVE };
    const uint64_t bytes = p->bytes != 0 ? p->bytes : USUAL_BYTES;
    struct rig_turn g = { 0 };
    struct turn alone;
    struct turn_result res;
    char cases[160];
    bool ok =
        rig_make_many(&g.rig, 1, LAYERS, bytes / LAYERS, CL_TCP) && rig_move(&g.rig, ns->fd, host);

    g.part = steps;
    ok = ok && rig_turn_start(&g);
    alone = g.worker[0];
    alone.what = SLEEPS;
    ok = ok &&
         turn_run(&(struct turn_race){ g.worker, &alone, 1, 1, p->rounds, 4 * COMPUTE_S }, &res);
    rig_turn_stop(&g);
    if (!ok) {
        log_error("overlap failed");
        return false;
    }
    snprintf(cases, sizeof(cases),
             "\"transport\": \"tcp\", \"netns\": true, \"bytes\": %llu, \"mode\": \"sync\", "
             "\"wire\": %.2f, \"against\": \"compute alone\"",
             (unsigned long long)bytes, SHARE);
    bench_print(o, &(struct bench_row){ .bench = "overlap",
                                        .cases = cases,
                                        .value = res.value,
                                        .unit = "s",
                                        .baseline = res.base,
                                        .goal = 1.03,
                                        .noisy = res.base_spread > 0.1,
                                        .first = -1,
                                        .label = "overlap" });
    return true;
}

bool perf_overlap(const struct bench_out *o, const struct perf_engine_params *p)
{
    struct netns ns = { 0 };
    const uint64_t bytes = p->bytes != 0 ? p->bytes : USUAL_BYTES;

    if (geteuid() != 0) {
        log_warn("overlap is left out: network namespaces are for root");
        return true;
    }
    if (!netns_make(&ns))
        return false;

    const bool ok =
        limit(ns.fd[0], "v0", bytes) && limit(ns.fd[1], "v1", bytes) && one_case(o, p, &ns);

    netns_drop(&ns);
    return ok;
}
