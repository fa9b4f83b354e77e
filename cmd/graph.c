/*
 * The graph of a job, as text for machines (JSON), for Graphviz (DOT) or as a picture (SVG): as it is built, with the
 * gradients, or as it runs, with what is not needed left out.
 */
#include "cmd/cmd.h"
#include "cmd/task.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum stage { RAW, PRUNED };
enum form { DOT, JSON, SVG };
static const char *const stages[] = { [RAW] = "raw", [PRUNED] = "pruned", NULL };
static const char *const forms[] = { [DOT] = "dot", [JSON] = "json", [SVG] = "svg", NULL };

struct graph_conf {
    unsigned stage, form;
};

#define AT(member) .offset = offsetof(struct graph_conf, member)

/* clang-format off */
static const struct opt graph_opts[] = {
    { "stage", OPT_ENUM, "pruned", "STAGE", "raw: as it is built; pruned: what a step needs, equal nodes once", AT(stage),
      .names = stages },
    { "form", OPT_ENUM, "dot", "FORM", "dot (Graphviz), json (an object a line), svg", AT(form), .names = forms },
};
/* clang-format on */

static bool is_leaf(const struct gr_node *n)
{
    return n->type->run == NULL;
}

/* ---- as lines ---- */

static void put_dot(const struct graph *g)
{
    puts("digraph verbena {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];");
    for (uint32_t i = 0; i < gr_count(g); i++) {
        const struct gr_node *n = gr_at(g, i);
        char shape[GR_SHAPE_TEXT];

        gr_shape_str(n->shape, shape, sizeof(shape));
        printf("  n%u [label=\"%s\\n%s %s %s\"%s];\n", i, n->name, n->type->name,
               gr_dtype_name(n->dtype), shape, is_leaf(n) ? ", style=rounded" : "");
        for (uint32_t k = 0; k < n->nin; k++)
            printf("  n%u -> n%u;\n", n->in[k]->id, i);
        for (uint32_t k = 0; k < n->nctl; k++)
            printf("  n%u -> n%u [style=dashed];\n", n->ctl[k]->id, i);
    }
    puts("}");
}

static bool put_json(const struct graph *g)
{
    for (uint32_t i = 0; i < gr_count(g); i++) {
        const struct gr_node *n = gr_at(g, i);
        json_t *in = json_array(), *dim = json_array();

        for (uint32_t k = 0; k < n->nin; k++)
            json_array_append_new(in, json_string(n->in[k]->name));
        for (uint32_t k = 0; k < n->shape.rank; k++)
            json_array_append_new(dim, n->shape.dim[k] == GR_BATCH
                                           ? json_string("batch")
                                           : json_integer((json_int_t)n->shape.dim[k]));
        json_t *o = json_pack("{s:s,s:s,s:s,s:o,s:o}", "name", n->name, "op", n->type->name,
                              "dtype", gr_dtype_name(n->dtype), "shape", dim, "in", in);
        char *text = json_dumps(o, JSON_COMPACT);

        json_decref(o);
        if (text == NULL)
            return false;
        puts(text);
        free(text);
    }
    return true;
}

/* ---- as a picture: a row for each depth ---- */

enum { BOX_W = 170, BOX_H = 36, GAP_X = 16, GAP_Y = 44, EDGE = 20 };

struct place {
    uint32_t row, nth;
};

/* An op below all its inputs, a leaf directly above the first op that reads it. */
static uint32_t find_rows(const struct graph *g, struct place *at, uint32_t *count)
{
    const uint32_t n = gr_count(g);
    uint32_t rows = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct gr_node *node = gr_at(g, i);

        for (uint32_t k = 0; k < node->nin; k++)
            at[i].row = VB_MAX(at[i].row, at[node->in[k]->id].row + 1);
        rows = VB_MAX(rows, at[i].row + 1);
    }
    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = 0; k < gr_at(g, i)->nin; k++)
            if (is_leaf(gr_at(g, i)->in[k])) /* the first user comes last here */
                at[gr_at(g, i)->in[k]->id].row = at[i].row - 1;
    for (uint32_t i = 0; i < n; i++)
        at[i].nth = count[at[i].row]++;
    return rows;
}

static uint32_t x_of(const struct place *p, const uint32_t *count, uint32_t widest)
{
    return EDGE + (widest - count[p->row]) * (BOX_W + GAP_X) / 2 + p->nth * (BOX_W + GAP_X);
}

static uint32_t y_of(const struct place *p)
{
    return EDGE + p->row * (BOX_H + GAP_Y);
}

static const char *fill_of(const struct gr_node *n)
{
    return n->type == &gr_variable      ? "#d5e8d4"
           : n->type == &gr_placeholder ? "#fff2cc"
           : is_leaf(n)                 ? "#f5f5f5"
                                        : "#dae8fc";
}

static void put_box(const struct gr_node *n, uint32_t x, uint32_t y)
{
    char shape[GR_SHAPE_TEXT];

    gr_shape_str(n->shape, shape, sizeof(shape));
    printf("<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" "
           "stroke=\"#666\"/>\n",
           x, y, BOX_W, BOX_H, is_leaf(n) ? 14 : 3, fill_of(n));
    printf("<text x=\"%u\" y=\"%u\" text-anchor=\"middle\">%.26s</text>\n", x + BOX_W / 2, y + 15,
           n->name);
    printf("<text x=\"%u\" y=\"%u\" text-anchor=\"middle\" fill=\"#555\">%.16s %.20s</text>\n",
           x + BOX_W / 2, y + 29, n->type->name, shape);
}

static bool put_svg(const struct graph *g)
{
    const uint32_t n = gr_count(g);
    AUTO_FREE struct place *at = calloc(n + 1, sizeof(*at));
    AUTO_FREE uint32_t *count = calloc(n + 1, sizeof(*count));
    uint32_t widest = 0;

    if (at == NULL || count == NULL)
        return false;
    const uint32_t rows = find_rows(g, at, count);

    for (uint32_t r = 0; r < rows; r++)
        widest = VB_MAX(widest, count[r]);
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
           "font-family=\"sans-serif\" "
           "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
           2 * EDGE + widest * (BOX_W + GAP_X), 2 * EDGE + rows * (BOX_H + GAP_Y));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < gr_at(g, i)->nin; k++) {
            const struct place *from = &at[gr_at(g, i)->in[k]->id];

            printf("<line x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\" stroke=\"#999\"/>\n",
                   x_of(from, count, widest) + BOX_W / 2, y_of(from) + BOX_H,
                   x_of(&at[i], count, widest) + BOX_W / 2, y_of(&at[i]));
        }
    for (uint32_t i = 0; i < n; i++)
        put_box(gr_at(g, i), x_of(&at[i], count, widest), y_of(&at[i]));
    puts("</svg>");
    return true;
}

/* ---- the stages ---- */

/* What a step of training needs: the loss and the gradients. gives: gr_free. */
static enum vb_st prune(const struct model *m, struct graph **out, struct vb_err *err)
{
    AUTO_FREE struct gr_node **map = calloc(gr_count(m->graph), sizeof(struct gr_node *));
    AUTO_FREE struct gr_node **fetch = calloc(m->nvars + 1, sizeof(struct gr_node *));
    struct gr_node *const feed[] = { m->x, m->labels };
    const struct gr_simplify p = { fetch, feed, m->nvars + 1, VB_ARRAY_LEN(feed) };

    if (map == NULL || fetch == NULL)
        return VB_NOMEM;
    fetch[0] = m->loss;
    memcpy(fetch + 1, m->grad, m->nvars * sizeof(struct gr_node *));
    return gr_simplify(m->graph, &p, out, map, err);
}

static int show(const struct graph_conf *c, const struct job *job)
{
    struct task_shape s = { 0 };
    struct vb_err err = { "out of memory" };
    struct graph *pruned = NULL;
    enum vb_st st = task_shape_make(job, &s, &err);
    bool ok = true;

    if (st == VB_OK && c->stage == PRUNED)
        st = prune(&s.model, &pruned, &err);
    if (st == VB_OK) {
        const struct graph *g = pruned != NULL ? pruned : s.model.graph;

        if (c->form == DOT)
            put_dot(g);
        else
            ok = c->form == JSON ? put_json(g) : put_svg(g);
    }
    gr_free(pruned);
    task_shape_fini(&s);
    if (st != VB_OK || !ok)
        return cmd_fail(VB_EXIT_FAILED, err.text);
    return fflush(stdout) == 0 ? VB_EXIT_OK
                               : cmd_fail(VB_EXIT_FAILED, "verbena: the graph cannot be written");
}

static int graph_main(int argc, char **argv)
{
    struct graph_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    struct vb_err err = { "" };
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_graph, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_graph, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK && job_check(&s->job, &err) != VB_OK)
        code = cmd_fail(VB_EXIT_USAGE, err.text);
    if (code == VB_EXIT_OK)
        code = show(&conf, &s->job);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_graph = {
    .about = { .name = "graph",
               .args = "JOB.yaml",
               .doc = "Shows the dataflow graph of a job's model, gradients included.\n"
                      "On stdout: for Graphviz, as JSON, or as a picture.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = graph_opts,
    .nopts = VB_ARRAY_LEN(graph_opts),
    .has_job = true,
    .run = graph_main,
};
