/*
 * cmd.h - the table of subcommands and what they share.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "base/opt.h"
#include "cmd/job.h"

struct cmd {
    struct opt_cmd about;
    const struct opt *opt; /* its own options */
    size_t nopts;
    bool has_job; /* and the keys of the job file */
    int (*run)(int argc, char **argv);
};

extern const struct cmd cmd_train, cmd_links, cmd_server, cmd_doctor, cmd_sim, cmd_compare,
    cmd_graph, cmd_help;

/* The option sets of one command over its own struct and a job; base NULL: only to be described. */
struct cmd_sets {
    struct opt_set own;
    struct job job;
    struct opt_set *list[2];
    size_t n;
};
VB_MUST_CHECK enum vb_st cmd_sets_init(const struct cmd *cmd, void *base, struct cmd_sets *s);
void cmd_sets_fini(struct cmd_sets *s);

/* Command line, environment and job file into s. VB_EXIT_OK, or the code after the line was printed.
 * rest_out: the arguments that are no options, nargs_max of them. */
int cmd_sets_read(const struct cmd *cmd, struct cmd_sets *s, int argc, char **argv,
                  const char **rest_out, unsigned *nrest_out);

/* One line on stderr; returns code. */
int cmd_fail(enum vb_exit code, const char *text);

/* All commands; NULL ends. */
extern const struct cmd *const cmd_all[];
const struct cmd *cmd_find(const char *name); /* NULL: none */
int cmd_unknown(const char *name);            /* says so, with a suggestion; the exit code */
void cmd_overview(FILE *out);

#endif
