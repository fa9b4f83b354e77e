#include "cmd/cmd.h"

#include <string.h>

static const char *const shells[] = { "bash", NULL };

struct help_conf {
    char *man;
    unsigned completion;
};

static const struct opt help_opts[] = {
    { "man", OPT_TEXT, NULL, "COMMAND", "writes the man page of a command in roff",
      .offset = offsetof(struct help_conf, man) },
    { "completion", OPT_ENUM, NULL, "SHELL", "writes a completion script for a shell",
      .offset = offsetof(struct help_conf, completion), .names = shells },
};

static int write_man(const char *name)
{
    const struct cmd *cmd = cmd_find(name);
    struct cmd_sets *s = calloc(1, sizeof(*s));
    int code = VB_EXIT_FAILED;

    if (cmd == NULL) {
        code = cmd_unknown(name);
    } else if (s != NULL && cmd_sets_init(cmd, NULL, s) == VB_OK) {
        opt_man(stdout, &cmd->about, s->list, s->n);
        code = VB_EXIT_OK;
    }
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

static int write_completion(void)
{
    struct cmd_sets *s = calloc(1, sizeof(*s));
    int code = s != NULL ? VB_EXIT_OK : VB_EXIT_FAILED;

    fputs("_verbena() {\n    local words\n    case ${COMP_CWORD}:${COMP_WORDS[1]} in\n    1:*) "
          "words='",
          stdout);
    for (size_t i = 0; cmd_all[i] != NULL; i++)
        printf("%s ", cmd_all[i]->about.name);
    fputs("--help --version' ;;\n", stdout);
    for (size_t i = 0; cmd_all[i] != NULL && code == VB_EXIT_OK; i++) {
        printf("    *:%s) words='", cmd_all[i]->about.name);
        if (cmd_sets_init(cmd_all[i], NULL, s) == VB_OK)
            opt_words(stdout, s->list, s->n);
        else
            code = VB_EXIT_FAILED;
        cmd_sets_fini(s);
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "}\n"
          "complete -o default -F _verbena verbena\n",
          stdout);
    free(s);
    return code;
}

static int show(const char *name)
{
    const struct cmd *cmd = name != NULL ? cmd_find(name) : NULL;
    char self[32], option[] = "--help";
    char *argv[] = { self, option, NULL };

    if (name == NULL) {
        cmd_overview(stdout);
        return VB_EXIT_OK;
    }
    if (cmd == NULL)
        return cmd_unknown(name);
    snprintf(self, sizeof(self), "%s", name);
    return cmd->run(2, argv);
}

static int help_run(int argc, char **argv)
{
    struct help_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    const char *rest[OPT_ARGS_MAX] = { NULL };
    unsigned nrest = 0;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_help, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_help, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK && conf.man != NULL)
        code = write_man(conf.man);
    else if (code == VB_EXIT_OK && s->own.src[1].from != OPT_DEFAULT)
        code = write_completion();
    else if (code == VB_EXIT_OK)
        code = show(rest[0]);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_help = {
    .about = { .name = "help",
               .args = "[COMMAND]",
               .doc = "Says what verbena or a command can do.",
               .nargs_max = 1 },
    .opt = help_opts,
    .nopts = VB_ARRAY_LEN(help_opts),
    .run = help_run,
};
