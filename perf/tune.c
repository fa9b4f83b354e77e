/*
 * perf tune - which size of chunks and which credit hide an exchange best behind compute, on a cable of the rate and
 * delay that one's network has (ping and iperf3 say them), by steps as in perf overlap (root only). Small chunks and
 * credits let what is needed first come first, large ones keep the wire busy. The best goes to a file that runs read
 * with --tune.
 */
#include "perf/overlap.h"

#define LOG_MOD "perf"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3 };
#define ROUND_S 0.4
static const uint64_t chunk_kib[] = { 1024, 256, 128, 64 };
/* the usual, and in bandwidth-delay products, the delay being a round trip and the way through both tasks */
static const double credit_bdp[] = { 0, 16, 4, 2, 1 };
#define OWN_DELAY_S 150e-6
#define MAX_BYTES (UINT64_C(256) << 20)

struct best {
    double ratio;
    uint64_t chunk_kib, credit_kib; /* 0: the usual */
};

static bool write_file(const struct perf_engine_params *p, const struct best *b)
{
    FILE *f = fopen(p->out, "w");
    bool ok = f != NULL;

    if (ok)
        ok = fprintf(f,
                     "# verbena perf tune --rate-mbit %g --delay-us %u: a step took %.3f of its "
                     "compute\n"
                     "chunk_kib: %llu\ncredit_kib: %llu\n",
                     p->rate_mbit, p->delay_us, b->ratio, (unsigned long long)b->chunk_kib,
                     (unsigned long long)b->credit_kib) > 0;
    if (f != NULL)
        ok = fclose(f) == 0 && ok;
    if (!ok)
        log_error("cannot write %s: %s", p->out, strerror(errno));
    return ok;
}

static void show(const struct bench_out *o, const struct perf_engine_params *p,
                 const struct overlap_case *c, const struct turn_result *res)
{
    char cases[200], label[64];

    snprintf(cases, sizeof(cases),
             "\"rate_mbit\": %g, \"delay_us\": %u, \"chunk_kib\": %llu, \"credit_kib\": %llu, "
             "\"against\": \"compute alone\"",
             p->rate_mbit, p->delay_us, (unsigned long long)(c->chunk_bytes >> 10),
             (unsigned long long)(c->credit_bytes >> 10));
    snprintf(label, sizeof(label), "chunk %llu KiB, credit %llu KiB",
             (unsigned long long)(c->chunk_bytes >> 10),
             (unsigned long long)(c->credit_bytes >> 10));
    bench_print(o, &(struct bench_row){ .bench = "tune",
                                        .cases = cases,
                                        .value = res->value,
                                        .unit = "s",
                                        .baseline = res->base,
                                        .goal = -1,
                                        .noisy = res->base_spread > 0.1,
                                        .first = -1,
                                        .label = label });
}

static bool try_all(const struct bench_out *o, const struct perf_engine_params *p,
                    const struct netns *ns, double bytes_per_s, struct best *best)
{
    const double delay_s = 2e-6 * p->delay_us + OWN_DELAY_S;
    uint64_t last = UINT64_MAX;

    for (size_t i = 0; i < VB_ARRAY_LEN(chunk_kib); i++)
        for (size_t k = 0; k < VB_ARRAY_LEN(credit_bdp); k++) {
            const uint64_t want = (uint64_t)(credit_bdp[k] * bytes_per_s * delay_s) >> 10,
                           credit = credit_bdp[k] == 0 ? 0 : VB_MIN(VB_MAX(want, 16u), 16384u);
            const struct overlap_case c = { overlap_bytes(bytes_per_s), chunk_kib[i] << 10,
                                            credit << 10, ROUNDS, ROUND_S };
            struct turn_result res;

            if (credit == last)
                continue;
            last = credit;
            if (!overlap_measure(ns, &c, &res))
                return false;
            show(o, p, &c, &res);
            /* a finer one has to be worth it */
            if (best->ratio == 0 || res.value / res.base < best->ratio * (1 - 0.005))
                *best = (struct best){ res.value / res.base, chunk_kib[i], credit };
        }
    return true;
}

bool perf_tune(const struct bench_out *o, const struct perf_engine_params *p)
{
    const double bytes_per_s = p->rate_mbit * 1e6 / 8 * 1448 / 1514;
    struct netns ns;
    struct best best = { 0 };

    if (geteuid() != 0) {
        log_error("tune needs network namespaces, which are for root");
        return false;
    }
    if (overlap_bytes(bytes_per_s) > MAX_BYTES) {
        log_error("a cable of %g Mbit/s is faster than this host can imitate; the usual chunks and "
                  "credit are for it",
                  p->rate_mbit);
        return false;
    }
    if (!overlap_lay(&ns, &(struct overlap_cable){ bytes_per_s, p->delay_us }))
        return false;

    const bool ok = try_all(o, p, &ns, bytes_per_s, &best);

    netns_drop(&ns);
    if (!ok || !write_file(p, &best))
        return false;
    fprintf(
        stderr,
        "chunks of %llu KiB and a credit of %llu KiB are best: %s (verbena train JOB --tune %s)\n",
        (unsigned long long)best.chunk_kib, (unsigned long long)best.credit_kib, p->out, p->out);
    return true;
}
