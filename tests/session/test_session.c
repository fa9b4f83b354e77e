/* Graphs through the public interface alone: built, run, fed wrongly, and used on. */
#include "verbena/session.h"

#include <criterion/criterion.h>
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
