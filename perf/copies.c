/*
 * perf copies - what one synchronous exchange of one worker and one ps costs beside the work, once it runs;
 * both processes together, all their threads and libraries, counted by count.c, which is preloaded into a
 * second program like this one: calls of malloc, mmap, of registering memory, and system calls, for each
 * step; bytes that our own code copied, for each byte of payload. Heartbeats are counted too.
 */
#include "perf/idle.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/count.h"
#include "perf/rig.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 2000, LARGE_STEPS = 200, WARM = 50 };
enum { LARGE = 1 << 20 };
#define A_FEW 0.02 /* calls a step: heartbeats */

enum { COPIED, MALLOC, MMAP, REGISTER, CALLS, NCOUNTS };
static const char *const names[NCOUNTS] = { "copied", "malloc", "mmap", "register", "calls" };

struct result {
    bool ok;
    double count[NCOUNTS];
};

/* NULL: nobody counts here. */
static const struct vb_counts *counts(void)
{
    struct vb_counts *(*shared)(void) = NULL;
    void *f = dlsym(RTLD_DEFAULT, VB_COUNTS_SYMBOL);

    memcpy(&shared, &f, sizeof(f));
    return shared != NULL ? shared() : NULL;
}

bool perf_copies_counting(void)
{
    return counts() != NULL;
}

static void snapshot(double *out)
{
    const struct vb_counts *c = counts();

    out[COPIED] = (double)atomic_load(&c->copied_bytes);
    out[MALLOC] = (double)atomic_load(&c->mallocs);
    out[MMAP] = (double)atomic_load(&c->mmaps);
    out[REGISTER] = (double)atomic_load(&c->registers);
    out[CALLS] = (double)atomic_load(&c->syscalls);
}

/* What is never more than 0 must be known to count. */
static bool counts_count(void)
{
    static char from[VB_COUNT_COPY], to[VB_COUNT_COPY];
    volatile size_t n = VB_COUNT_COPY; /* so that the compiler cannot do it by itself */
    double before[NCOUNTS], after[NCOUNTS];

    snapshot(before);
    free(malloc(n));
    memcpy(to, from, n);
    (void)mmap(NULL, 0, PROT_READ, MAP_SHARED, -1, 0);
    (void)!write(-1, from, n);
    snapshot(after);
    for (unsigned i = 0; i < NCOUNTS; i++)
        /* UCX's own mmap is a system call too */
        if (i != REGISTER && after[i] - before[i] < (i == COPIED ? (double)n : 1)) {
            log_error("%s is not counted", names[i]);
            return false;
        }
    return true;
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
    const unsigned n = bytes >= LARGE || transport == CL_RDMA ? LARGE_STEPS : STEPS;
    double before[NCOUNTS], after[NCOUNTS];
    struct result res = { 0 };
    struct rig r = { 0 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (counts_count() && rig_make(&r, 1, bytes, transport) && rig_start_ps(&r) > 0 &&
        rig_be_worker(&r, 0) && rig_init(&r) && steps(&r, WARM)) {
        snapshot(before);
        res.ok = steps(&r, n);
        snapshot(after);
        /* setting up has registered the regions of both */
        res.ok &= transport == CL_MAP || after[REGISTER] >= 2;
        for (unsigned i = 0; i < NCOUNTS; i++)
            res.count[i] = (after[i] - before[i]) / n;
        res.count[COPIED] /= 2 * (double)bytes; /* pushed and made readable */
        rig_finish(&r);
        (void)wait(NULL);
    }
    if (write(out, &res, sizeof(res)) != sizeof(res))
        log_error("cannot hand the result on: %m");
    _exit(0);
}

static void print(const struct bench_out *o, const char *way, uint64_t bytes, unsigned what,
                  double value)
{
    const bool map = strcmp(way, "map") == 0;
    char cases[96], label[64];

    snprintf(cases, sizeof(cases), "\"transport\": \"%s\", \"bytes\": %llu, \"of\": \"%s\"", way,
             (unsigned long long)bytes, names[what]);
    snprintf(label, sizeof(label), "copies %s %llu KiB, %s", way, (unsigned long long)bytes >> 10,
             names[what]);
    bench_print(o, &(struct bench_row){ .bench = "copies",
                                        .cases = cases,
                                        .value = value,
                                        .unit = what == COPIED ? "ratio" : "1/step",
                                        .baseline = -1,
                                        .goal = !map             ? -1
                                                : what == COPIED ? 0
                                                                 : A_FEW,
                                        .goal_of_value = true,
                                        .first = -1,
                                        .label = label });
}

static bool one_case(const struct bench_out *o, enum tp_way way, uint64_t bytes)
{
    struct result r = { 0 };
    int fd[2];

    if (pipe(fd) != 0)
        return false;
    fflush(stdout);
    const pid_t pid = fork();

    if (pid == 0)
        run_case(bytes, way == TP_MAP ? CL_MAP : way == TP_TCP ? CL_TCP : CL_RDMA, fd[1]);
    close(fd[1]);
    if (read(fd[0], &r, sizeof(r)) != sizeof(r))
        r.ok = false;
    close(fd[0]);
    (void)waitpid(pid, NULL, 0);
    for (unsigned i = 0; r.ok && i < NCOUNTS; i++)
        print(o, tp_way_name(way), bytes, i, r.count[i]);
    if (!r.ok)
        log_error("copies over %s failed", tp_way_name(way));
    return r.ok;
}

static bool count_all(const struct bench_out *o, const struct link_params *p)
{
    static const uint64_t sizes[] = { 4096, 4 << 20 };
    bool ok = true;

    if (p->host != NULL)
        rig_at(p->host);
    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++)
        for (unsigned i = 0; i < (p->bytes != 0 ? 1 : 2); i++)
            if (link_usable(p, way, "copies"))
                ok &= one_case(o, way, p->bytes != 0 ? p->bytes : sizes[i]);
    return ok;
}

/* This program once more, with somebody who counts. */
static bool again(const struct bench_out *o, const struct link_params *p)
{
    const char *way = p->way[TP_MAP] && p->way[TP_TCP] ? "auto"
                      : p->way[TP_MAP]                 ? "map"
                      : p->way[TP_TCP]                 ? "tcp"
                                                       : "rdma";
    char bytes[24];
    int status = -1;

    snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)p->bytes);
    fflush(stdout);

    const pid_t pid = fork();

    if (pid == 0) {
        setenv("LD_PRELOAD", VERBENA_COUNT, 1);
        execl("/proc/self/exe", "verbena", "perf", "copies", "--transport", way, "--bytes", bytes,
              "--host", p->host != NULL ? p->host : "127.0.0.1", o->json ? "--json" : NULL, NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool perf_copies(const struct bench_out *o, const struct link_params *p)
{
    if (perf_copies_counting())
        return count_all(o, p);
    if (access(VERBENA_COUNT, R_OK) == 0)
        return again(o, p);
    fprintf(stderr, "copies: left out, there is no library that counts (" VERBENA_COUNT ")\n");
    return true;
}
