/* What the ops compute, against values of PyTorch and numpy (golden.py makes them). argv[1]: golden.txt. */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 256 };

struct value {
    enum vb_dtype type;
    struct vb_shape shape;
    double v[VALUES_MAX];
    unsigned n;
};

struct golden {
    char op[40];
    char attr_name[16][16];
    struct vb_attr attr[16];
    struct value in[VB_IN_MAX], out;
    unsigned nattr, nin;
};

static unsigned done;

static void die(const struct golden *c, const char *what, const char *more)
{
    fprintf(stderr, "case %u, %s: %s %s\n", done, c->op, what, more);
    exit(1);
}

/* "f32 2 3 : 1 2 3 4 5 6" */
static void read_value(struct golden *c, const char *text, struct value *x)
{
    static const char *const types[] = { "f32", "i32", "i64", "bool" };
    char type[8];
    int used = 0;

    if (sscanf(text, "%7s%n", type, &used) != 1)
        die(c, "no type in", text);
    *x = (struct value){ .type = VB_F32 };
    while (x->type <= VB_BOOL && strcmp(types[x->type], type) != 0)
        x->type++;
    text += used;
    for (unsigned long long dim; sscanf(text, "%llu%n", &dim, &used) == 1; text += used)
        x->shape.dim[x->shape.rank++] = dim;
    text = strchr(text, ':') + 1;
    for (double v; x->n < VALUES_MAX && sscanf(text, "%lf%n", &v, &used) == 1; text += used)
        x->v[x->n++] = v;
}

static size_t bytes_of(enum vb_dtype t)
{
    return t == VB_I64 ? 8 : t == VB_BOOL ? 1 : 4;
}

static void put(enum vb_dtype t, void *to, unsigned i, double v)
{
    if (t == VB_F32)
        ((float *)to)[i] = (float)v;
    else if (t == VB_I32)
        ((int32_t *)to)[i] = (int32_t)v;
    else if (t == VB_I64)
        ((int64_t *)to)[i] = (int64_t)v;
    else
        ((unsigned char *)to)[i] = v != 0;
}

static double get(const struct vb_tensor *t, unsigned i)
{
    return t->dtype == VB_F32   ? (double)((const float *)t->data)[i]
           : t->dtype == VB_I32 ? ((const int32_t *)t->data)[i]
           : t->dtype == VB_I64 ? (double)((const int64_t *)t->data)[i]
                                : ((const unsigned char *)t->data)[i];
}

static void compare(const struct golden *c, const struct vb_tensor *out)
{
    if (out->dtype != c->out.type || out->shape.rank != c->out.shape.rank ||
        memcmp(out->shape.dim, c->out.shape.dim, out->shape.rank * sizeof(out->shape.dim[0])) != 0)
        die(c, "another type or shape", "");
    for (unsigned i = 0; i < c->out.n; i++) {
        const double want = c->out.v[i], got = get(out, i);

        if (got != want && !(isnan(got) && isnan(want)) &&
            !(fabs(got - want) <= 4e-6 * (1 + fabs(want)))) {
            fprintf(stderr, "element %u: %.9g, not %.9g\n", i, got, want);
            die(c, "another value", "");
        }
    }
}

static void run(struct golden *c)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *in[VB_IN_MAX], *out;
    struct vb_feed feed[VB_IN_MAX];
    struct vb_session *s = NULL;
    struct vb_tensor got;
    struct vb_error err = { "" };
    const char *why = "";

    for (unsigned i = 0; i < c->nin; i++) {
        char name[16];
        const struct value *x = &c->in[i];
        void *data = calloc(x->n + 1, bytes_of(x->type));

        snprintf(name, sizeof(name), "in%u", i);
        in[i] = vb_placeholder(g, name, x->type, x->shape);
        for (unsigned k = 0; k < x->n; k++)
            put(x->type, data, k, x->v[k]);
        feed[i] = (struct vb_feed){ in[i], { x->type, x->shape, data } };
    }
    for (unsigned i = 0; i < c->nattr; i++)
        c->attr[i].name = c->attr_name[i];
    out = vb_op(g, c->op, NULL, in, c->nin, c->attr, c->nattr);
    if (vb_graph_status(g, &why) != VB_OK)
        die(c, "cannot be built:", why);
    if (vb_session_open(NULL, g, &s, &err) != VB_OK ||
        vb_run(s, feed, c->nin, &out, 1, &got, &err) != VB_OK)
        die(c, "does not run:", err.text);
    compare(c, &got);
    vb_session_close(s);
    vb_graph_free(g);
    for (unsigned i = 0; i < c->nin; i++)
        free(feed[i].value.data);
    done++;
}

int main(int argc, char **argv)
{
    struct golden *c = calloc(1, sizeof(*c));
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    char *line = NULL;
    size_t room = 0;

    if (f == NULL || c == NULL)
        return 1;
    while (getline(&line, &room, f) > 0) {
        int at = 0;

        if (sscanf(line, "op %39s", c->op) == 1) {
            c->nin = c->nattr = 0;
        } else if (sscanf(line, "attr %15s %n", c->attr_name[c->nattr], &at) == 1) {
            const double v = strtod(line + at, NULL);

            c->attr[c->nattr++] = (struct vb_attr){ NULL, (int64_t)v, v };
        } else if (strncmp(line, "in ", 3) == 0) {
            read_value(c, line + 3, &c->in[c->nin++]);
        } else if (strncmp(line, "out ", 4) == 0) {
            read_value(c, line + 4, &c->out);
            run(c);
        }
    }
    fclose(f);
    free(line);
    free(c);
    printf("%u cases\n", done);
    return done > 200 ? 0 : 1;
}
