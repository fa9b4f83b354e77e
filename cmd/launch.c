/*
 * The launcher: all tasks of a job on this host. Each is this very program, `server`, as a child; what
 * they need to find each other (cluster, secret, a listening socket each, bound before any starts) is
 * in their environment.
 */
#include "base/log.h"
#include "cluster/spawn.h"
#include "cmd/cmd.h"
#include "cmd/launch.h"
#include "cmd/report.h"
#include "cmd/secret.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOG_MOD "cmd"

extern char **environ;

/* The same for all children. */
struct launch {
    const struct launch_params *p;
    const struct job *job;
    int columns; /* of the terminal on stderr, 0: none */
    unsigned ntasks;
    char *cluster; /* JSON */
    char secret[2 * SECRET_KEY_BYTES + 1];
    struct spawn_task *task;
    struct child_text {
        char name[24], index[12], listen[40];
        char **argv, **envp;
    } * text;
    char *option[OPT_MAX + 1]; /* "--batch=50", what was given */
    unsigned noptions;
    char *own_env[8]; /* for all children */
    unsigned nown_env;
    struct report *report;
};

static bool is_own(const char *entry)
{
    static const char *const names[] = { "VB_CLUSTER",    "VB_SECRET",    "VB_SECRET_FILE",
                                         "VB_NO_AUTH",    "VB_JOB",       "VB_TASK",
                                         "VB_LISTEN_FD",  "VB_LAUNCHED",  "VB_PROGRESS",
                                         "VB_LINKS_ONLY", "VB_LOSS_EVERY" };
    const size_t n = strcspn(entry, "=");

    for (size_t i = 0; i < VB_ARRAY_LEN(names); i++)
        if (strlen(names[i]) == n && memcmp(names[i], entry, n) == 0)
            return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static bool text_set(char **out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const int n = vasprintf(out, fmt, ap);
    va_end(ap);
    if (n < 0)
        *out = NULL;
    return n >= 0;
}

static bool shared_texts(struct launch *l)
{
    const struct opt_set *o = &l->job->opts;
    const char *core = kn_gemm_better_core();
    bool ok = true;

    for (size_t i = 0; i < o->n; i++) {
        char word[OPT_NAME_MAX + 8];

        if (o->given[i] == NULL || strcmp(o->opt[i].name, "json") == 0)
            continue;
        opt_spell(o->opt[i].name, word);
        if (o->opt[i].type == OPT_FLAG)
            ok = ok && text_set(&l->option[l->noptions++], "--%s", word);
        else
            ok = ok && text_set(&l->option[l->noptions++], "--%s=%s", word, o->given[i]);
    }
    if (l->p->links_only)
        ok = ok && text_set(&l->option[l->noptions++], "--links-only");
    ok = ok && text_set(&l->own_env[l->nown_env++], "VB_CLUSTER=%s", l->cluster);
    ok = ok && text_set(&l->own_env[l->nown_env++], "VB_SECRET=%s", l->secret);
    ok = ok && text_set(&l->own_env[l->nown_env++], "VB_LAUNCHED=1");
    ok = ok &&
         text_set(&l->own_env[l->nown_env++], "VB_PROGRESS=%d", l->columns > 0 || l->p->progress);
    ok = ok && text_set(&l->own_env[l->nown_env++], "VB_LOSS_EVERY=%llu",
                        (unsigned long long)l->p->loss_every);
    if (core != NULL)
        ok = ok && text_set(&l->own_env[l->nown_env++], "OPENBLAS_CORETYPE=%s", core);
    return ok;
}

/* verbena server --job ps --task 0 --json [given options] -- JOB.yaml */
static bool child_argv(struct launch *l, struct child_text *t, const char *job)
{
    static char self[] = "verbena", server[] = "server", o_job[] = "--job", o_task[] = "--task",
                json[] = "--json", end[] = "--";
    static char jobs[][8] = { "ps", "worker" };
    unsigned n = 0;

    t->argv = calloc(l->noptions + 10, sizeof(*t->argv));
    if (t->argv == NULL)
        return false;
    t->argv[n++] = self;
    t->argv[n++] = server;
    t->argv[n++] = o_job;
    t->argv[n++] = strcmp(job, "ps") == 0 ? jobs[0] : jobs[1];
    t->argv[n++] = o_task;
    t->argv[n++] = t->index;
    t->argv[n++] = json;
    for (unsigned i = 0; i < l->noptions; i++)
        t->argv[n++] = l->option[i];
    t->argv[n++] = end;
    t->argv[n] = l->job->path;
    return true;
}

static bool child_envp(struct launch *l, struct child_text *t)
{
    unsigned n = 0, have = 0;

    while (environ[have] != NULL)
        have++;
    t->envp = calloc(have + l->nown_env + 2, sizeof(*t->envp));
    if (t->envp == NULL)
        return false;
    for (unsigned i = 0; i < have; i++)
        if (!is_own(environ[i]))
            t->envp[n++] = environ[i];
    for (unsigned i = 0; i < l->nown_env; i++)
        t->envp[n++] = l->own_env[i];
    t->envp[n] = t->listen;
    return true;
}

/* One socket per task; the cluster is made of their ports. */
static bool bind_tasks(struct launch *l, struct vb_err *err)
{
    struct cl_spec spec = { .nps = (uint32_t)l->job->ps, .nworkers = (uint32_t)l->job->workers };

    spec.addr = calloc(l->ntasks, sizeof(*spec.addr));
    for (unsigned i = 0; spec.addr != NULL && i < l->ntasks; i++) {
        snprintf(spec.addr[i].host, sizeof(spec.addr[i].host), "127.0.0.1");
        l->task[i].keep_fd = spawn_listen(&spec.addr[i].port);
        if (l->task[i].keep_fd < 0) {
            vb_err_set(err, "cannot listen on 127.0.0.1: %s", strerror(errno));
            free(spec.addr);
            return false;
        }
    }
    l->cluster = spec.addr != NULL ? cl_spec_json(&spec) : NULL;
    free(spec.addr);
    return l->cluster != NULL;
}

static bool describe_tasks(struct launch *l)
{
    for (unsigned i = 0; i < l->ntasks; i++) {
        struct child_text *t = &l->text[i];
        const bool ps = i < l->job->ps;
        const char *job = ps ? "ps" : "worker";
        const unsigned index = ps ? i : i - (unsigned)l->job->ps;

        snprintf(t->name, sizeof(t->name), "%s %u", job, index);
        snprintf(t->index, sizeof(t->index), "%u", index);
        snprintf(t->listen, sizeof(t->listen), "VB_LISTEN_FD=%d", l->task[i].keep_fd);
        if (!child_argv(l, t, job) || !child_envp(l, t))
            return false;
        l->task[i].name = t->name;
        l->task[i].path = "/proc/self/exe";
        l->task[i].argv = t->argv;
        l->task[i].envp = t->envp;
    }
    return true;
}

static void launch_fini(struct launch *l)
{
    for (unsigned i = 0; i < l->ntasks; i++) {
        if (l->task != NULL && l->task[i].keep_fd >= 0)
            close(l->task[i].keep_fd);
        if (l->text != NULL) {
            free(l->text[i].argv);
            free(l->text[i].envp);
        }
    }
    for (unsigned i = 0; i < l->noptions; i++)
        free(l->option[i]);
    for (unsigned i = 0; i < l->nown_env; i++)
        free(l->own_env[i]);
    free(l->cluster);
    free(l->task);
    free(l->text);
    report_free(l->report);
}

static bool launch_init(struct launch *l, struct vb_err *err)
{
    const struct report_params rp = { .json = l->job->json,
                                      .progress = l->p->progress,
                                      .columns = l->columns };

    vb_err_set(err, "out of memory");
    l->ntasks = (unsigned)(l->job->ps + l->job->workers);
    l->task = calloc(l->ntasks, sizeof(*l->task));
    l->text = calloc(l->ntasks, sizeof(*l->text));
    l->report = report_create(&rp);
    for (unsigned i = 0; l->task != NULL && i < l->ntasks; i++)
        l->task[i].keep_fd = -1;
    if (l->task == NULL || l->text == NULL || l->report == NULL)
        return false;
    secret_make(l->secret);
    return bind_tasks(l, err) && shared_texts(l) && describe_tasks(l);
}

static void on_line(void *arg, unsigned task, bool is_err, const char *text, size_t n)
{
    const struct launch *l = arg;

    report_line(l->report, l->text[task].name, is_err, text, n);
}

static int terminal_columns(void)
{
    struct winsize w = { 0 };

    if (isatty(STDERR_FILENO) == 0)
        return 0;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
}

int cmd_launch(const struct job *job, const struct launch_params *lp)
{
    /* a line leaves in one write(2), also where others write to the same file */
    static char out[SPAWN_LINE_MAX + 256], err_out[SPAWN_LINE_MAX + 256];
    struct launch l = { .p = lp, .job = job, .columns = terminal_columns() };
    struct vb_err err = { "" };
    enum vb_exit code = VB_EXIT_FAILED;

    setvbuf(stdout, out, _IOLBF, sizeof(out));
    setvbuf(stderr, err_out, _IOLBF, sizeof(err_out));
    if (launch_init(&l, &err)) {
        const struct spawn_params p = {
            .task = l.task, .ntasks = l.ntasks, .on_line = on_line, .arg = &l
        };

        err.text[0] = '\0';
        log_info("%u ps and %u workers on this host", (unsigned)job->ps, (unsigned)job->workers);
        code = spawn_run(&p, &err);
        if (!report_finish(l.report) && code == VB_EXIT_OK) {
            vb_err_set(&err, "cannot write the results: %s", strerror(errno));
            code = VB_EXIT_FAILED;
        }
    }
    launch_fini(&l);
    return code == VB_EXIT_OK ? VB_EXIT_OK : cmd_fail(code, err.text);
}
