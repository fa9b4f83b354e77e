/* Graphs through the public interface alone: built, run, fed wrongly, and used on. */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct vb_node *op(struct vb_graph *g, const char *name, struct vb_node *a,
                          struct vb_node *b)
{
    return vb_op(g, name, NULL, (struct vb_node *[]){ a, b }, b != NULL ? 2 : 1, NULL, 0);
}

static struct vb_tensor matrix(float *data, uint64_t rows, uint64_t cols)
{
    return (struct vb_tensor){ VB_F32, VB_SHAPE(rows, cols), data };
}

/* logits = x w + b, and the loss of labels. */
struct net {
    struct vb_graph *g;
    struct vb_session *s;
    struct vb_node *x, *labels, *w, *b, *logits, *loss;
};

static struct net make(void)
{
    static const float w[] = { 1, 2, 3, 4, 5, 6 };
    struct net n = { .g = vb_graph_new() };
    struct vb_error err;
    const char *why;

    n.x = vb_placeholder(n.g, "x", VB_F32, VB_SHAPE(VB_BATCH, 2));
    n.labels = vb_placeholder(n.g, "labels", VB_I32, VB_SHAPE(VB_BATCH));
    n.w = vb_variable(n.g, "w", VB_SHAPE(2, 3), w);
    n.b = vb_variable(n.g, "b", VB_SHAPE(3), NULL);
    n.logits = op(n.g, "bias_add", op(n.g, "matmul", n.x, n.w), n.b);
    n.loss = op(n.g, "softmax_cross_entropy", n.logits, n.labels);
    cr_assert_eq(vb_graph_status(n.g, &why), VB_OK, "%s", why);
    cr_assert_eq(vb_session_open(NULL, n.g, &n.s, &err), VB_OK, "%s", err.text);
    return n;
}

static void end(struct net *n)
{
    vb_session_close(n->s);
    vb_graph_free(n->g);
}

Test(session, computes_what_is_fetched_for_any_batch)
{
    struct net n = make();
    float x[] = { 1, 1, 2, 0, 0, 1, 0, 0 };
    struct vb_error err = { "" };
    struct vb_tensor out;

    for (uint64_t rows = 1; rows <= 4; rows++) {
        cr_assert_eq(
            vb_run(n.s, &(struct vb_feed){ n.x, matrix(x, rows, 2) }, 1, &n.logits, 1, &out, &err),
            VB_OK, "%s", err.text);
        cr_assert(out.shape.rank == 2 && out.shape.dim[0] == rows && out.shape.dim[1] == 3);
        for (uint64_t r = 0; r < rows; r++)
            for (int c = 0; c < 3; c++)
                cr_assert_eq(((float *)out.data)[3 * r + (uint64_t)c],
                             x[2 * r] * (float)(1 + c) + x[2 * r + 1] * (float)(4 + c));
    }
    /* variables stay, and may be written between runs */
    vb_session_variable(n.s, n.b)[2] = 10;
    cr_assert_eq(
        vb_run(n.s, &(struct vb_feed){ n.x, matrix(x, 1, 2) }, 1, &n.logits, 1, &out, NULL), VB_OK);
    cr_assert_eq(((float *)out.data)[2], 19);
    cr_assert_eq(((float *)out.data)[0], 5);
    end(&n);
}

/* Descent by hand: the gradients are those of the loss. */
Test(session, gradients_lead_downhill)
{
    struct net n = make();
    float x[] = { 1, 0, 0, 1, -1, -1 };
    int32_t labels[] = { 0, 1, 2 };
    struct vb_node *var[] = { n.w, n.b }, *fetch[3] = { n.loss };
    struct vb_feed feed[] = { { n.x, matrix(x, 3, 2) },
                              { n.labels, { VB_I32, VB_SHAPE(3), labels } } };
    struct vb_tensor out[3];
    float first = 0, last = 0;

    cr_assert(vb_gradients(n.g, n.loss, var, 2, fetch + 1));
    for (int step = 0; step < 50; step++) {
        cr_assert_eq(vb_run(n.s, feed, 2, fetch, 3, out, NULL), VB_OK);
        last = *(float *)out[0].data;
        first = step == 0 ? last : first;
        for (int i = 0; i < 6; i++)
            vb_session_variable(n.s, n.w)[i] -= 0.5f * ((float *)out[1].data)[i];
        for (int i = 0; i < 3; i++)
            vb_session_variable(n.s, n.b)[i] -= 0.5f * ((float *)out[2].data)[i];
    }
    cr_assert(first > 1 && last < 0.1f, "%g, then %g", (double)first, (double)last);
    end(&n);
}

/* Any node may be fed; what it was made of is then not needed. */
Test(session, a_value_in_the_middle_may_be_fed)
{
    struct net n = make();
    float logits[] = { 0, 0, 0 };
    int32_t label = 1;
    struct vb_feed feed[] = { { n.logits, matrix(logits, 1, 3) },
                              { n.labels, { VB_I32, VB_SHAPE(1), &label } } };
    struct vb_tensor out;

    cr_assert_eq(vb_run(n.s, feed, 2, &n.loss, 1, &out, NULL), VB_OK);
    cr_assert_float_eq(*(float *)out.data, 1.0986123f, 1e-6f);
    cr_assert_eq(out.shape.rank, 0);
    end(&n);
}

static void refused(struct net *n, const struct vb_feed *feed, unsigned nfeed,
                    struct vb_node *fetch, const char *says)
{
    struct vb_error err = { "" };
    struct vb_tensor out;

    cr_assert_eq(vb_run(n->s, feed, nfeed, &fetch, 1, &out, &err), VB_INVAL, "%s", says);
    cr_assert(strstr(err.text, says) != NULL, "\"%s\" does not say \"%s\"", err.text, says);
}

Test(session, what_does_not_fit_is_one_line_and_the_session_goes_on)
{
    struct net n = make();
    float x[8] = { 0 };
    int32_t labels[4] = { 0 };
    const struct vb_feed narrow = { n.x, matrix(x, 2, 3) }, none = { NULL, matrix(x, 1, 2) },
                         ints = { n.x, { VB_I32, VB_SHAPE(1, 2), x } };
    const struct vb_feed uneven[] = { { n.x, matrix(x, 2, 2) },
                                      { n.labels, { VB_I32, VB_SHAPE(3), labels } } };
    struct vb_tensor out;

    refused(&n, NULL, 0, n.logits, "placeholder 'x' is needed and not fed");
    refused(&n, &narrow, 1, n.logits, "feed 'x' is f32 [2, 3], not f32 [batch, 2]");
    refused(&n, &ints, 1, n.logits, "feed 'x' is i32 [1, 2], not f32 [batch, 2]");
    refused(&n, &none, 1, n.logits, "feed 0 has no node");
    refused(&n, uneven, 2, n.loss, "feed 'labels' has a batch of 3, another one of 2");
    refused(&n, NULL, 0, NULL, "fetch 0 is no node");
    cr_assert_eq(
        vb_run(n.s, &(struct vb_feed){ n.x, matrix(x, 4, 2) }, 1, &n.logits, 1, &out, NULL), VB_OK);
    end(&n);
}

Test(session, a_graph_that_does_not_fit_says_the_first_reason)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *x = vb_placeholder(g, "x", VB_F32, VB_SHAPE(VB_BATCH, 2)), *y;
    struct vb_session *s = NULL;
    struct vb_error err = { "" };
    struct vb_tensor out;
    const char *why = NULL;

    y = op(g, "matmul", x, vb_variable(g, "w", VB_SHAPE(3, 3), NULL));
    cr_assert_null(y);
    cr_assert_null(op(g, "relu", y, NULL)); /* follows from it */
    cr_assert_null(op(g, "no_such_op", x, NULL));
    cr_assert_eq(vb_graph_status(g, &why), VB_INVAL);
    cr_assert_str_eq(why, "matmul: inner sizes differ, [batch, 2] x [3, 3]");
    cr_assert_eq(vb_session_open("verbena://nowhere:1", g, &s, &err), VB_INVAL);
    cr_assert_eq(vb_session_open(NULL, g, &s, &err), VB_OK);
    cr_assert_eq(vb_run(s, NULL, 0, &x, 1, &out, &err), VB_INVAL);
    cr_assert(strstr(err.text, "inner sizes differ") != NULL);
    vb_session_close(s);
    vb_graph_free(g);
}

Test(session, devices_look_like_devices)
{
    static const char *const good[] = { "", "/job:ps", "/job:ps/task:0", "/job:worker/task:1/cpu:0",
                                        "/gpu:3" };
    static const char *const bad[] = { "ps",           "/job:",  "/task:x", "/task:0/job:ps",
                                       "/cpu:0/gpu:0", "/job:a/" };

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct vb_graph *g = vb_graph_new();

        vb_graph_device(g, good[i]);
        cr_assert_not_null(vb_variable(g, "v", VB_SCALAR, NULL), "%s", good[i]);
        vb_graph_free(g);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct vb_graph *g = vb_graph_new();

        vb_graph_device(g, bad[i]);
        cr_assert_null(vb_variable(g, "v", VB_SCALAR, NULL), "%s", bad[i]);
        vb_graph_free(g);
    }
}

/* A step of training as a graph: loss and update in one run, in the order that control edges ask for. */
Test(session, variables_are_assigned_in_the_run)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *w = vb_variable(g, "w", VB_SHAPE(2), (float[]){ 1, -2 });
    struct vb_node *loss = vb_reduce(g, "reduce_sum", vb_square(g, w), 0, false), *dw = NULL;
    struct vb_session *s = NULL;
    struct vb_tensor out[2];

    cr_assert(vb_gradients(g, loss, &w, 1, &dw));
    struct vb_node *step = vb_assign_sub(g, w, vb_scale(g, dw, 0.25, 0));

    vb_after(g, step, loss);
    struct vb_node *after = vb_identity(g, w), *fetch[] = { step, after };

    vb_after(g, after, step);
    cr_assert_eq(vb_graph_status(g, NULL), VB_OK);
    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    for (float x = 0.5f; x > 1e-3f; x *= 0.5f) {
        cr_assert_eq(vb_run(s, NULL, 0, fetch, 2, out, NULL), VB_OK);
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(((float *)out[i].data)[0], x);
            cr_assert_eq(((float *)out[i].data)[1], -2 * x);
        }
    }
    cr_assert_eq(vb_session_variable(s, w)[1] * -0.5f, vb_session_variable(s, w)[0]);
    vb_session_close(s);
    vb_graph_free(g);
}

Test(session, an_op_that_fails_names_its_node_and_the_session_goes_on)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *table = vb_variable(g, "table", VB_SHAPE(3, 2), NULL);
    struct vb_node *i = vb_placeholder(g, "i", VB_I32, VB_SHAPE(VB_BATCH));
    struct vb_node *in[] = { table, i }, *row = vb_op(g, "gather", "rows", in, 2, NULL, 0);
    int32_t index[] = { 0, 3 };
    struct vb_session *s = NULL;
    struct vb_error err = { "" };
    struct vb_tensor out;

    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    cr_assert_eq(
        vb_run(s, &(struct vb_feed){ i, { VB_I32, VB_SHAPE(2), index } }, 1, &row, 1, &out, &err),
        VB_INVAL);
    cr_assert_str_eq(err.text, "'rows': index 1 is 3, not in [0, 3)");
    index[1] = 2;
    cr_assert_eq(
        vb_run(s, &(struct vb_feed){ i, { VB_I32, VB_SHAPE(2), index } }, 1, &row, 1, &out, &err),
        VB_OK);
    vb_session_close(s);
    vb_graph_free(g);
}

/* Rows that are not there are no rows. */
Test(session, a_batch_of_nothing_is_computed)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *x = vb_placeholder(g, "x", VB_F32, VB_SHAPE(VB_BATCH, 3));
    struct vb_node *fetch[] = { vb_softmax(g, x), vb_reduce(g, "reduce_mean", x, 1, false),
                                vb_add(g, x, vb_variable(g, "b", VB_SHAPE(3), NULL)),
                                vb_transpose(g, x, (const int64_t[]){ 0, 1 }),
                                vb_argmax(g, x, -1) };
    struct vb_session *s = NULL;
    struct vb_tensor out[5];
    float none;

    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    cr_assert_eq(vb_run(s, &(struct vb_feed){ x, { VB_F32, VB_SHAPE(0, 3), &none } }, 1, fetch, 5,
                        out, NULL),
                 VB_OK);
    cr_assert(out[0].shape.dim[0] == 0 && out[1].shape.dim[0] == 3 && out[4].shape.rank == 1);
    cr_assert_eq(((float *)out[1].data)[2], 0);
    vb_session_close(s);
    vb_graph_free(g);
}

static const char *why_not(struct vb_node *(*build)(struct vb_graph *g, struct vb_node *x))
{
    static char text[512];
    struct vb_graph *g = vb_graph_new();
    const char *why = "";

    cr_assert_null(build(g, vb_placeholder(g, "x", VB_F32, VB_SHAPE(VB_BATCH, 6))));
    cr_assert_eq(vb_graph_status(g, &why), VB_INVAL);
    snprintf(text, sizeof(text), "%s", why);
    vb_graph_free(g);
    return text;
}

static struct vb_node *bad_reshape(struct vb_graph *g, struct vb_node *x)
{
    return vb_reshape(g, x, 3, (const int64_t[]){ -1, 4, 2 });
}
static struct vb_node *bad_slice(struct vb_graph *g, struct vb_node *x)
{
    return vb_slice(g, x, (const int64_t[]){ 0, 4 }, (const int64_t[]){ -1, 3 });
}
static struct vb_node *bad_add(struct vb_graph *g, struct vb_node *x)
{
    return vb_add(g, x, vb_variable(g, "v", VB_SHAPE(5), NULL));
}
static struct vb_node *bad_axes(struct vb_graph *g, struct vb_node *x)
{
    return vb_reduce(g, "reduce_max", x, 4, false);
}
static struct vb_node *bad_perm(struct vb_graph *g, struct vb_node *x)
{
    return vb_transpose(g, x, (const int64_t[]){ 1, 0 });
}
static struct vb_node *bad_setting(struct vb_graph *g, struct vb_node *x)
{
    return vb_op(g, "reduce_sum", NULL, &x, 1, &(struct vb_attr){ "axis", 1, 0 }, 1);
}
static struct vb_node *bad_assign(struct vb_graph *g, struct vb_node *x)
{
    return vb_assign(g, x, x);
}

Test(session, a_misfit_is_one_line_with_the_shapes)
{
    cr_assert_str_eq(why_not(bad_reshape),
                     "reshape: the elements do not fill the new shape, [batch, 6]");
    cr_assert_str_eq(why_not(bad_slice), "slice: the part is not inside, [batch, 6]");
    cr_assert_str_eq(why_not(bad_add), "add: shapes do not fit, [batch, 6] x [5]");
    cr_assert_str_eq(why_not(bad_axes), "reduce_max: an axis is beyond the rank, [batch, 6]");
    cr_assert_str_eq(
        why_not(bad_perm),
        "transpose: the batch would not be the first dimension of the result, [batch, 6]");
    cr_assert_str_eq(why_not(bad_setting), "reduce_sum has no setting 'axis'");
    cr_assert_str_eq(why_not(bad_assign),
                     "assign: the first input is no variable, [batch, 6] x [batch, 6]");
}

static float mean(const struct vb_tensor *t, int power)
{
    double sum = 0;

    for (uint64_t i = 0; i < t->shape.dim[0]; i++)
        sum += power == 1 ? (double)((float *)t->data)[i]
                          : (double)((float *)t->data)[i] * (double)((float *)t->data)[i];
    return (float)(sum / (double)t->shape.dim[0]);
}

Test(session, chance_has_its_moments_and_is_another_one_in_each_run)
{
    enum { N = 20000 };
    struct vb_graph *g = vb_graph_new();
    struct vb_node *u = vb_random(g, "random_uniform", VB_SHAPE(N), 1),
                   *n = vb_random(g, "random_normal", VB_SHAPE(N), 1),
                   *other = vb_random(g, "random_normal", VB_SHAPE(N), 2);
    struct vb_node *x = vb_scale(g, vb_variable(g, "x", VB_SHAPE(N), NULL), 1, 1),
                   *kept = vb_dropout(g, x, 0.25, 3), *dx[1];
    struct vb_node *loss = vb_reduce(g, "reduce_sum", kept, 0, false);
    struct vb_session *s = NULL;
    struct vb_tensor out[5];
    float first[2];

    cr_assert(vb_gradients(g, loss, &x, 1, dx));
    struct vb_node *fetch[] = { u, n, other, kept, dx[0] };

    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    for (int run = 0; run < 2; run++) {
        cr_assert_eq(vb_run(s, NULL, 0, fetch, 5, out, NULL), VB_OK);
        /* five deviations of means of N numbers: 5 / sqrt(N) = 0.035 */
        cr_assert_float_eq(mean(&out[0], 1), 0.5f, 0.011f);
        cr_assert_float_eq(mean(&out[0], 2), 1.0f / 3, 0.011f);
        cr_assert_float_eq(mean(&out[1], 1), 0, 0.036f);
        cr_assert_float_eq(mean(&out[1], 2), 1, 0.05f);
        cr_assert_float_eq(mean(&out[3], 1), 1, 0.021f);
        cr_assert_neq(memcmp(out[1].data, out[2].data, N * sizeof(float)), 0);
        /* what was dropped has no gradient, what was kept has the same factor */
        cr_assert_eq(memcmp(out[3].data, out[4].data, N * sizeof(float)), 0);
        first[run] = ((float *)out[1].data)[0];
    }
    cr_assert_neq(first[0], first[1]);
    vb_session_close(s);
    vb_graph_free(g);
}
