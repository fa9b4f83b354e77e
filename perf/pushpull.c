/*
 * perf pushpull - one synchronous exchange of M bytes: a worker pushes a gradient, the ps applies SGD, the
 * worker can read every parameter. Real processes, hello and all; M is one variable.
 *
 * Baseline: one process doing x += y on two buffers of M bytes of the same kind of memory, in turn with
 * the exchange. Each case runs in a process of its own, which forks the ps.
 *
 * perf push - the same for what a push costs until it has been applied, on one host: large ones over map, where
 * parameters are read in place and nothing is pulled.
 */
#include "perf/pushpull.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/kn.h"
#include "perf/rig.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROUND_S 0.1

struct result {
    bool ok;
    double value, value_spread, baseline, spread, first;
    char way[160];
};

/* Mean seconds of one of n; below 0: failed. */
static double time_exchange(struct rig *r, uint64_t n)
{
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++)
        if (!rig_exchange(r))
            return -1;
    return (bench_now_s() - begun) / (double)n;
}

static double time_add(float *x, const float *y, size_t elems, uint64_t n)
{
    const struct kn_ops *kn = kn_best();
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++)
        kn->add(x, y, elems);
    return (bench_now_s() - begun) / (double)n;
}

static uint64_t repeats(double seconds)
{
    return seconds <= 0 || seconds > ROUND_S ? 1 : (uint64_t)(ROUND_S / seconds) + 1;
}

static bool measure(struct rig *r, uint64_t bytes, struct result *out)
{
    const size_t elems = bytes / sizeof(float);
    double a[BENCH_ROUNDS], b[BENCH_ROUNDS];
    uint32_t rx = 0, ry = 0;
    struct tp_node *own = NULL;
    bool ok;

    if (tp_node_open(&(struct tp_node_params){ .name = "baseline", .nports = 1 }, &own) != VB_OK)
        return false;
    ok = tp_region_new(own, bytes, false, &rx) == VB_OK &&
         tp_region_new(own, bytes, false, &ry) == VB_OK;
    ok = ok && rig_init(r);
    if (ok) {
        float *x = tp_region_base(own, rx), *y = tp_region_base(own, ry);

        out->first = time_exchange(r, 1);
        (void)time_exchange(r, bytes < 65536 ? 200 : 2);
        (void)time_add(x, y, elems, bytes < 65536 ? 200 : 2);
        const uint64_t na = repeats(time_exchange(r, 3)), nb = repeats(time_add(x, y, elems, 3));

        for (int i = 0; ok && i < BENCH_ROUNDS; i++) {
            a[i] = time_exchange(r, na);
            b[i] = time_add(x, y, elems, nb);
            ok = a[i] > 0;
        }
    }
    out->value = ok ? bench_median(a, BENCH_ROUNDS) : -1;
    out->value_spread = ok ? bench_spread(a, BENCH_ROUNDS) : -1;
    out->spread = ok ? bench_spread(b, BENCH_ROUNDS) : -1;
    out->baseline = ok ? bench_median(b, BENCH_ROUNDS) : -1;
    tp_node_close(own);
    return ok;
}

static void run_case(uint64_t bytes, enum cl_transport transport, int out_fd)
{
    struct rig r = { 0 };
    struct result out = { 0 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rig_make(&r, 1, bytes, transport) && rig_start_ps(&r) > 0 && rig_be_worker(&r, 0)) {
        out.ok = measure(&r, bytes, &out);
        tp_link_describe(ctl_link(r.c, 0), out.way, sizeof(out.way));
        rig_finish(&r);
        (void)wait(NULL);
    }
    if (write(out_fd, &out, sizeof(out)) != sizeof(out))
        log_error("cannot hand the result on: %m");
    _exit(out.ok ? 0 : 1);
}

static double goal_of(const struct perf_pushpull_params *p, uint64_t bytes, bool map)
{
    if (p->push)
        return 1.05;
    return !map ? -1 : bytes == 1024 ? 3e-6 : bytes == UINT64_C(64) << 20 ? 1.25 : -1;
}

static bool one_case(const struct bench_out *o, const struct perf_pushpull_params *p,
                     uint64_t bytes, enum cl_transport transport)
{
    const char *name = p->push ? "push" : "pushpull";
    struct result res = { 0 };
    char cases[320], label[64];
    int fd[2];

    if (pipe(fd) != 0)
        return false;
    fflush(stdout);
    const pid_t pid = fork();

    if (pid == 0)
        run_case(bytes, transport, fd[1]);
    close(fd[1]);
    const bool got = read(fd[0], &res, sizeof(res)) == sizeof(res) && res.ok;

    close(fd[0]);
    (void)waitpid(pid, NULL, 0);
    if (!got) {
        log_error("%s of %" PRIu64 " bytes over %s failed", name, bytes,
                  transport == CL_MAP ? "map" : "tcp");
        return false;
    }
    const bool map = transport == CL_MAP, tiny = !p->push && bytes == 1024;

    snprintf(cases, sizeof(cases),
             "\"bytes\": %" PRIu64 ", \"transport\": \"%s\", \"workers\": 1, \"ps\": 1, "
             "\"way\": \"%s\"",
             bytes, map ? "map" : "tcp", res.way);
    snprintf(label, sizeof(label), "%s %s %" PRIu64 " KiB", name, map ? "map" : "tcp", bytes >> 10);
    bench_print(o, &(struct bench_row){ .bench = name,
                                        .cases = cases,
                                        .value = res.value,
                                        .unit = "s",
                                        .baseline = res.baseline,
                                        .goal = goal_of(p, bytes, map),
                                        .goal_of_value = tiny,
                                        .noisy = (tiny ? res.value_spread : res.spread) > 0.1,
                                        .first = res.first,
                                        .label = label });
    return true;
}

bool perf_pushpull(const struct bench_out *o, const struct perf_pushpull_params *p)
{
    static const uint64_t kib[] = { 1, 4, 64, 1024, 4096, 16384, 65536, 262144 };
    static const uint64_t large_kib[] = { 1024, 4096, 16384, 65536 };
    const uint64_t *sizes = p->push ? large_kib : kib;
    const size_t n = p->push ? VB_ARRAY_LEN(large_kib) : VB_ARRAY_LEN(kib);
    bool ok = true;

    for (enum cl_transport t = CL_MAP; t <= CL_TCP; t++) {
        if ((p->transport != CL_AUTO && p->transport != t) || (p->push && t != CL_MAP))
            continue;
        if (p->bytes != 0)
            ok &= one_case(o, p, p->bytes, t);
        for (size_t i = 0; p->bytes == 0 && i < n; i++)
            ok &= one_case(o, p, sizes[i] << 10, t);
    }
    return ok;
}
