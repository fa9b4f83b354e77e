/*
 * job_class.c - the list `classes` of a job file. An item has the keys of the job that lie in its `own`, so the
 * table of options is the same but for offsets; what an item does not say is as in the job.
 */
#include "cmd/job.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Those that only an item has. */
static const struct opt item_opts[] = {
    { "variables", OPT_TEXT, NULL, "PATTERNS", "names of variables, as shell patterns with commas",
      .offset = offsetof(struct job_class, variables), .required = true },
    { "name", OPT_TEXT, NULL, "NAME", "in reports", .offset = offsetof(struct job_class, name) },
};

static const struct opt *class_opts(const struct opt_set *job, size_t *n_out)
{
    static struct opt table[OPT_MAX];
    const size_t begin = offsetof(struct job, own), end = begin + sizeof(struct job_class);
    size_t n = VB_ARRAY_LEN(item_opts);

    memcpy(table, item_opts, sizeof(item_opts));
    for (size_t i = 0; i < job->n && n < OPT_MAX; i++)
        if (job->opt[i].offset >= begin && job->opt[i].offset < end) {
            table[n] = job->opt[i];
            table[n++].offset -= begin;
        }
    *n_out = n;
    return table;
}

static enum vb_st add_class(struct job *j, struct job_class **out)
{
    struct job_class *all = realloc(j->cls, (j->nclasses + 1) * sizeof(*all)), *c;
    size_t n = 0;

    if (all == NULL)
        return VB_NOMEM;
    j->cls = all;
    c = *out = &all[j->nclasses];
    *c = (struct job_class){ .opts = calloc(1, sizeof(*c->opts)) };
    if (c->opts == NULL)
        return VB_NOMEM;
    j->nclasses++;
    const struct opt *table = class_opts(&j->opts, &n);
    const enum vb_st st = opt_init(c->opts, "", table, n, c);
    c->opts->file = j->path;
    return st;
}

enum vb_st job_read_class(struct yaml_file *f, const yaml_node_t *item, void *arg,
                          struct vb_err *err)
{
    struct job *j = arg;
    struct job_class *c = NULL;

    if (yaml_text(item) != NULL)
        return yaml_fail(f, yaml_line(item), err,
                         "classes: an item is a map with variables and what is different for them, "
                         "as in {variables: '*/bias', optimizer: {name: sgd}}");
    if (j->nclasses + 1 == PS_CLASSES_MAX)
        return yaml_fail(f, yaml_line(item), err, "classes: more than %d", PS_CLASSES_MAX - 1);
    enum vb_st st = add_class(j, &c);
    const struct yaml_schema schema = { .set = c != NULL ? c->opts : NULL };

    if (st == VB_OK)
        st = yaml_walk(f, item, &schema, err);
    if (st == VB_OK && c->variables == NULL)
        st = yaml_fail(f, yaml_line(item), err,
                       "classes: variables is missing, as in variables: '*/bias'");
    return st;
}

static void take_momentum(struct job_class *c)
{
    if (c->optimizer.kind == KN_MOMENTUM || c->optimizer.kind == KN_NESTEROV)
        c->optimizer.beta1 = c->momentum;
}

enum vb_st job_inherit(struct job *j)
{
    enum vb_st st = VB_OK;

    for (unsigned k = 0; st == VB_OK && k < j->nclasses; k++) {
        struct job_class *c = &j->cls[k];

        c->opts->base = c; /* the list may have moved */
        st = opt_inherit(c->opts, &j->opts);
        if (c->name == NULL && (c->name = strdup(c->variables)) == NULL)
            st = VB_NOMEM;
        take_momentum(c);
    }
    take_momentum(&j->own);
    return st;
}

void job_free_classes(struct job *j)
{
    for (unsigned k = 0; k < j->nclasses; k++) {
        j->cls[k].opts->base = &j->cls[k];
        opt_fini(j->cls[k].opts);
        free(j->cls[k].opts);
    }
    free(j->cls);
    j->cls = NULL;
    j->nclasses = 0;
}

static bool matches(const char *patterns, const char *name)
{
    char one[256];

    for (const char *p = patterns, *end; *p != '\0'; p = *end == ',' ? end + 1 : end) {
        p += strspn(p, " ");
        end = p + strcspn(p, ",");
        snprintf(one, sizeof(one), "%.*s", (int)VB_MIN((size_t)(end - p), sizeof(one) - 1), p);
        if (fnmatch(one, name, 0) == 0)
            return true;
    }
    return false;
}

unsigned job_class_of(const struct job *j, const char *variable)
{
    for (unsigned k = 0; k < j->nclasses; k++)
        if (matches(j->cls[k].variables, variable))
            return k + 1;
    return 0;
}

static void print_optimizer(FILE *out, const struct kn_opt *o)
{
    const struct kn_rate *s = &o->schedule;
    const float x[] = { o->rate, o->beta1, o->beta2,        o->eps,        o->beta,
                        o->l1,   o->l2,    o->weight_decay, o->clip_value, o->clip_norm };

    fprintf(out, "optimizer %d", o->kind);
    for (size_t i = 0; i < VB_ARRAY_LEN(x); i++)
        fprintf(out, " %a", (double)x[i]);
    fprintf(out, "\nschedule %d %" PRIu64 " %" PRIu64 " %a %a\n", s->kind, s->warmup, s->every,
            s->gamma, s->floor);
}

void job_print_class(FILE *out, const struct job_class *c)
{
    char rule[PS_RULE_TEXT];

    fprintf(out, "class %s\nmode %s\n", c->variables != NULL ? c->variables : "*",
            ps_rule_text(&c->rule, rule));
    print_optimizer(out, &c->optimizer);
    fprintf(out, "where %u\n", c->where);
    fprintf(out, "async %d %a\npush %u pull %u %a\n", c->async.rate_over_staleness,
            (double)c->async.compensation, c->push, c->pull, c->share);
}

struct ps_class job_ps_class(const struct job_class *c)
{
    const bool local = c->where == 1;

    return (struct ps_class){
        .name = c->name != NULL ? c->name : "others",
        .rule = c->rule,
        .push = c->push != 0 ? &c->push_codec : NULL,
        .pull = c->pull != 0 ? &c->pull_codec : NULL,
        .optimizer = local ? (struct kn_opt){ .kind = KN_SUM, .clip_norm = c->optimizer.clip_norm }
                           : c->optimizer,
        .local = local ? &c->optimizer : NULL,
        .async = c->async
    };
}

enum vb_st job_class_fail(const struct job_class *c, const char *key, struct vb_err *err,
                          const char *fmt, ...)
{
    char where[200], text[500];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    opt_where(c->opts, (size_t)opt_find(c->opts, key), where, sizeof(where));
    if (c->name != NULL)
        vb_err_set(err, "%s of class %.60s: %.300s", where, c->name, text);
    else
        vb_err_set(err, "%s: %.300s", where, text);
    return VB_INVAL;
}
