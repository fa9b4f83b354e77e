#include "base/opt.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const ways[] = { "auto", "map", "tcp", NULL };
static const char *const one[] = { "sync", NULL };

struct conf {
    uint64_t batch, seed;
    double std;
    float rate;
    char *name;
    unsigned way, mode;
    bool json;
};

#define AT(member) .offset = offsetof(struct conf, member)

static const struct opt opts[] = {
    { "batch", OPT_U64, "100", "N", "samples in one step", 1, 1000, AT(batch) },
    { "seed_key", OPT_U64, "1", "N", "seed", AT(seed) },
    { "data.std", OPT_F64, "1", "X", "deviation", 1e-30, 1e30, AT(std) },
    { "rate", OPT_F32, "0.5", "X", "rate", 0, 10, AT(rate) },
    { "name", OPT_TEXT, NULL, "TEXT", "name", AT(name) },
    { "way", OPT_ENUM, "auto", "WAY", "way", AT(way), .names = ways },
    { "mode", OPT_ENUM, "sync", "MODE", "mode", AT(mode), .names = one },
    { "json", OPT_FLAG, "false", NULL, "json", AT(json) },
};

static struct conf conf;
static struct opt_set set;
static struct opt_set *const sets[] = { &set };
static const struct opt_cmd cmd = {
    .name = "test", .args = "FILE", .doc = "Tests.", .nargs_max = 1
};

static void start(void)
{
    memset(&conf, 0, sizeof(conf));
    cr_assert_eq(opt_init(&set, "Options:", opts, VB_ARRAY_LEN(opts), &conf), VB_OK);
}

/* Applies a command line of words separated by blanks, after the environment. */
static enum vb_st args(const char *line, struct vb_err *err)
{
    static char text[200];
    char *argv[16], *rest = NULL, self[] = "test";
    const char *arg[OPT_ARGS_MAX];
    unsigned nargs = 0;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", line);
    argv[argc++] = self;
    for (char *w = strtok_r(text, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    argv[argc] = NULL;
    enum vb_st st = opt_args(&cmd, sets, 1, argc, argv, arg, &nargs, err);
    if (st == VB_OK)
        st = opt_env(&set, err);
    return st == VB_OK ? opt_given(&set, err) : st;
}

Test(opt, defaults_come_from_the_table)
{
    start();
    cr_assert(conf.batch == 100 && conf.seed == 1 && conf.std == 1 && conf.rate == 0.5f);
    cr_assert(conf.name == NULL && conf.way == 0 && !conf.json);
}

Test(opt, values_are_read_strictly)
{
    static const struct {
        const char *name, *text, *says; /* NULL: accepted */
    } cases[] = {
        { "batch", "1", NULL },
        { "batch", "1000", NULL },
        { "batch", "0", "must be 1 or more" },
        { "batch", "-3", "must be 1 or more" },
        { "batch", "1001", "must be 1000 or less" },
        { "batch", "99999999999999999999999", "must be 1000 or less" },
        { "batch", "10x", "must be a whole number" },
        { "batch", "010", "without leading zeros" },
        { "batch", "0x10", "must be a whole number" },
        { "batch", "1e2", "must be a whole number" },
        { "batch", " 1", "must be a whole number" },
        { "batch", "+1", "must be a whole number" },
        { "batch", "", "must be a whole number" },
        { "seed_key", "18446744073709551615", NULL },
        { "seed_key", "18446744073709551616", "must be 18446744073709551615 or less" },
        { "data.std", "1e-3", NULL },
        { "data.std", ".5", NULL },
        { "data.std", "0", "must be 1e-30 or more" },
        { "data.std", "nan", "must be a number" },
        { "data.std", "inf", "must be a number" },
        { "data.std", "0x1p3", "must be a number" },
        { "data.std", "1e", "must be a number" },
        { "data.std", ".", "must be a number" },
        { "data.std", "1e999", "must be 1e+30 or less" },
        { "data.std", "007", "must be a number" },
        { "rate", "11", "must be 10 or less" },
        { "name", "x", NULL },
        { "name", "", "must not be empty" },
        { "way", "map", NULL },
        { "way", "Map", "must be one of auto, map, tcp" },
        { "mode", "ssp:4", "is not available yet; use sync" },
        { "json", "true", NULL },
        { "json", "no", NULL },
        { "json", "maybe", "must be true or false" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct vb_err err = { "" };

        start();
        const enum vb_st st = opt_put(&set, (size_t)opt_find(&set, cases[i].name), cases[i].text,
                                      (struct opt_src){ OPT_ARG, 0 }, &err);
        cr_assert_eq(st == VB_OK, cases[i].says == NULL, "%s=%s", cases[i].name, cases[i].text);
        if (cases[i].says != NULL)
            cr_assert_neq(strstr(err.text, cases[i].says), NULL, "%s=%s says %s", cases[i].name,
                          cases[i].text, err.text);
        opt_fini(&set);
    }
}

Test(opt, the_command_line_beats_the_environment_beats_the_file)
{
    const size_t batch = (size_t)opt_find(&set, "batch") + 1; /* not started: -1 */
    struct vb_err err = { "" };
    char where[80];

    start();
    set.file = "job.yaml";
    cr_assert_eq(opt_put(&set, batch, "7", (struct opt_src){ OPT_FILE, 8 }, &err), VB_OK);
    opt_where(&set, batch, where, sizeof(where));
    cr_assert_str_eq(where, "job.yaml:8: batch");
    setenv("VB_BATCH", "8", 1);
    setenv("VB_DATA_STD", "2", 1);
    cr_assert_eq(args("", &err), VB_OK, "%s", err.text);
    cr_assert(conf.batch == 8 && conf.std == 2);
    opt_where(&set, batch, where, sizeof(where));
    cr_assert_str_eq(where, "VB_BATCH");
    cr_assert_eq(args("--batch 9 --seed-key=3 file --json", &err), VB_OK, "%s", err.text);
    cr_assert(conf.batch == 9 && conf.seed == 3 && conf.json);
    opt_where(&set, batch, where, sizeof(where));
    cr_assert_str_eq(where, "--batch");
    opt_fini(&set);
}

Test(opt, a_wrong_command_line_is_one_line_that_names_it)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        { "--batch=0", "--batch=0: must be 1 or more" },
        { "--bathc=5", "--bathc: unknown option; did you mean --batch?" },
        { "--zzzzzz", "--zzzzzz: unknown option; see verbena test --help" },
        { "--bat=5", "--bat: unknown option; did you mean --batch?" },
        { "-b", "-b: unknown option" },
        { "--json=1", "--json=1: takes no value" },
        { "--batch", "--batch: needs a value: --batch=N" },
        { "a b", "b: one argument too many" },
        { "--way=carrier", "--way=carrier: must be one of auto, map, tcp" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct vb_err err = { "" };

        start();
        cr_assert_eq(args(cases[i].line, &err), VB_INVAL, "%s", cases[i].line);
        cr_assert_eq(strncmp(err.text, cases[i].says, strlen(cases[i].says)), 0, "%s says %s",
                     cases[i].line, err.text);
        cr_assert_null(strchr(err.text, '\n'));
        opt_fini(&set);
    }
    setenv("VB_WAY", "x\ny", 1);
    struct vb_err err = { "" };
    start();
    cr_assert_eq(args("", &err), VB_INVAL);
    cr_assert_str_eq(err.text, "VB_WAY=x?y: must be one of auto, map, tcp");
}

Test(opt, only_a_near_word_is_suggested)
{
    static const struct {
        const char *word, *best;
    } cases[] = { { "bathc", "batch" }, { "batches", "batch" }, { "epoch", "epochs" },
                  { "zebra", NULL },    { "", NULL },           { "pss", "ps" } };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct opt_guess g = { .word = cases[i].word };

        opt_guess_try(&g, "batch");
        opt_guess_try(&g, "epochs");
        opt_guess_try(&g, "ps");
        if (cases[i].best == NULL)
            cr_assert_null(g.best, "%s", cases[i].word);
        else
            cr_assert_str_eq(g.best, cases[i].best);
    }
}

Test(opt, man_page_and_words_name_every_option)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    start();
    opt_man(out, &cmd, sets, 1);
    opt_words(out, sets, 1);
    fclose(out);
    cr_assert_neq(strstr(text, ".TP\n.B \\-\\-data.std=\\fIX\\fR\n"), NULL);
    cr_assert_neq(strstr(text, "(default 100; VB_BATCH)"), NULL);
    cr_assert_neq(strstr(text, " --seed-key= "), NULL);
    cr_assert_neq(strstr(text, " --json "), NULL);
    free(text);
    opt_fini(&set);
}
