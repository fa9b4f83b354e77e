/* print writes one line for each run and passes its input on; assert fails the run by the node's name. Indices are checked. */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum vb_st run(struct vb_graph *g, struct vb_node *fetch, struct vb_tensor *out,
                      struct vb_error *err)
{
    struct vb_session *s = NULL;
    const char *why = "";
    enum vb_st st;

    cr_assert_eq(vb_graph_status(g, &why), VB_OK, "%s", why);
    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    st = vb_run(s, NULL, 0, &fetch, 1, out, err);
    vb_session_close(s);
    return st;
}

/* What a run of fetch writes to stderr. */
static const char *written(struct vb_graph *g, struct vb_node *fetch)
{
    static char text[4096];
    FILE *f = tmpfile();
    const int keep = dup(2);
    struct vb_tensor out;

    cr_assert(f != NULL && keep >= 0 && dup2(fileno(f), 2) == 2);
    cr_assert_eq(run(g, fetch, &out, NULL), VB_OK);
    dup2(keep, 2);
    close(keep);
    rewind(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

Test(watch, print_writes_a_line_of_each_type)
{
    struct vb_graph *g = vb_graph_new();
    const float f[] = { 1.5f, -0.001f, 3e10f, 4, 5, 6, 7, 8, 9 };
    const int64_t l[] = { INT64_MIN, 7 };
    const unsigned char b[] = { 1, 0 };
    struct vb_node *x = vb_constant(g, VB_F32, VB_SHAPE(3, 3), f);

    cr_assert_str_eq(written(g, vb_print(g, "x", x, 0)),
                     "x: f32 [3, 3]: 1.5 -0.001 3e+10 4 5 6 7 8 ...\n");
    cr_assert_str_eq(written(g, vb_print(g, "all", x, 64)),
                     "all: f32 [3, 3]: 1.5 -0.001 3e+10 4 5 6 7 8 9\n");
    cr_assert_str_eq(written(g, vb_print(g, "l", vb_constant(g, VB_I64, VB_SHAPE(2), l), 0)),
                     "l: i64 [2]: -9223372036854775808 7\n");
    cr_assert_str_eq(written(g, vb_print(g, "b", vb_constant(g, VB_BOOL, VB_SHAPE(1, 2), b), 1)),
                     "b: bool [1, 2]: true ...\n");
    cr_assert_str_eq(written(g, vb_print(g, "s", vb_constant(g, VB_F32, VB_SCALAR, f), 1)),
                     "s: f32 []: 1.5\n");
    vb_graph_free(g);
}

static struct vb_node *variable_of(struct vb_graph *g, const float *v)
{
    return vb_variable(g, "v", VB_SHAPE(2, 2), v);
}

Test(watch, assert_names_its_node_and_the_place)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *v = variable_of(g, (const float[]){ 1, 2, -3, 4 }),
                   *zero = vb_constant(g, VB_F32, VB_SCALAR, NULL);
    struct vb_node *is =
        vb_op(g, "greater", "is_positive", (struct vb_node *[]){ v, zero }, 2, NULL, 0);
    struct vb_node *in[] = { v, is }, *checked = vb_op(g, "assert", "check", in, 2, NULL, 0);
    struct vb_node *fine = vb_assert(g, v, vb_less(g, v, vb_scale(g, v, 0, 5)));
    struct vb_tensor out;
    struct vb_error err = { "" };

    cr_assert_eq(run(g, checked, &out, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "'check': 'is_positive' [2, 2] is false at element 2");
    cr_assert_eq(run(g, fine, &out, &err), VB_OK);
    vb_graph_free(g);
}

static void fails(struct vb_graph *g, struct vb_node *fetch, const char *why)
{
    struct vb_tensor out;
    struct vb_error err = { "" };

    cr_assert_eq(run(g, fetch, &out, &err), VB_INVAL);
    cr_assert_str_eq(err.text, why);
}

/* Known at once (folded) or in the run. */
Test(watch, an_index_that_is_not_there_is_named)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *v = variable_of(g, NULL), *w = vb_constant(g, VB_F32, VB_SHAPE(2, 2), NULL);
    struct vb_node *i = vb_constant(g, VB_I32, VB_SHAPE(2, 2), (const int32_t[]){ 0, 1, 0, -1 });
    struct vb_node *in[] = { v, i }, *known[] = { w, i };

    fails(g, vb_op(g, "gather", "rows", in, 2, NULL, 0), "'rows': index 3 is -1, not in [0, 2)");
    fails(g, vb_op(g, "pick", "places", in, 2, NULL, 0), "'places': index 3 is -1, not in [0, 2)");
    fails(g, vb_op(g, "pick", "known", known, 2, NULL, 0), "'known': index 3 is -1, not in [0, 2)");
    fails(g, vb_op(g, "one_hot", "hot", &i, 1, &(struct vb_attr){ "depth", 9, 0 }, 1),
          "'hot': index 3 is -1, not in [0, 9)");
    vb_graph_free(g);
}
