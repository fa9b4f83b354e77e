/*
 * perf copies - what a step costs beside the work, once it runs: bytes that our code copied for each byte of
 * payload that was received, and system calls of the worker for each step, counted by the kernel's own
 * trace point (null where it may not be used). What is allocated is counted by the test worker_steady.
 */
#include "perf/idle.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/rig.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 50, WARM = 10 };

struct result {
    bool ok;
    double copied, calls; /* a byte; a step; calls below 0: unknown */
};

/* Counts the system calls of this thread; -1: not allowed. */
static int count_calls(void)
{
    static const char *const at[] = {
        "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
        "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id"
    };
    struct perf_event_attr a = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(a), .disabled = 1 };
    unsigned long long id = 0;

    for (unsigned i = 0; i < 2 && id == 0; i++) {
        FILE *f = fopen(at[i], "re");

        if (f != NULL && fscanf(f, "%llu", &id) != 1)
            id = 0;
        if (f != NULL)
            fclose(f);
    }
    a.config = id;
    return id == 0 ? -1 : (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool steps(struct rig *r, unsigned n)
{
    bool ok = true;

    for (unsigned i = 0; ok && i < n; i++)
        ok = rig_exchange(r);
    return ok;
}

static void run_case(uint64_t bytes, enum cl_transport transport, int out)
{
    struct result res = { .calls = -1 };
    struct rig r;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rig_make(&r, 1, bytes, transport) && rig_start_ps(&r) > 0 && rig_be_worker(&r, 0) &&
        rig_init(&r) && steps(&r, WARM)) {
        const struct tp_link_stats a = tp_link_stats(ctl_link(r.c, 0));
        const int fd = count_calls();
        uint64_t calls = 0;

        if (fd >= 0)
            (void)ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        res.ok = steps(&r, STEPS);
        if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) == 0 &&
            read(fd, &calls, sizeof(calls)) == sizeof(calls))
            res.calls = (double)calls / STEPS;

        const struct tp_link_stats b = tp_link_stats(ctl_link(r.c, 0));
        const uint64_t payload = b.recv_bytes - a.recv_bytes + b.sent_bytes - a.sent_bytes;

        res.copied = payload == 0 ? 0 : (double)(b.copied_bytes - a.copied_bytes) / (double)payload;
        rig_finish(&r);
        (void)wait(NULL);
    }
    if (write(out, &res, sizeof(res)) != sizeof(res))
        log_error("cannot hand the result on: %m");
    _exit(0);
}

static void print(const struct bench_out *o, const char *way, uint64_t bytes, const char *what,
                  double value, double goal)
{
    char cases[96], label[64];

    snprintf(cases, sizeof(cases), "\"transport\": \"%s\", \"bytes\": %llu, \"of\": \"%s\"", way,
             (unsigned long long)bytes, what);
    snprintf(label, sizeof(label), "copies %s %llu KiB, %s", way, (unsigned long long)bytes >> 10,
             what);
    bench_print(o, &(struct bench_row){ .bench = "copies",
                                        .cases = cases,
                                        .value = value,
                                        .unit = strcmp(what, "copied") == 0 ? "ratio" : "1/step",
                                        .baseline = -1,
                                        .goal = goal,
                                        .goal_of_value = true,
                                        .first = -1,
                                        .label = label });
}

bool perf_copies(const struct bench_out *o, const struct link_params *p)
{
    const uint64_t bytes = p->bytes != 0 ? p->bytes : 4 << 20;
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        struct result r = { 0 };
        int fd[2];

        if (!p->way[way] || way == TP_RDMA || pipe(fd) != 0)
            continue;
        fflush(stdout);
        const pid_t pid = fork();

        if (pid == 0)
            run_case(bytes, way == TP_MAP ? CL_MAP : CL_TCP, fd[1]);
        close(fd[1]);
        ok = read(fd[0], &r, sizeof(r)) == sizeof(r) && r.ok && ok;
        close(fd[0]);
        (void)waitpid(pid, NULL, 0);
        if (!r.ok) {
            log_error("copies over %s failed", tp_way_name(way));
            continue;
        }
        print(o, tp_way_name(way), bytes, "copied", r.copied, 0);
        print(o, tp_way_name(way), bytes, "calls", r.calls, way == TP_MAP ? 0 : -1);
    }
    return ok;
}
