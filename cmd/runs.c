#include "cmd/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { LINE_MAX_BYTES = 1 << 20 };

static volatile sig_atomic_t child, stopped;

static void on_signal(int sig)
{
    stopped = sig;
    if (child > 0)
        kill((pid_t)child, sig);
}

int run_stopped(void)
{
    return stopped;
}

void run_fini(struct run_result *r)
{
    free(r->point);
    *r = (struct run_result){ 0 };
}

/* ---- what the run says ---- */

/* Workers report the same steps one by one; a point is whole when all have, or are further. */
struct gather {
    struct run_result *out;
    size_t room;
    double *samples; /* per point */
    uint64_t workers;
    size_t passed[CL_TASKS_MAX]; /* per worker: points */
};

static double num(const json_t *o, const char *key)
{
    const json_t *n = json_object_get(o, key);

    return json_is_null(n) ? (double)NAN : json_number_value(n);
}

static bool grow(struct gather *g, size_t n)
{
    if (n <= g->room)
        return true;
    const size_t room = 2 * n + 64;
    struct run_point *point = realloc(g->out->point, room * sizeof(*point));
    double *samples = realloc(g->samples, room * sizeof(*samples));

    g->out->point = point != NULL ? point : g->out->point;
    g->samples = samples != NULL ? samples : g->samples;
    if (point == NULL || samples == NULL)
        return false;
    memset(point + g->room, 0, (room - g->room) * sizeof(*point));
    memset(samples + g->room, 0, (room - g->room) * sizeof(*samples));
    g->room = room;
    return true;
}

static void on_loss(struct gather *g, const json_t *e, uint64_t every)
{
    const char *task = json_string_value(json_object_get(e, "task")),
               *colon = task != NULL ? strrchr(task, ':') : NULL;
    const unsigned long w = colon != NULL ? strtoul(colon + 1, NULL, 10) : CL_TASKS_MAX;
    const size_t n = (size_t)(num(e, "step") / (double)every);
    const double samples = num(e, "samples");

    if (n == 0 || n > 1 << 24 || w >= CL_TASKS_MAX || !grow(g, n))
        return;
    struct run_point *p = &g->out->point[n - 1];

    p->loss += num(e, "loss") * samples;
    p->seconds = fmax(p->seconds, num(e, "seconds"));
    g->samples[n - 1] += samples;
    g->passed[w] = n;
}

static void on_waits(struct run_result *out, const json_t *e, double *reads)
{
    const char *who = json_string_value(json_object_get(e, "task"));
    size_t i;
    json_t *v;

    json_array_foreach(json_object_get(e, "staleness"), i, v)
    {
        out->staleness += (double)i * json_number_value(v);
        *reads += json_number_value(v);
    }
    json_array_foreach(json_object_get(e, "waited_s"), i, v)
    {
        const double s = json_number_value(v);
        char whom[48];

        out->waited_s += s;
        snprintf(whom, sizeof(whom), "/job:worker/task:%zu", i);
        if (who == NULL || strcmp(whom, who) == 0 || s <= out->most_s)
            continue;
        out->most_s = s;
        snprintf(out->most_who, sizeof(out->most_who), "%s", who);
        snprintf(out->most_whom, sizeof(out->most_whom), "%s", whom);
    }
}

static void on_done(struct run_result *out, const json_t *e)
{
    out->steps = num(e, "steps");
    out->seconds = num(e, "seconds");
    out->samples_per_s = num(e, "samples_per_s");
    out->accuracy = num(e, "best_test_accuracy");
    out->pushed_bytes = num(e, "pushed_bytes");
    out->pulled_bytes = num(e, "pulled_bytes");
}

/* As means. One that all have jumped over is as the one before. */
static void close_points(struct gather *g, uint64_t every)
{
    struct run_point *p = g->out->point;
    size_t n = g->room;

    for (uint64_t w = 0; w < g->workers && w < CL_TASKS_MAX; w++)
        n = VB_MIN(n, g->passed[w]);
    for (size_t i = 0; i < n; i++) {
        if (g->samples[i] > 0)
            p[i].loss /= g->samples[i];
        else
            p[i] = i > 0 ? p[i - 1] : (struct run_point){ .loss = (double)NAN };
        p[i].step = (double)((i + 1) * every);
    }
    g->out->npoints = n;
}

static void listen_to(FILE *f, const struct run_params *p, struct run_result *out)
{
    struct gather g = { .out = out, .workers = p->job->workers };
    double reads = 0;
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, f) > 0) {
        json_t *e = json_loads(line, 0, NULL);
        const char *kind = json_string_value(json_object_get(e, "event"));

        if (kind != NULL && strcmp(kind, "start") == 0)
            g.workers = (uint64_t)num(e, "workers");
        else if (kind != NULL && strcmp(kind, "loss") == 0 && p->loss_every > 0)
            on_loss(&g, e, p->loss_every);
        else if (kind != NULL && strcmp(kind, "waits") == 0)
            on_waits(out, e, &reads);
        else if (kind != NULL && strcmp(kind, "done") == 0)
            on_done(out, e);
        json_decref(e);
    }
    free(line);
    close_points(&g, p->loss_every);
    free(g.samples);
    out->staleness = reads > 0 ? out->staleness / reads : 0;
}

/* ---- the child ---- */

static bool add(char **argv, unsigned *n, const char *text)
{
    argv[*n] = strdup(text);
    return argv[(*n)++] != NULL;
}

static char **make_argv(const struct run_params *p)
{
    const struct opt_set *o = &p->job->opts;
    char text[600], word[OPT_NAME_MAX + 8];
    unsigned n = 0, extra = 0;

    while (p->option[extra] != NULL)
        extra++;
    char **argv = calloc(o->n + extra + 8, sizeof(*argv));
    bool ok = argv != NULL && add(argv, &n, "verbena") && add(argv, &n, "train") &&
              add(argv, &n, "--json");

    snprintf(text, sizeof(text), "--loss-every=%llu", (unsigned long long)p->loss_every);
    ok = ok && add(argv, &n, text);
    for (size_t i = 0; ok && i < o->n; i++) {
        if (o->given[i] == NULL || strcmp(o->opt[i].name, "json") == 0)
            continue;
        opt_spell(o->opt[i].name, word);
        snprintf(text, sizeof(text), o->opt[i].type == OPT_FLAG ? "--%s" : "--%s=%s", word,
                 o->given[i]);
        ok = add(argv, &n, text);
    }
    for (unsigned i = 0; ok && i < extra; i++)
        ok = add(argv, &n, p->option[i]);
    ok = ok && add(argv, &n, "--") && add(argv, &n, p->job->path);
    return ok ? argv : NULL; /* without memory the process is about to end */
}

static void free_argv(char **argv)
{
    for (unsigned i = 0; argv != NULL && argv[i] != NULL; i++)
        free(argv[i]);
    free(argv);
}

/* The last line that is not empty. */
static void last_line(int fd, char *out, size_t bytes)
{
    char text[4096];
    const off_t size = lseek(fd, 0, SEEK_END);
    const off_t from = size > (off_t)sizeof(text) - 1 ? size - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = pread(fd, text, sizeof(text) - 1, from);

    out[0] = '\0';
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *line = strrchr(text, '\n');

    snprintf(out, bytes, "%.190s", line != NULL ? line + 1 : text);
}

static pid_t start(char **argv, int out, int err)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool run_job(const struct run_params *p, struct run_result *out)
{
    const struct sigaction forward = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    int fd[2] = { -1, -1 };
    AUTO_CLOSE int err = memfd_create("stderr", MFD_CLOEXEC);
    char **argv = make_argv(p);
    FILE *f = NULL;

    *out = (struct run_result){ 0 };
    if (argv == NULL || err < 0 || pipe2(fd, O_CLOEXEC) != 0 || (f = fdopen(fd[0], "r")) == NULL) {
        free_argv(argv);
        return false;
    }
    sigaction(SIGINT, &forward, NULL);
    sigaction(SIGTERM, &forward, NULL);
    child = start(argv, fd[1], err);
    close(fd[1]);
    if (child > 0) {
        listen_to(f, p, out);
        out->code = wait_for((pid_t)child);
    }
    const bool ok = child > 0;

    child = 0;
    fclose(f);
    free_argv(argv);
    if (out->code != 0)
        last_line(err, out->why, sizeof(out->why));
    return ok;
}
