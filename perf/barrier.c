/*
 * perf barrier - a synchronous step with nothing in it but one float: n workers push, the ps adds, all go on.
 * Baseline: a barrier of n processes on a cache line that they share. With fewer processors than tasks (n + 1)
 * ours sleeps, and the line's processes give way after a while.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/rig_turn.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

struct line {
    _Alignas(64) atomic_uint in;
    _Alignas(64) atomic_uint gone;
    unsigned n, next;
};

enum { PATIENCE = 20000 };

static double meet(void *arg, unsigned what, uint64_t n)
{
    struct line *l = arg;
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++) {
        const unsigned at = atomic_load(&l->gone);

        if (atomic_fetch_add(&l->in, 1) + 1 == l->n) {
            atomic_store(&l->in, 0);
            atomic_store(&l->gone, at + 1);
            continue;
        }
        for (unsigned k = 1; atomic_load_explicit(&l->gone, memory_order_acquire) == at; k++) {
            __builtin_ia32_pause();
            if (k % PATIENCE == 0)
                sched_yield();
        }
    }
    return bench_now_s() - begun;
}

static void be_in_line(void *arg)
{
    struct line *l = arg;

    bench_pin(l->next);
    turn_serve(meet, l);
}

static bool one_case(const struct bench_out *o, const struct perf_engine_params *p,
                     enum cl_transport t, unsigned n, struct line *l)
{
    struct rig_turn g = { 0 };
    struct turn base[RIG_WORKERS_MAX] = { 0 };
    struct turn_result res;
    char cases[160], label[64];
    bool ok = rig_make(&g.rig, n, sizeof(float), t);

    g.rig.pinned = t == CL_MAP && n == 1;
    g.part = rig_turn_exchange;
    *l = (struct line){ .n = n == 1 ? 2 : n };
    for (l->next = 0; ok && l->next < l->n; l->next++)
        ok = turn_fork(&base[l->next], be_in_line, l) && turn_ready(&base[l->next], 1);
    ok = ok && rig_turn_start(&g) &&
         turn_run(&(struct turn_race){ g.worker, base, n, l->n, p->rounds, 0.05 }, &res);
    turn_stop(base, l->n);
    rig_turn_stop(&g);
    if (!ok) {
        log_error("barrier of %u workers failed", n);
        return false;
    }
    snprintf(
        cases, sizeof(cases),
        "\"transport\": \"%s\", \"workers\": %u, \"ps\": 1, \"against\": \"%u at a shared line\"",
        t == CL_MAP ? "map" : "tcp", n, l->n);
    snprintf(label, sizeof(label), "barrier %s %u worker%s", t == CL_MAP ? "map" : "tcp", n,
             n > 1 ? "s" : "");
    bench_print(o, &(struct bench_row){ .bench = "barrier",
                                        .cases = cases,
                                        .value = res.value,
                                        .unit = "s",
                                        .baseline = res.base,
                                        .goal = t == CL_MAP && n > 1 ? 2 : -1,
                                        .noisy = res.base_spread > 0.1,
                                        .first = res.first,
                                        .label = label });
    return true;
}

bool perf_barrier(const struct bench_out *o, const struct perf_engine_params *p)
{
    struct line *l =
        mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool ok = l != MAP_FAILED;

    for (enum cl_transport t = CL_MAP; ok && t <= CL_TCP; t++)
        for (unsigned n = 1; n <= 2; n++) {
            if ((p->transport != CL_AUTO && p->transport != t) || (p->workers != 0 && n != 1))
                continue;
            ok &= one_case(o, p, t, p->workers != 0 ? p->workers : n, l);
        }
    if (l != MAP_FAILED)
        munmap(l, sizeof(*l));
    return ok;
}
