/*
 * opt.h - one table of options that drives all that knows them: the command line (argp), --help with
 * every default, the environment twins VB_<NAME>, the scalar keys of the job file, the man page and
 * the completion.
 *
 * A name is lower case with '_' and, for a key inside a map of the job file, dots: "optimizer.rate" is
 * --optimizer.rate, VB_OPTIMIZER_RATE and the key rate of the map optimizer; "chunk_kib" is
 * --chunk-kib. Durations and sizes are plain numbers, the unit is in the name or the help.
 * A value comes from the first of: option, environment, job file, default. Thread: one.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdio.h>

enum { OPT_MAX = 64, OPT_NAME_MAX = 40, OPT_ARGS_MAX = 16 };

/* How the value is stored: uint64_t, double, float, char * (owned), unsigned, bool. */
enum opt_type { OPT_U64, OPT_F64, OPT_F32, OPT_TEXT, OPT_ENUM, OPT_FLAG };

struct opt {
    const char *name;
    enum opt_type type;
    const char *def;          /* as text, so that help and parser agree; NULL: none (zero) */
    const char *arg;          /* how help calls the value: "N", "FILE"; NULL for flags */
    const char *help;         /* lower case, with the unit */
    double min, max;          /* numbers; max 0: no upper end */
    const char *const *names; /* enum: NULL-terminated, the index is the value */
    size_t offset;            /* in the struct at opt_set.base */
    bool required;            /* somebody must give it (checked by the owner of the table) */
};

enum opt_from { OPT_DEFAULT, OPT_FILE, OPT_ENV, OPT_ARG };

struct opt_src {
    enum opt_from from;
    unsigned line; /* OPT_FILE */
};

/* A table, the struct that it fills and where each value came from. */
struct opt_set {
    const char *title; /* heading in --help */
    const struct opt *opt;
    size_t n; /* <= OPT_MAX */
    void *base;
    const char *file; /* for messages, NULL: none yet; borrowed */
    struct opt_src src[OPT_MAX];
    const char *given[OPT_MAX]; /* by the command line; stays argv's */
};

/* Defaults into the struct. VB_NOMEM. */
VB_MUST_CHECK enum vb_st opt_init(struct opt_set *s, const char *title, const struct opt *opt,
                                  size_t n, void *base);
/* Frees the texts. Takes zeroed. */
void opt_fini(struct opt_set *s);

/* Values that nobody gave become those of `from`, where it has the name. VB_NOMEM. */
VB_MUST_CHECK enum vb_st opt_inherit(struct opt_set *s, const struct opt_set *from);

size_t opt_value_bytes(enum opt_type type);

/* Index of a name, -1: none. */
int opt_find(const struct opt_set *s, const char *name);

/* One value from text, checked strictly: no octal, no rest, no infinity. VB_INVAL: err says what is
 * allowed ("must be 1 or more"), without naming the option. */
VB_MUST_CHECK enum vb_st opt_put(struct opt_set *s, size_t i, const char *text, struct opt_src src,
                                 struct vb_err *err);
/* Applies the environment twins, then what the command line gave. err is a whole line. */
VB_MUST_CHECK enum vb_st opt_env(struct opt_set *s, struct vb_err *err);
VB_MUST_CHECK enum vb_st opt_given(struct opt_set *s, struct vb_err *err);

/* "--batch", "VB_BATCH" or "job.yaml:8: batch": where the value came from, to begin a message. */
void opt_where(const struct opt_set *s, size_t i, char *buf, size_t bytes);
/* "virtual-workers" and "VB_VIRTUAL_WORKERS" into buf[OPT_NAME_MAX + 8]. */
void opt_spell(const char *name, char *buf);
void opt_spell_env(const char *name, char *buf);

/* The nearest of several words to one that is wrong; best stays NULL when none is near. */
struct opt_guess {
    const char *word, *best;
    unsigned cost;
};
void opt_guess_try(struct opt_guess *g, const char *candidate);

/* What a command is; the first line of doc is its summary. */
struct opt_cmd {
    const char *name; /* "train" */
    const char *args; /* "JOB.yaml", NULL: none */
    const char *doc;
    unsigned nargs_min, nargs_max;
};

/*
 * The command line: fills set[]->given and arg_out[OPT_ARGS_MAX]. argv[0] is the command's own name.
 * --help, --usage and --version print on stdout and exit with 0. VB_INVAL: err is a whole line, with
 * a suggestion for an unknown option.
 */
VB_MUST_CHECK enum vb_st opt_args(const struct opt_cmd *cmd, struct opt_set *const *set,
                                  size_t nsets, int argc, char **argv, const char **arg_out,
                                  unsigned *nargs_out, struct vb_err *err);

/* The help text of one option with its default and twin, as --help shows it. */
void opt_doc(const struct opt *o, char *buf, size_t bytes);
/* A man page in roff; the options of one command as words for the completion. */
void opt_man(FILE *out, const struct opt_cmd *cmd, struct opt_set *const *set, size_t nsets);
void opt_words(FILE *out, struct opt_set *const *set, size_t nsets);

#endif
