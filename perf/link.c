/*
 * Every measurement here is: n operations of ours, n of a baseline, in turn, seven rounds, medians. The
 * active side says what comes (an order), does its part and takes the time; the passive one does the other
 * part. Both keep to a processor of their own and, but for `wake`, never sleep.
 */
#include "perf/link.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "perf/link_parts.h"
#include "perf/netns.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define ROUND_S 0.04
#define POLL_NS (100 * VB_MS) /* so long that nobody sleeps */

enum { WINDOW = 8, BASES_MAX = 2 };

struct result {
    double value, base[BASES_MAX], spread[BASES_MAX], first;
    char way[256];
};

static struct {
    unsigned rounds, nbases;
    link_part *ours, *base[BASES_MAX];
} now;

/* How many take about ROUND_S. */
static uint64_t enough(struct pair *s, link_part *f)
{
    uint64_t n = 1;
    double took = f(s, n);

    while (took >= 0 && took < ROUND_S / 4 && n < (1u << 22)) {
        n *= 4;
        took = f(s, n);
    }
    return took > 0 ? VB_MAX((uint64_t)((double)n * ROUND_S / took), (uint64_t)1) : n;
}

static bool measure(struct pair *s, void *out)
{
    struct result *r = out;
    double each[1 + BASES_MAX][BENCH_ROUNDS_MAX];
    link_part *const f[1 + BASES_MAX] = { now.ours, now.base[0], now.base[1] };
    uint64_t n[1 + BASES_MAX];

    r->first = f[0](s, 1);
    for (unsigned k = 0; k <= now.nbases; k++)
        n[k] = enough(s, f[k]);
    for (unsigned i = 0; i < now.rounds; i++)
        for (unsigned k = 0; k <= now.nbases; k++) {
            each[k][i] = f[k](s, n[k]) / (double)n[k];
            if (each[k][i] < 0)
                return false;
        }
    r->value = bench_median(each[0], now.rounds);
    for (unsigned k = 0; k < now.nbases; k++) {
        r->spread[k] = bench_spread(each[1 + k], now.rounds);
        r->base[k] = bench_median(each[1 + k], now.rounds);
    }
    tp_link_describe(s->link, r->way, sizeof(r->way));
    return true;
}

/* One row of the table for each baseline. */
struct row {
    const char *bench, *against[BASES_MAX];
    double goal[BASES_MAX];
    double per_s; /* 0: seconds; else that many units a second */
    const char *unit;
};

static bool run_case(const struct bench_out *o, const struct link_params *p, enum tp_way way,
                     struct pair_params pp, const struct row *row)
{
    const uint64_t bytes = link_now.bytes;
    struct result r = { 0 };
    char cases[512], label[96];

    pp.way = way;
    pp.host = p->host;
    now.rounds = p->rounds;
    if (!pair_run(&pp, measure, link_serve, &r, sizeof(r))) {
        log_error("%s of %llu bytes over %s failed", row->bench, (unsigned long long)bytes,
                  tp_way_name(way));
        return false;
    }
    for (unsigned k = 0; k < VB_MAX(now.nbases, 1u); k++) {
        const bool rate = row->per_s > 0;

        snprintf(cases, sizeof(cases),
                 "\"transport\": \"%s\", \"bytes\": %llu, \"against\": \"%s\", \"netns\": %s, "
                 "\"link\": \"%s\"",
                 tp_way_name(way), (unsigned long long)bytes,
                 row->against[k] != NULL ? row->against[k] : "",
                 pp.hosts != NULL ? "true" : "false", r.way);
        snprintf(label, sizeof(label), "%s %s %llu B%s%s", row->bench, tp_way_name(way),
                 (unsigned long long)bytes, row->against[k] != NULL ? " / " : "",
                 row->against[k] != NULL ? row->against[k] : "");
        bench_print(o, &(struct bench_row){ .bench = row->bench,
                                            .cases = cases,
                                            .value = rate ? row->per_s / r.value : r.value,
                                            .unit = row->unit,
                                            .baseline = now.nbases == 0 ? -1
                                                        : rate          ? row->per_s / r.base[k]
                                                                        : r.base[k],
                                            .goal = row->goal[k],
                                            .more_is_better = rate,
                                            .noisy = r.spread[k] > 0.1,
                                            .first = r.first,
                                            .label = label,
                                            .series = tp_way_name(way),
                                            .bytes = bytes });
    }
    return true;
}

bool link_usable(const struct link_params *p, enum tp_way way, const char *bench)
{
    if (!p->way[way])
        return false;
    if (way == TP_RDMA && access("/sys/class/infiniband", F_OK) != 0) {
        fprintf(stderr, "%s rdma: left out, this host has no RDMA device\n", bench);
        return false;
    }
    return true;
}

bool perf_link_lat(const struct bench_out *o, const struct link_params *p)
{
    static const uint64_t sizes[] = { 8, 64, 512, 4096 };
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const bool map = way == TP_MAP;
        const struct pair_params pp = {
            .bytes = 1 << 20, .spin_ns = POLL_NS, .raw = !map, .verbs = way == TP_RDMA
        };
        const struct row row = { .bench = "link-lat",
                                 .against = { map ? "two cache lines" : "ucx", "verbs" },
                                 .goal = { map ? 1.5 : 1.03, -1 },
                                 .unit = "s" };

        if (!link_usable(p, way, row.bench))
            continue;
        for (size_t i = 0; i < (p->bytes != 0 ? 1 : VB_ARRAY_LEN(sizes)); i++) {
            link_now.bytes = p->bytes != 0 ? p->bytes : sizes[i];
            now.nbases = way == TP_RDMA ? 2 : 1;
            now.base[1] = link_verbs_ping;
            now.ours = link_ping;
            now.base[0] = map ? link_lines : link_ucx_ping;
            ok &= run_case(o, p, way, pp, &row);
        }
    }
    return ok;
}

static bool bw_case(const struct bench_out *o, const struct link_params *p, enum tp_way way,
                    struct pair_params pp, uint64_t bytes)
{
    const bool map = way == TP_MAP, tcp = way == TP_TCP, large = bytes >= 1 << 20;
    const struct row row = { .bench = "link-bw",
                             .against = { map   ? "memcpy"
                                          : tcp ? "sockets"
                                                : "ucx",
                                          tcp ? "ucx" : "verbs" },
                             .goal = { !tcp    ? (large ? 0.98 : 0.92)
                                       : large ? 0.95
                                               : -1,
                                       !tcp    ? -1
                                       : large ? 0.98
                                               : 0.92 },
                             .per_s = (double)bytes,
                             .unit = "B/s" };

    link_now.bytes = bytes;
    link_now.window = WINDOW;
    now.nbases = map ? 1 : 2;
    now.ours = link_stream;
    now.base[0] = map ? link_copy : tcp ? link_sockets : link_ucx_best;
    now.base[1] = tcp ? link_ucx_best : link_verbs_write;
    pp.bytes = bytes;
    pp.spin_ns = POLL_NS;
    pp.raw = !map;
    pp.sockets = tcp;
    pp.verbs = way == TP_RDMA;
    return run_case(o, p, way, pp, &row);
}

bool perf_link_bw(const struct bench_out *o, const struct link_params *p)
{
    static const uint64_t kib[] = { 64, 256, 1024, 4096, 16384, 65536 };
    struct netns ns = { 0 };
    struct pair_params pp = { 0 };
    bool ok = true;

    if (p->netns) {
        if (!netns_make(&ns))
            return false;
        pp.netns[0] = ns.fd[0];
        pp.netns[1] = ns.fd[1];
        pp.hosts = NETNS_PASSIVE;
    }
    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        if ((p->netns && way != TP_TCP) || !link_usable(p, way, "link-bw"))
            continue;
        if (p->bytes != 0)
            ok &= bw_case(o, p, way, pp, p->bytes);
        for (size_t i = 0; p->bytes == 0 && i < VB_ARRAY_LEN(kib); i++)
            ok &= bw_case(o, p, way, pp, kib[i] << 10);
    }
    netns_drop(&ns);
    return ok;
}

bool perf_link_rate(const struct bench_out *o, const struct link_params *p)
{
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const bool map = way == TP_MAP;
        const struct pair_params pp = { .bytes = 1 << 20, .spin_ns = POLL_NS, .raw = !map };
        const struct row row = { .bench = "link-rate",
                                 .against = { map ? NULL : "ucx" },
                                 .goal = { map ? -1 : 0.80 },
                                 .per_s = 1,
                                 .unit = "1/s" };

        if (!link_usable(p, way, row.bench))
            continue;
        link_now.bytes = p->bytes != 0 ? p->bytes : 8;
        link_now.window = LINK_DEEP;
        now.nbases = map ? 0 : 1;
        now.ours = link_stream;
        now.base[0] = link_ucx_stream;
        ok &= run_case(o, p, way, pp, &row);
    }
    return ok;
}

bool perf_wake(const struct bench_out *o, const struct link_params *p)
{
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const struct pair_params pp = { .bytes = 1 << 20 };
        const struct row row = { .bench = "wake",
                                 .against = { "eventfd" },
                                 .goal = { way == TP_MAP ? 1.10 : -1 },
                                 .unit = "s" };

        if (!link_usable(p, way, row.bench))
            continue;
        link_now.bell[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        link_now.bell[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        link_now.bytes = 8;
        now.nbases = 1;
        now.ours = link_sleepy_ping;
        now.base[0] = link_bells;
        ok &= run_case(o, p, way, pp, &row);
        close(link_now.bell[0]);
        close(link_now.bell[1]);
    }
    return ok;
}
