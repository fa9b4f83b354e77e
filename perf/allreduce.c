/*
 * perf allreduce - what an all-reduce does, by push and pull: n workers push M bytes each, the ps adds them and applies SGD, all
 * workers can read every parameter. Baseline: MPI_Allreduce of Open MPI and gloo's all-reduce (through PyTorch)
 * of M bytes between max(n, 2) processes, where they are installed; both are programs of perf/compare that run
 * along and take their turns. Nobody keeps to a processor.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/rig_turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MPI, GLOO, NAGAINST };
static const char *const against[] = { "MPI_Allreduce", "gloo all-reduce", "nothing" };

static void say_missing(unsigned k)
{
    static bool said[NAGAINST];

    if (!said[k])
        log_warn("no comparison with %s: it is not installed", against[k]);
    said[k] = true;
}

static bool start_mpi(struct turn *t, const char *ranks, const char *bytes)
{
    const char *const argv[] = { "/usr/bin/mpirun",
                                 "--allow-run-as-root",
                                 "--oversubscribe",
                                 "--bind-to",
                                 "none",
                                 "-n",
                                 ranks,
                                 VERBENA_MPI,
                                 bytes,
                                 NULL };

    return VERBENA_MPI[0] != '\0' && access(argv[0], X_OK) == 0 && turn_exec(t, argv) &&
           turn_ready(t, 1);
}

static bool start_gloo(struct turn *t, const char *ranks, const char *bytes)
{
    const char *dir = getenv("VB_COMPARE");
    char script[512];
    const char *const argv[] = { "/usr/bin/python3", script, ranks, bytes, NULL };

    snprintf(script, sizeof(script), "%.400s/torch_allreduce.py",
             dir != NULL ? dir : VERBENA_COMPARE);
    return turn_exec(t, argv) && turn_ready(t, 1);
}

static void print(const struct bench_out *o, enum cl_transport t, uint64_t bytes, unsigned n,
                  const char *name, double goal, const struct turn_result *res)
{
    const char *way = t == CL_MAP ? "map" : "tcp";
    char cases[200], label[80];

    snprintf(cases, sizeof(cases),
             "\"bytes\": %" PRIu64 ", \"transport\": \"%s\", \"workers\": %u, \"ps\": 1, "
             "\"against\": \"%s\"",
             bytes, way, n, name);
    snprintf(label, sizeof(label), "allreduce %s %u+1 %" PRIu64 "K %s", way, n, bytes >> 10, name);
    bench_print(o, &(struct bench_row){ .bench = "allreduce",
                                        .cases = cases,
                                        .value = res->value,
                                        .unit = "s",
                                        .baseline = res->base,
                                        .goal = goal,
                                        .noisy = res->base >= 0 && res->base_spread > 0.1,
                                        .first = res->first,
                                        .label = label });
}

/* How many times as fast, read in place on this host. */
static double goal_of(enum cl_transport t, unsigned n)
{
    return t != CL_MAP || n < 4 ? -1 : n < 8 ? 1 / 2.0 : 1 / 2.8;
}

static bool race(const struct bench_out *o, const struct perf_engine_params *p, enum cl_transport t,
                 uint64_t bytes, struct rig_turn *g, struct turn *base, unsigned k)
{
    struct turn_result res;

    if (!turn_run(&(struct turn_race){ g->worker, base, g->n, 1, p->rounds, 0.1 }, &res))
        return false;
    print(o, t, bytes, g->n, against[k], base != NULL ? goal_of(t, g->n) : -1, &res);
    return true;
}

static bool one_case(const struct bench_out *o, const struct perf_engine_params *p,
                     enum cl_transport t, uint64_t bytes, unsigned n)
{
    struct rig_turn g = { 0 };
    char ranks[16], size[32];
    bool alone = true, ok = rig_make(&g.rig, n, bytes, t);

    g.rig.pinned = false;
    g.part = rig_turn_exchange;
    ok = ok && rig_turn_start(&g);
    snprintf(ranks, sizeof(ranks), "%u", VB_MAX(n, 2u));
    snprintf(size, sizeof(size), "%" PRIu64, bytes);
    for (unsigned k = 0; ok && k < NAGAINST; k++) {
        struct turn base = { 0 };

        if (k == MPI ? start_mpi(&base, ranks, size) : start_gloo(&base, ranks, size)) {
            ok = race(o, p, t, bytes, &g, &base, k);
            alone = false;
        } else {
            say_missing(k);
        }
        turn_stop(&base, 1);
    }
    ok = ok && (!alone || race(o, p, t, bytes, &g, NULL, NAGAINST));
    rig_turn_stop(&g);
    if (!ok)
        log_error("allreduce of %" PRIu64 " bytes, %u workers, failed", bytes, n);
    return ok;
}

bool perf_allreduce(const struct bench_out *o, const struct perf_engine_params *p)
{
    static const uint64_t kib[] = { 1, 64, 1024, 16384, 65536 };
    const unsigned least = p->workers != 0 ? p->workers : 1,
                   most = p->workers != 0 ? p->workers : 2;
    bool ok = true;

    for (enum cl_transport t = CL_MAP; t <= CL_TCP; t++)
        for (unsigned n = least; n <= most; n++) {
            if (p->transport != CL_AUTO && p->transport != t)
                continue;
            for (size_t i = 0; i < (p->bytes != 0 ? 1 : VB_ARRAY_LEN(kib)); i++)
                ok &= one_case(o, p, t, p->bytes != 0 ? p->bytes : kib[i] << 10, n);
        }
    return ok;
}
