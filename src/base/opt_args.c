#include "base/opt.h"

#include <argp.h>
#include <string.h>

enum { KEY0 = 0x100 };

/* What argp needs for one command: its option array and the texts that live as long. */
struct command {
    struct opt_set *const *set;
    size_t nsets, nopts;
    struct argp_option option[3 * OPT_MAX];
    struct {
        size_t set, index;
        char name[OPT_NAME_MAX + 8], doc[400];
    } text[2 * OPT_MAX];
    const char **arg;
    unsigned nargs;
};

void opt_doc(const struct opt *o, char *buf, size_t bytes)
{
    char twin[OPT_NAME_MAX + 8], list[120] = "", def[80] = "";

    opt_spell_env(o->name, twin);
    for (unsigned i = 0; o->names != NULL && o->names[i] != NULL; i++) {
        const size_t at = strlen(list);

        snprintf(list + at, sizeof(list) - at, "%s%s", i > 0 ? ", " : ": ", o->names[i]);
    }
    if (o->def != NULL && o->type != OPT_FLAG)
        snprintf(def, sizeof(def), "default %s; ", o->def);
    snprintf(buf, bytes, "%s%s (%s%s)", o->help, list, def, twin);
}

static void fill(struct command *c)
{
    size_t at = 0;

    for (size_t k = 0; k < c->nsets; k++) {
        const struct opt_set *s = c->set[k];

        c->option[at++] = (struct argp_option){ .doc = s->title, .group = (int)k + 1 };
        for (size_t i = 0; i < s->n && c->nopts < VB_ARRAY_LEN(c->text); i++) {
            const size_t t = c->nopts++;

            c->text[t].set = k;
            c->text[t].index = i;
            opt_spell(s->opt[i].name, c->text[t].name);
            opt_doc(&s->opt[i], c->text[t].doc, sizeof(c->text[t].doc));
            c->option[at++] = (struct argp_option){
                .name = c->text[t].name,
                .key = KEY0 + (int)t,
                .arg = s->opt[i].type == OPT_FLAG ? NULL : s->opt[i].arg,
                .doc = c->text[t].doc,
                .group = (int)k + 1,
            };
        }
    }
}

static enum vb_st unknown(const struct command *c, const char *cmd, const char *word,
                          struct vb_err *err)
{
    struct opt_guess g = { .word = word };

    for (size_t t = 0; t < c->nopts; t++)
        opt_guess_try(&g, c->text[t].name);
    if (g.best != NULL)
        vb_err_set(err, "--%.100s: unknown option; did you mean --%s?", word, g.best);
    else
        vb_err_set(err, "--%.100s: unknown option; see verbena %s --help", word, cmd);
    return VB_INVAL;
}

static const struct opt *option_named(const struct command *c, const char *word)
{
    for (size_t t = 0; t < c->nopts; t++)
        if (strcmp(c->text[t].name, word) == 0)
            return &c->set[c->text[t].set]->opt[c->text[t].index];
    return NULL;
}

/* One "--word[=value]"; *skip_out: the next argument is its value. */
static enum vb_st check_long(const struct command *c, const char *cmd, const char *arg, bool last,
                             bool *skip_out, struct vb_err *err)
{
    const size_t n = strcspn(arg + 2, "=");
    char word[100];

    snprintf(word, sizeof(word), "%.*s", (int)VB_MIN(n, sizeof(word)), arg + 2);
    const bool has_value = arg[2 + n] == '=';
    const struct opt *o = option_named(c, word);
    if (o == NULL) {
        if (strcmp(word, "help") == 0 || strcmp(word, "usage") == 0 || strcmp(word, "version") == 0)
            return VB_OK;
        return unknown(c, cmd, word, err);
    }
    if (o->type == OPT_FLAG && has_value) {
        vb_err_set(err, "%.200s: takes no value", arg);
        return VB_INVAL;
    }
    *skip_out = o->type != OPT_FLAG && !has_value;
    if (*skip_out && last) {
        vb_err_set(err, "--%s: needs a value: --%s=%s", word, word, o->arg);
        return VB_INVAL;
    }
    return VB_OK;
}

/* argp can say neither which option was wrong nor what was meant, so it only gets what is right. */
static enum vb_st check_words(const struct command *c, const char *cmd, int argc, char **argv,
                              struct vb_err *err)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool skip = false;

        if (argv[i][0] != '-' || argv[i][1] == '\0' || strcmp(argv[i], "-?") == 0)
            continue;
        if (argv[i][1] != '-') {
            vb_err_set(err, "%.100s: unknown option; see verbena %s --help", argv[i], cmd);
            return VB_INVAL;
        }
        const enum vb_st st = check_long(c, cmd, argv[i], i + 1 == argc, &skip, err);
        if (st != VB_OK)
            return st;
        i += skip;
    }
    return VB_OK;
}

static error_t on_key(int key, char *arg, struct argp_state *state)
{
    struct command *c = state->input;

    if (key == ARGP_KEY_ARG) {
        if (c->nargs < OPT_ARGS_MAX)
            c->arg[c->nargs] = arg;
        c->nargs++;
        return 0;
    }
    if (key < KEY0 || (size_t)(key - KEY0) >= c->nopts)
        return ARGP_ERR_UNKNOWN;
    const size_t t = (size_t)(key - KEY0);
    c->set[c->text[t].set]->given[c->text[t].index] = arg != NULL ? arg : "true";
    return 0;
}

static enum vb_st check_count(const struct opt_cmd *cmd, const struct command *c,
                              struct vb_err *err)
{
    if (c->nargs < cmd->nargs_min) {
        vb_err_set(err, "verbena %s: %s is missing", cmd->name, cmd->args);
        return VB_INVAL;
    }
    if (c->nargs > cmd->nargs_max) {
        vb_err_set(err, "%.100s: one argument too many; see verbena %s --help",
                   c->arg[VB_MIN(cmd->nargs_max, OPT_ARGS_MAX - 1)], cmd->name);
        return VB_INVAL;
    }
    return VB_OK;
}

enum vb_st opt_args(const struct opt_cmd *cmd, struct opt_set *const *set, size_t nsets, int argc,
                    char **argv, const char **arg_out, unsigned *nargs_out, struct vb_err *err)
{
    struct command *c = calloc(1, sizeof(*c));
    enum vb_st st = VB_NOMEM;
    char name[64];

    if (c == NULL) {
        vb_err_set(err, "out of memory");
        return st;
    }
    *c = (struct command){ .set = set, .nsets = nsets, .arg = arg_out };
    fill(c);
    st = check_words(c, cmd->name, argc, argv, err);
    if (st == VB_OK) {
        const struct argp argp = {
            .options = c->option, .parser = on_key, .args_doc = cmd->args, .doc = cmd->doc
        };
        char *self = argv[0];

        snprintf(name, sizeof(name), "verbena %s", cmd->name);
        argv[0] = name;
        if (argp_parse(&argp, argc, argv, 0, NULL, c) != 0) {
            vb_err_set(err, "verbena %s: cannot parse the command line", cmd->name);
            st = VB_INVAL;
        }
        argv[0] = self;
    }
    if (st == VB_OK)
        st = check_count(cmd, c, err);
    *nargs_out = VB_MIN(c->nargs, OPT_ARGS_MAX);
    free(c);
    return st;
}
