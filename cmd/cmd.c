#include "cmd/cmd.h"

#include "perf/perf.h"

#include <string.h>

static const struct cmd cmd_perf = {
    .about = { .name = "perf", .doc = "Measures what this machine can do." },
    .run = perf_main,
};

const struct cmd *const cmd_all[] = { &cmd_train,   &cmd_server, &cmd_links, &cmd_doctor, &cmd_sim,
                                      &cmd_compare, &cmd_graph,  &cmd_perf,  &cmd_help,   NULL };

int cmd_fail(enum vb_exit code, const char *text)
{
    fprintf(stderr, "%s\n", text);
    return code;
}

const struct cmd *cmd_find(const char *name)
{
    for (size_t i = 0; cmd_all[i] != NULL; i++)
        if (strcmp(cmd_all[i]->about.name, name) == 0)
            return cmd_all[i];
    return NULL;
}

int cmd_unknown(const char *name)
{
    struct opt_guess g = { .word = name };
    struct vb_err err;

    for (size_t i = 0; cmd_all[i] != NULL; i++)
        opt_guess_try(&g, cmd_all[i]->about.name);
    if (g.best != NULL)
        vb_err_set(&err, "verbena: unknown command '%.60s'; did you mean '%s'?", name, g.best);
    else
        vb_err_set(&err, "verbena: unknown command '%.60s'; see verbena --help", name);
    return cmd_fail(VB_EXIT_USAGE, err.text);
}

void cmd_overview(FILE *out)
{
    fputs("Usage: verbena COMMAND [OPTION...] [ARGUMENT...]\n"
          "Trains machine-learning models with parameter servers and workers.\n\n",
          out);
    for (size_t i = 0; cmd_all[i] != NULL; i++) {
        const struct opt_cmd *a = &cmd_all[i]->about;

        fprintf(out, "  %-8s %.*s\n", a->name, (int)strcspn(a->doc, "\n\v"), a->doc);
    }
    fputs("\nverbena COMMAND --help says more; verbena --version says which one this is.\n", out);
}

enum vb_st cmd_sets_init(const struct cmd *cmd, void *base, struct cmd_sets *s)
{
    enum vb_st st = VB_OK;

    *s = (struct cmd_sets){ .n = 0 };
    if (cmd->nopts > 0) {
        s->list[s->n++] = &s->own;
        s->own = (struct opt_set){ .title = "Options:", .opt = cmd->opt, .n = cmd->nopts };
        if (base != NULL)
            st = opt_init(&s->own, "Options:", cmd->opt, cmd->nopts, base);
    }
    if (cmd->has_job) {
        s->list[s->n++] = &s->job.opts;
        if (st == VB_OK)
            st = job_init(&s->job);
    }
    return st;
}

void cmd_sets_fini(struct cmd_sets *s)
{
    if (s->own.base != NULL)
        opt_fini(&s->own);
    job_fini(&s->job);
}

int cmd_sets_read(const struct cmd *cmd, struct cmd_sets *s, int argc, char **argv,
                  const char **rest_out, unsigned *nrest_out)
{
    struct vb_err err = { "out of memory" };
    enum vb_st st = opt_args(&cmd->about, s->list, s->n, argc, argv, rest_out, nrest_out, &err);

    if (st == VB_OK && cmd->nopts > 0)
        st = opt_env(&s->own, &err);
    if (st == VB_OK && cmd->nopts > 0)
        st = opt_given(&s->own, &err);
    if (st == VB_OK && cmd->has_job)
        st = job_load(&s->job, rest_out[0], &err);
    if (st == VB_OK)
        return VB_EXIT_OK;
    return cmd_fail(st == VB_NOMEM ? VB_EXIT_FAILED : VB_EXIT_USAGE, err.text);
}
