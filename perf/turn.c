#include "perf/turn.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 120000, STOP_TRIES = 100 };

static FILE *orders, *answers; /* of the child */

static bool open_both(int to[2], int from[2])
{
    signal(SIGPIPE, SIG_IGN);
    fflush(stdout);
    return pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0;
}

static bool parent_side(struct turn *t, const int to[2], const int from[2])
{
    close(to[0]);
    close(from[1]);
    t->in = fdopen(to[1], "w");
    t->out = fdopen(from[0], "r");
    return t->pid > 0 && t->in != NULL && t->out != NULL;
}

bool turn_fork(struct turn *t, void (*body)(void *arg), void *arg)
{
    int to[2], from[2];

    *t = (struct turn){ 0 };
    if (!open_both(to, from))
        return false;
    t->pid = fork();
    if (t->pid != 0)
        return parent_side(t, to, from);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    orders = fdopen(to[0], "r");
    answers = fdopen(from[1], "w");
    if (orders != NULL && answers != NULL)
        body(arg);
    _exit(0);
}

void turn_serve(turn_part *part, void *arg)
{
    char line[64];

    fprintf(answers, "ready\n");
    fflush(answers);
    while (fgets(line, sizeof(line), orders) != NULL) {
        char *rest = NULL;
        const uint64_t n = (uint64_t)strtod(line, &rest);

        if (n == 0)
            return;
        fprintf(answers, "%.9g\n", part(arg, (unsigned)strtoul(rest, NULL, 10), n));
        fflush(answers);
    }
}

bool turn_exec(struct turn *t, const char *const *argv)
{
    int to[2], from[2];

    *t = (struct turn){ 0 };
    if (!open_both(to, from))
        return false;
    t->pid = fork();
    if (t->pid != 0)
        return parent_side(t, to, from);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool line_of(struct turn *t, char *line, size_t bytes)
{
    struct pollfd p = { .fd = t->out != NULL ? fileno(t->out) : -1, .events = POLLIN };

    return t->out != NULL && poll(&p, 1, WAIT_MS) == 1 && fgets(line, (int)bytes, t->out) != NULL;
}

bool turn_ready(struct turn *t, unsigned count)
{
    char line[64];

    for (unsigned i = 0; i < count; i++)
        if (!line_of(&t[i], line, sizeof(line)) || strcmp(line, "ready\n") != 0)
            return false;
    return true;
}

double turn_time(struct turn *t, unsigned count, double n)
{
    char line[64];
    double longest = 0;
    bool ok = true;

    for (unsigned i = 0; i < count; i++)
        ok = t[i].in != NULL && fprintf(t[i].in, "%.9g %u\n", n, t[i].what) > 0 &&
             fflush(t[i].in) == 0 && ok;
    for (unsigned i = 0; ok && i < count; i++) {
        const double took = line_of(&t[i], line, sizeof(line)) ? strtod(line, NULL) : -1;

        ok = took > 0;
        longest = VB_MAX(longest, took);
    }
    return ok ? longest : -1;
}

static void end_one(struct turn *t)
{
    if (t->out != NULL)
        fclose(t->out);
    for (int i = 0; t->pid > 0; i++) {
        if (waitpid(t->pid, NULL, WNOHANG) != 0)
            break;
        if (i == STOP_TRIES)
            kill(t->pid, SIGKILL);
        usleep(50000);
    }
    *t = (struct turn){ 0 };
}

void turn_stop(struct turn *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (t[i].in != NULL) {
            fprintf(t[i].in, "0\n");
            fclose(t[i].in);
        }
    for (unsigned i = 0; i < count; i++)
        end_one(&t[i]);
}

/* How many take about round_s. */
static uint64_t enough(struct turn *t, unsigned count, double round_s)
{
    uint64_t n = 1;
    double took = turn_time(t, count, 1);

    while (took > 0 && took < round_s / 4 && n < (1u << 26)) {
        n *= 4;
        took = turn_time(t, count, (double)n);
    }
    return took > 0 ? VB_MAX((uint64_t)((double)n * round_s / took), (uint64_t)1) : 0;
}

bool turn_run(const struct turn_race *r, struct turn_result *out)
{
    double a[BENCH_ROUNDS_MAX], b[BENCH_ROUNDS_MAX] = { 0 };

    *out = (struct turn_result){ .base = -1, .first = turn_time(r->ours, r->nours, 1) };

    const uint64_t na = enough(r->ours, r->nours, r->round_s),
                   nb = r->base != NULL ? enough(r->base, r->nbase, r->round_s) : 0;

    if (na == 0 || (r->base != NULL && nb == 0))
        return false;
    for (unsigned i = 0; i < r->rounds; i++) {
        a[i] = turn_time(r->ours, r->nours, (double)na) / (double)na;
        if (r->base != NULL)
            b[i] = turn_time(r->base, r->nbase, (double)nb) / (double)nb;
        if (a[i] < 0 || b[i] < 0)
            return false;
    }
    out->value_spread = bench_spread(a, r->rounds);
    out->value = bench_median(a, r->rounds);
    if (r->base != NULL) {
        out->base_spread = bench_spread(b, r->rounds);
        out->base = bench_median(b, r->rounds);
    }
    return true;
}
