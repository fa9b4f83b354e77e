/*
 * perf idle - what waiting costs: a ps with 8 workers that wait for something that does not come, heartbeats and
 * all. The processor time of the ps and of a worker over some seconds, as a share of one core.
 */
#include "perf/idle.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "perf/rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PEERS = 8, SETTLE_S = 1, WATCH_S = 3 };

struct result {
    bool ok;
    double ps, worker; /* seconds of processor time a second */
};

static double cpu_s(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return -1;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Says so when it is in, and waits for parameters that nobody sends. */
static void be_idle(struct rig *r, unsigned worker, int in)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!rig_be_worker(r, worker) || write(in, "x", 1) != 1)
        _exit(1);
    for (;;)
        if (exchange_wait(r->x, vb_now_ns() + 3600 * VB_SEC) != VB_OK)
            _exit(0);
}

static void run_case(enum cl_transport transport, int out)
{
    struct result res = { 0 };
    struct rig r = { 0 };
    pid_t ps = -1, worker[PEERS];
    unsigned in = 0;
    char byte;
    int fd[2];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pipe(fd) == 0 && rig_make(&r, PEERS, 4096, transport)) {
        r.pinned = false;
        ps = rig_start_ps(&r);
        for (unsigned i = 0; i < PEERS; i++) {
            worker[i] = fork();
            if (worker[i] == 0)
                be_idle(&r, i, fd[1]);
        }
        close(fd[1]);
        while (in < PEERS && read(fd[0], &byte, 1) == 1)
            in++;
    }
    if (in == PEERS) {
        sleep(SETTLE_S);

        const double a = cpu_s(ps), b = cpu_s(worker[0]), begun = bench_now_s();

        sleep(WATCH_S);

        const double took = bench_now_s() - begun;

        res.ps = (cpu_s(ps) - a) / took;
        res.worker = (cpu_s(worker[0]) - b) / took;
        res.ok = a >= 0 && b >= 0;
    }
    if (write(out, &res, sizeof(res)) != sizeof(res))
        log_error("cannot hand the result on: %m");
    if (ps > 0)
        kill(ps, SIGKILL); /* first: it would complain about the others */
    for (unsigned i = 0; i < PEERS && in > 0; i++)
        kill(worker[i], SIGKILL);
    _exit(0);
}

static void print(const struct bench_out *o, const char *way, const char *who, double value)
{
    char cases[96], label[64];

    snprintf(cases, sizeof(cases), "\"transport\": \"%s\", \"task\": \"%s\", \"workers\": %d", way,
             who, PEERS);
    snprintf(label, sizeof(label), "idle %s %s", way, who);
    bench_print(o, &(struct bench_row){ .bench = "idle",
                                        .cases = cases,
                                        .value = value,
                                        .unit = "core",
                                        .baseline = -1,
                                        .goal = 0.001,
                                        .goal_of_value = true,
                                        .first = -1,
                                        .label = label });
}

bool perf_idle(const struct bench_out *o, const struct link_params *p)
{
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const enum cl_transport t = way == TP_MAP ? CL_MAP : way == TP_TCP ? CL_TCP : CL_RDMA;
        struct result r = { 0 };
        int fd[2];

        if (!link_usable(p, way, "idle") || pipe(fd) != 0)
            continue;
        if (p->host != NULL)
            rig_at(p->host);
        fflush(stdout);
        const pid_t pid = fork();

        if (pid == 0)
            run_case(t, fd[1]);
        close(fd[1]);
        ok = read(fd[0], &r, sizeof(r)) == sizeof(r) && r.ok && ok;
        close(fd[0]);
        (void)waitpid(pid, NULL, 0);
        if (!r.ok) {
            log_error("idle over %s failed", tp_way_name(way));
            continue;
        }
        print(o, tp_way_name(way), "ps", r.ps);
        print(o, tp_way_name(way), "worker", r.worker);
    }
    return ok;
}
