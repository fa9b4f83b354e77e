/*
 * The commands that run all tasks of a job on this host.
 */
#include "cmd/cmd.h"
#include "cmd/launch.h"

struct train_conf {
    bool progress;
    uint64_t loss_every;
};

static const struct opt train_opts[] = {
    { "progress", OPT_FLAG, "false", NULL,
      "with --json: progress as well, at most five lines a second",
      .offset = offsetof(struct train_conf, progress) },
    { "loss_every", OPT_U64, "0", "N",
      "with --json: each worker's training loss after so many steps; 0: not", 0, 1e9,
      .offset = offsetof(struct train_conf, loss_every) },
};

static int run_all(const struct cmd *cmd, bool links_only, int argc, char **argv)
{
    struct train_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    struct vb_err err = { "" };
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(cmd, &conf, s) == VB_OK)
        code = cmd_sets_read(cmd, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK && job_check(&s->job, &err) != VB_OK)
        code = cmd_fail(VB_EXIT_USAGE, err.text);
    if (code == VB_EXIT_OK)
        code = cmd_launch(&s->job, &(struct launch_params){ .progress = conf.progress,
                                                            .links_only = links_only,
                                                            .loss_every = conf.loss_every });
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

static int train_run(int argc, char **argv)
{
    return run_all(&cmd_train, false, argc, argv);
}

static int links_run(int argc, char **argv)
{
    return run_all(&cmd_links, true, argc, argv);
}

const struct cmd cmd_train = {
    .about = { .name = "train",
               .args = "JOB.yaml",
               .doc = "Trains the model of a job file with all tasks on this host.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = train_opts,
    .nopts = VB_ARRAY_LEN(train_opts),
    .has_job = true,
    .run = train_run,
};

const struct cmd cmd_links = {
    .about = { .name = "links",
               .args = "JOB.yaml",
               .doc =
                   "Says what the links between a job's tasks are, and why not something faster.\n"
                   "Starts all tasks on this host without training. Between hosts: start each with "
                   "verbena server --links-only.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .has_job = true,
    .run = links_run,
};
