/* job_model.c - the list `model` of a job file, also as text: in the job's hash, and with saved parameters. */
#include "cmd/job.h"

#include <inttypes.h>
#include <string.h>

static const struct model_layer_type *find_layer(const char *name)
{
    const struct model_layer_type *t;

    for (size_t i = 0; (t = model_layer_type(i)) != NULL; i++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static enum vb_st unknown_layer(struct yaml_file *f, const yaml_node_t *node, struct vb_err *err)
{
    struct opt_guess g = { .word = yaml_text(node) };
    const struct model_layer_type *t;
    char names[300] = "";

    for (size_t i = 0; (t = model_layer_type(i)) != NULL; i++) {
        opt_guess_try(&g, t->name);
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? ", " : "",
                 t->name);
    }
    if (g.best != NULL)
        return yaml_fail(f, yaml_line(node), err,
                         "model: unknown layer '%.60s'; did you mean '%s'?", g.word, g.best);
    return yaml_fail(f, yaml_line(node), err, "model: unknown layer '%.60s'; there are %s", g.word,
                     names);
}

/* "dense: 256", "dense: {units: 256}", or "layer_norm" where no setting must be given. */
static enum vb_st read_settings(struct yaml_file *f, const yaml_node_t *item,
                                const yaml_node_t *value, const struct model_layer_type *t,
                                struct model_layer *l, struct vb_err *err)
{
    struct opt_set set;
    const struct yaml_schema schema = { .set = &set };
    enum vb_st st = opt_init(&set, "", t->setting, t->nsettings, l);

    if (st == VB_OK && value != NULL && yaml_text(value) != NULL)
        st = yaml_put(f, value, &set, 0, err);
    else if (st == VB_OK && value != NULL)
        st = yaml_walk(f, value, &schema, err);
    for (size_t i = 0; st == VB_OK && i < t->nsettings; i++)
        if (t->setting[i].required && set.src[i].from == OPT_DEFAULT)
            st = yaml_fail(f, yaml_line(item), err, "model: %s needs %s, as in {%s: {%s: %s}}",
                           t->name, t->setting[i].name, t->name, t->setting[i].name,
                           t->setting[i].type == OPT_U64 ? "4" : "0.5");
    return st;
}

enum vb_st job_read_layer(struct yaml_file *f, const yaml_node_t *item, void *arg,
                          struct vb_err *err)
{
    struct job_model *m = arg;
    const yaml_node_t *key = item, *value = NULL;

    if (yaml_text(item) == NULL && !yaml_single(f, item, &key, &value))
        return yaml_fail(f, yaml_line(item), err,
                         "model: a layer is a name (relu) or a name with settings (dense: 256)");
    if (yaml_text(key) == NULL)
        return yaml_fail(f, yaml_line(key), err, "model: the name of a layer must be a word");
    const struct model_layer_type *type = find_layer(yaml_text(key));
    if (type == NULL)
        return unknown_layer(f, key, err);
    if (type->nsettings == 0 && value != NULL)
        return yaml_fail(f, yaml_line(item), err, "model: %s has no settings", type->name);
    if (m->nlayers == JOB_LAYERS_MAX)
        return yaml_fail(f, yaml_line(item), err, "model: more than %d layers", JOB_LAYERS_MAX);
    struct model_layer l = { .type = type->name };
    const enum vb_st st = read_settings(f, item, value, type, &l, err);

    if (st != VB_OK)
        return st;
    m->line[m->nlayers] = yaml_line(item);
    m->layer[m->nlayers++] = l;
    return VB_OK;
}

static void print_setting(FILE *out, const struct opt *o, const struct model_layer *l)
{
    const char *at = (const char *)l + o->offset;

    fprintf(out, "%s: ", o->name);
    if (o->type == OPT_U64)
        fprintf(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
    else if (o->type == OPT_ENUM)
        fputs(o->names[*(const unsigned *)(const void *)at], out);
    else
        fprintf(out, "%.17g", *(const double *)(const void *)at);
}

void job_print_model(FILE *out, const struct job_model *m)
{
    fputs("model:\n", out);
    for (unsigned i = 0; i < m->nlayers; i++) {
        const struct model_layer_type *t = find_layer(m->layer[i].type);

        fprintf(out, t->nsettings > 0 ? "  - %s: {" : "  - %s", t->name);
        for (size_t k = 0; k < t->nsettings; k++) {
            fputs(k > 0 ? ", " : "", out);
            print_setting(out, &t->setting[k], &m->layer[i]);
        }
        fputs(t->nsettings > 0 ? "}\n" : "\n", out);
    }
}

enum vb_st job_parse_model(struct job_model *m, const char *name, const char *text, size_t bytes,
                           struct vb_err *err)
{
    const struct yaml_list list[] = { { "model", job_read_layer } };
    struct opt_set none = { .n = 0 };
    const struct yaml_schema schema = { &none, list, VB_ARRAY_LEN(list), m };
    struct yaml_file *f = NULL;
    enum vb_st st = yaml_parse(name, text, bytes, &f, err);

    if (st == VB_OK)
        st = yaml_walk(f, NULL, &schema, err);
    if (st == VB_OK && m->nlayers == 0)
        st = yaml_fail(f, 1, err, "model: is missing or has no layer");
    yaml_close(f);
    return st;
}
