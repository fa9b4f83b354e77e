/*
 * perf overlap - how much of the exchange hides behind compute: one worker and one ps in network namespaces
 * joined by a cable whose rate makes a step's bytes, one way, take 0.8 of the compute time (root only).
 *
 * A step is a backward pass over LAYERS layers, last layer first, each sleeping for two thirds of its compute
 * before its gradient is pushed, and a forward pass, first layer first, each waiting for its parameters and
 * sleeping for the other third. Baseline: the same sleeps alone. The first layer's gradient comes last
 * and its parameters are needed first, so a step can take no less than compute and that layer's way to the ps:
 * 1 + SHARE / LAYERS.
 *
 * perf tune takes such steps with several sizes of chunks and credits, and writes the best for runs to read.
 */
#include "perf/overlap.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/netns.h"
#include "perf/rig_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAYERS = 64 };
#define COMPUTE_S 0.16
#define SHARE 0.8
#define USUAL_BYTES (UINT64_C(8) << 20)
/* what perf tune finds for this cable: about two of its bandwidth-delay products */
#define USUAL_CHUNK (UINT64_C(64) << 10)
#define USUAL_CREDIT (UINT64_C(32) << 10)

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

/* Ethernet as the cable is: with headers of 66 bytes in every 1514, and a queue as a switch has it. */
static bool limit(int ns, const char *dev, const struct overlap_cable *c)
{
    const double bits = c->bytes_per_s * 8 * 1514 / 1448;
    char command[256];

    if (c->delay_us > 0)
        snprintf(command, sizeof(command),
                 "ip link set %s mtu 1500; tc qdisc add dev %s root netem delay %uus rate %.0fbit "
                 "limit 10000",
                 dev, dev, c->delay_us, bits);
    else
        snprintf(command, sizeof(command),
                 "ip link set %s mtu 1500; tc qdisc add dev %s root tbf rate %.0fbit burst 64kb "
                 "latency 200ms",
                 dev, dev, bits);
    if (netns_run(ns, command))
        return true;
    log_error(
        c->delay_us > 0
            ? "the cable cannot be delayed: the kernel's netem is needed; --delay-us 0 does without"
            : "the cable's rate cannot be limited: the package iproute2 is needed");
    return false;
}

bool overlap_lay(struct netns *ns, const struct overlap_cable *c)
{
    *ns = (struct netns){ 0 };
    if (!netns_make(ns))
        return false;
    if (limit(ns->fd[0], "v0", c) && limit(ns->fd[1], "v1", c))
        return true;
    netns_drop(ns);
    return false;
}

bool overlap_measure(const struct netns *ns, const struct overlap_case *c, struct turn_result *out)
{
    static const char *const host[] = { NETNS_ACTIVE, NETNS_PASSIVE };
    struct rig_turn g = { .rig = { .chunk_bytes = c->chunk_bytes,
                                   .credit_bytes = c->credit_bytes } };
    struct turn alone;
    bool ok = rig_make_many(&g.rig, 1, LAYERS, c->bytes / LAYERS, CL_TCP) &&
              rig_move(&g.rig, ns->fd, host);

    g.part = steps;
    ok = ok && rig_turn_start(&g);
    alone = g.worker[0];
    alone.what = SLEEPS;
    ok = ok && turn_run(&(struct turn_race){ g.worker, &alone, 1, 1, c->rounds, c->round_s }, out);
    rig_turn_stop(&g);
    if (!ok)
        log_error("steps over the cable failed");
    return ok;
}

double overlap_rate(uint64_t bytes)
{
    return (double)bytes / (SHARE * COMPUTE_S);
}

uint64_t overlap_bytes(double bytes_per_s)
{
    return (uint64_t)(bytes_per_s * SHARE * COMPUTE_S) / LAYERS * LAYERS;
}

bool perf_overlap(const struct bench_out *o, const struct perf_engine_params *p)
{
    const uint64_t bytes = p->bytes != 0 ? p->bytes : USUAL_BYTES;
    const struct overlap_case c = { bytes, USUAL_CHUNK, USUAL_CREDIT, p->rounds, 4 * COMPUTE_S };
    struct netns ns;
    struct turn_result res;
    char cases[200];

    if (geteuid() != 0) {
        log_warn("overlap is left out: network namespaces are for root");
        return true;
    }
    if (!overlap_lay(&ns, &(struct overlap_cable){ .bytes_per_s = overlap_rate(bytes) }))
        return false;

    const bool ok = overlap_measure(&ns, &c, &res);

    netns_drop(&ns);
    if (!ok)
        return false;
    snprintf(
        cases, sizeof(cases),
        "\"transport\": \"tcp\", \"netns\": true, \"bytes\": %llu, \"mode\": \"sync\", "
        "\"wire\": %.2f, \"chunk_kib\": %d, \"credit_kib\": %d, \"against\": \"compute alone\"",
        (unsigned long long)bytes, SHARE, (int)(USUAL_CHUNK >> 10), (int)(USUAL_CREDIT >> 10));
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
