/*
 * perf train - samples/s of the Fashion-MNIST network 784-256-128-10, batch 100 in all, one thread a
 * process: verbena with 1 and 2 workers and one ps, against PyTorch in one process and its
 * DistributedDataParallel over gloo with two. Round by round in turn; every verbena round is a run of
 * its own: one warm data epoch, then as many as fill about 3 s. PyTorch stays up and trains for 3 s
 * whenever it is told to (perf/compare/torch_mlp.py).
 */
#include "perf/train.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "base/util.h"
#include "kernels/kn.h"
#include "perf/turn.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SECONDS 3.0

static const char job_text[] = "model: [dense: 256, relu, dense: 128, relu, dense: 10, "
                               "softmax_cross_entropy]\n"
                               "data:\n"
                               "  format: idx\n"
                               "  train:\n"
                               "    images: %s/train-images-idx3-ubyte.gz\n"
                               "    labels: %s/train-labels-idx1-ubyte.gz\n"
                               "  divide_by: 255\n"
                               "optimizer: { name: sgd, rate: 0.1 }\n"
                               "batch: 100\n";
static const char data_dir[] = "/usr/share/datasets/fashion-mnist";

static pid_t spawn(const char *const *argv, int out)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Time and samples of the data epochs after the first, from a run's events. */
static double rate_from(FILE *events)
{
    double t0 = -1, s0 = 0, t = 0, s = 0;
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, events) > 0) {
        json_t *e = json_loads(line, 0, NULL);
        const char *kind = json_string_value(json_object_get(e, "event"));

        if (kind != NULL && strcmp(kind, "epoch") == 0) {
            t = json_number_value(json_object_get(e, "seconds"));
            s = json_number_value(json_object_get(e, "samples"));
            if (t0 < 0) {
                t0 = t;
                s0 = s;
            }
        }
        json_decref(e);
    }
    free(line);
    return t > t0 && t0 >= 0 ? (s - s0) / (t - t0) : -1;
}

/* One run of verbena; samples/s after the first data epoch, below 0: failed. */
static double verbena_rate(const char *job, unsigned workers, unsigned epochs)
{
    char w[16], e[16];
    const char *const argv[] = { "/proc/self/exe", "train", job,        "--ps", "1", "--json",
                                 "--workers",      w,       "--epochs", e,      NULL };
    int fd[2], status = 0;

    snprintf(w, sizeof(w), "%u", workers);
    snprintf(e, sizeof(e), "%u", epochs);
    if (pipe2(fd, O_CLOEXEC) != 0)
        return -1;
    fflush(stdout);
    const pid_t pid = spawn(argv, fd[1]);

    close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    const double rate = f != NULL ? rate_from(f) : -1;

    if (f != NULL)
        fclose(f);
    (void)waitpid(pid, &status, 0);
    return status == 0 ? rate : -1;
}

/* Starts PyTorch with that many processes; false: it is not there. */
static bool start_torch(struct turn *t, const char *procs)
{
    const char *dir = getenv("VB_COMPARE");
    char script[512];
    const char *const argv[] = { "/usr/bin/python3", script, procs, data_dir, NULL };

    snprintf(script, sizeof(script), "%.400s/torch_mlp.py", dir != NULL ? dir : VERBENA_COMPARE);
    if (turn_exec(t, argv) && turn_ready(t, 1))
        return true;
    turn_stop(t, 1);
    return false;
}

static bool write_job(char *path)
{
    const int fd = mkstemps(path, 5);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (f == NULL)
        return false;
    fprintf(f, job_text, data_dir, data_dir);
    return fclose(f) == 0;
}

struct race {
    unsigned workers, epochs;
    const char *against;
    double goal;
    struct turn torch;
    double ours[BENCH_ROUNDS_MAX], theirs[BENCH_ROUNDS_MAX];
};

static bool warm_up(struct race *r, const char *job)
{
    const double rate = verbena_rate(job, r->workers, 3);

    if (rate <= 0)
        return false;
    r->epochs = 2 + (unsigned)(SECONDS * rate / 60000);
    if (!start_torch(&r->torch, r->workers == 1 ? "1" : "2"))
        log_warn("no comparison with PyTorch (%s): apt-get install python3-torch python3-numpy",
                 r->against);
    return true;
}

static void print(const struct bench_out *o, struct race *r, unsigned rounds)
{
    bool both = r->torch.pid != 0;
    char cases[128], label[64];

    for (unsigned i = 0; i < rounds; i++)
        both &= r->theirs[i] > 0; /* it may have died on the way */
    snprintf(cases, sizeof(cases), "\"workers\": %u, \"ps\": 1, \"against\": \"%s\"", r->workers,
             r->against);
    snprintf(label, sizeof(label), "train %u worker%s + 1 ps", r->workers,
             r->workers > 1 ? "s" : "");
    bench_print(o, &(struct bench_row){
                       .bench = "train",
                       .cases = cases,
                       .value = bench_median(r->ours, rounds),
                       .unit = "1/s",
                       .baseline = both ? bench_median(r->theirs, rounds) : -1,
                       .goal = both ? r->goal : -1,
                       .more_is_better = true,
                       .noisy = both && (rounds < 3 || bench_spread(r->theirs, rounds) > 0.1),
                       .first = -1,
                       .label = label });
}

bool perf_train(const struct bench_out *o, unsigned rounds)
{
    struct race race[] = {
        { .workers = 1, .against = "PyTorch, one process", .goal = 1 },
        { .workers = 2, .against = "PyTorch DDP over gloo, two processes", .goal = 4 }
    };
    char job[] = "/tmp/verbena-perf-XXXXXX.yaml";
    bool ok = write_job(job);

    for (size_t i = 0; i < VB_ARRAY_LEN(race); i++)
        ok = ok && warm_up(&race[i], job);
    for (unsigned n = 0; ok && n < rounds; n++)
        for (size_t i = 0; i < VB_ARRAY_LEN(race); i++) {
            race[i].ours[n] = verbena_rate(job, race[i].workers, race[i].epochs);
            race[i].theirs[n] = turn_time(&race[i].torch, 1, SECONDS);
            ok = ok && race[i].ours[n] > 0;
        }
    for (size_t i = 0; i < VB_ARRAY_LEN(race); i++) {
        if (ok)
            print(o, &race[i], rounds);
        turn_stop(&race[i].torch, 1);
    }
    unlink(job);
    return ok;
}
