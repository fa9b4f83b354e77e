#include "cmd/server.h"

#include "cmd/cmd.h"
#include "cmd/secret.h"
#include "cmd/signals.h"
#include "cmd/spec_arg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static const char *const jobs[] = { [CL_PS] = "ps", [CL_WORKER] = "worker", NULL };

struct server_conf {
    char *cluster, *secret_file;
    unsigned job;
    uint64_t task, loss_every;
    bool no_auth, links_only;
};

enum {
    OPT_CLUSTER,
    OPT_JOB,
    OPT_TASK,
    OPT_SECRET_FILE,
    OPT_NO_AUTH,
    OPT_LINKS_ONLY,
    OPT_LOSS_EVERY
};
#define AT(member) .offset = offsetof(struct server_conf, member)

static const struct opt server_opts[] = {
    [OPT_CLUSTER] = { "cluster", OPT_TEXT, NULL, "FILE",
                      "the ClusterSpec, a JSON file or its text; else TF_CONFIG is taken",
                      AT(cluster) },
    [OPT_JOB] = { "job", OPT_ENUM, NULL, "JOB", "this task's job; else the ClusterSpec's \"task\"",
                  AT(job), .names = jobs },
    [OPT_TASK] = { "task", OPT_U64, NULL, "I", "this task's index in its job, from 0", 0,
                   CL_TASKS_MAX - 1, AT(task) },
    [OPT_SECRET_FILE] = { "secret_file", OPT_TEXT, NULL, "FILE",
                          "the job's secret, the same in all tasks; VB_SECRET may hold it itself",
                          AT(secret_file) },
    [OPT_NO_AUTH] = { "no_auth", OPT_FLAG, "false", NULL,
                      "lets anybody who reaches the port join: only for networks of your own",
                      AT(no_auth) },
    [OPT_LINKS_ONLY] = { "links_only", OPT_FLAG, "false", NULL,
                         "trains nothing: says what each link is and ends; in all tasks or none",
                         AT(links_only) },
    [OPT_LOSS_EVERY] = { "loss_every", OPT_U64, "0", "N",
                         "a worker's training loss after so many steps, as JSON; 0: not", 0, 1e9,
                         AT(loss_every) },
};

static enum vb_st read_spec(const struct server_conf *c, const struct opt_set *set,
                            struct cl_spec *spec, struct vb_err *err)
{
    bool none;
    const enum vb_st st =
        spec_arg_read(c->cluster, set->src[OPT_CLUSTER].from == OPT_ENV, spec, &none, err);

    if (!none)
        return st;
    vb_err_set(err, "which cluster? give --cluster FILE with {\"ps\": [\"host:port\", ...], "
                    "\"worker\": [...]}, or use verbena train to run all tasks here");
    return VB_INVAL;
}

static enum vb_st find_rank(const struct server_conf *c, const struct opt_set *set,
                            const struct cl_spec *spec, uint32_t *rank_out, struct vb_err *err)
{
    const bool job = set->src[OPT_JOB].from != OPT_DEFAULT;
    const bool task = set->src[OPT_TASK].from != OPT_DEFAULT;

    if (!job && !task && spec->has_task) {
        *rank_out = cl_rank(spec, spec->task_job, spec->task_index);
        return VB_OK;
    }
    if (!job || !task) {
        vb_err_set(err, "which task is this? give --job ps|worker and --task I");
        return VB_INVAL;
    }
    const uint32_t n = c->job == CL_PS ? spec->nps : spec->nworkers;
    if (c->task >= n) {
        vb_err_set(err, "--task=%u: the cluster has %u %s, so it must be 0 to %u",
                   (unsigned)c->task, n,
                   c->job == CL_PS ? "ps"
                   : n == 1        ? "worker"
                                   : "workers",
                   n - 1);
        return VB_INVAL;
    }
    *rank_out = cl_rank(spec, (enum cl_job)c->job, (uint32_t)c->task);
    return VB_OK;
}

static enum vb_st read_secret(const struct server_conf *c, const struct opt_set *set,
                              struct server_params *p, struct vb_err *err)
{
    const bool named = c->secret_file != NULL &&
                       (set->src[OPT_SECRET_FILE].from == OPT_ARG || getenv("VB_SECRET") == NULL);
    enum vb_st st = VB_OK;

    p->no_auth = c->no_auth;
    if (c->no_auth && named) {
        vb_err_set(err, "--no-auth and a secret (%.200s): one of them", c->secret_file);
        return VB_INVAL;
    }
    if (!c->no_auth)
        st = secret_read(named ? c->secret_file : NULL, p->secret, err);
    secret_forget();
    return st;
}

/* The launcher's socket, bound before anything started. */
static enum vb_st take_listen_fd(int *fd_out, struct vb_err *err)
{
    const char *text = getenv("VB_LISTEN_FD");
    int on = 0;
    socklen_t len = sizeof(on);

    *fd_out = -1;
    if (text == NULL)
        return VB_OK;
    const int fd = text[strspn(text, "0123456789")] == '\0' && strlen(text) < 7 ? atoi(text) : -1;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) != 0 || on == 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        vb_err_set(err, "VB_LISTEN_FD=%.20s: is not a listening socket", text);
        return VB_INVAL;
    }
    unsetenv("VB_LISTEN_FD");
    *fd_out = fd;
    return VB_OK;
}

static bool env_is_on(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && strcmp(text, "1") == 0;
}

static int run(const struct server_conf *c, struct cmd_sets *s)
{
    struct server_params p = { .listen_fd = -1,
                               .launched = env_is_on("VB_LAUNCHED"),
                               .links_only = c->links_only,
                               .progress = env_is_on("VB_PROGRESS"),
                               .loss_every = c->loss_every };
    struct cl_spec spec = { 0 };
    struct vb_err err = { "out of memory" };
    uint32_t rank = 0;
    int code;
    enum vb_st st = read_spec(c, &s->own, &spec, &err);

    if (st == VB_OK)
        st = find_rank(c, &s->own, &spec, &rank, &err);
    if (st == VB_OK)
        st = read_secret(c, &s->own, &p, &err);
    if (st == VB_OK)
        st = take_listen_fd(&p.listen_fd, &err);
    if (st == VB_OK) {
        s->job.ps = spec.nps;
        s->job.workers = spec.nworkers;
        st = job_check(&s->job, &err);
    }
    if (st == VB_OK) {
        code = sig_catch() == VB_OK ? cmd_server_run(&s->job, &spec, rank, &p)
                                    : cmd_fail(VB_EXIT_FAILED, "no pipe for signals");
    } else {
        code = cmd_fail(st == VB_NOMEM ? VB_EXIT_FAILED : VB_EXIT_USAGE, err.text);
    }
    cl_spec_fini(&spec);
    return code;
}

static int server_run(int argc, char **argv)
{
    struct server_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_server, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_server, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK)
        code = run(&conf, s);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_server = {
    .about = { .name = "server",
               .args = "JOB.yaml",
               .doc = "Runs one task of a job, a ps or a worker, on this host.\n"
                      "Start one on each host with the same job file, cluster and secret.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = server_opts,
    .nopts = VB_ARRAY_LEN(server_opts),
    .has_job = true,
    .run = server_run,
};
