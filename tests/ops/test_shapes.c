/*
 * What holds of every op whatever it computes: a batch of nothing gives nothing; a row of a batch is what the row gives
 * alone; the same run gives the same bits.
 */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, COLS = 6 };

/* x, y: [batch, 6] of floats; i, b: x as i32 and bool. */
struct rows {
    struct vb_graph *g;
    struct vb_node *x, *y, *i, *b;
};

/* Ops that work row by row: on what, and what they make of it. */
static unsigned row_ops(struct rows *r, struct vb_node **out)
{
    static const char *const one[] = { "neg",     "abs",      "sign",        "exp",
                                       "log",     "sqrt",     "square",      "tanh",
                                       "sigmoid", "gelu",     "relu",        "floor",
                                       "softmax", "identity", "log_softmax", "scale" };
    static const char *const two[] = { "add",     "sub",        "mul",      "div",           "pow",
                                       "equal",   "maximum",    "minimum",  "greater_equal", "less",
                                       "greater", "less_equal", "not_equal" };
    static const char *const reduce[] = { "reduce_sum", "reduce_mean", "reduce_max", "reduce_min" };
    static const char *const logical[] = { "logical_and", "logical_or" };
    const float gain[] = { 1, 2, 3, 4, 5, 6 };
    struct vb_graph *g = r->g;
    struct vb_node *v = vb_constant(g, VB_F32, VB_SHAPE(COLS), gain),
                   *m = vb_constant(g, VB_F32, VB_SHAPE(COLS, 2), (const float[12]){ 1, 0, 2, 5 });
    unsigned n = 0;

    for (unsigned k = 0; k < sizeof(one) / sizeof(*one); k++)
        out[n++] = vb_op(g, one[k], NULL, &r->x, 1, NULL, 0);
    for (unsigned k = 0; k < sizeof(two) / sizeof(*two); k++) {
        out[n++] = vb_op(g, two[k], NULL, (struct vb_node *[]){ r->x, r->y }, 2, NULL, 0);
        out[n++] = vb_op(g, two[k], NULL, (struct vb_node *[]){ v, r->y }, 2, NULL, 0);
    }
    for (unsigned k = 0; k < sizeof(reduce) / sizeof(*reduce); k++)
        out[n++] = vb_reduce(g, reduce[k], r->x, 2, k % 2 == 0);
    for (unsigned k = 0; k < sizeof(logical) / sizeof(*logical); k++)
        out[n++] = vb_op(g, logical[k], NULL, (struct vb_node *[]){ r->b, r->b }, 2, NULL, 0);
    out[n++] = vb_add(g, r->i, r->i);
    out[n++] = vb_logical_not(g, r->b);
    out[n++] = vb_select(g, r->b, r->x, v);
    out[n++] = vb_cast(g, r->i, VB_I64);
    out[n++] = vb_argmax(g, r->x, -1);
    out[n++] = vb_top_k(g, r->x, 3);
    out[n++] = vb_pick(g, r->y, vb_top_k(g, r->x, 3));
    out[n++] = vb_gather(g, m, vb_argmax(g, r->x, 1));
    out[n++] = vb_one_hot(g, vb_argmax(g, r->x, 1), COLS);
    out[n++] = vb_concat(g, (struct vb_node *[]){ r->x, r->y, r->x }, 3, 1);
    out[n++] = vb_reshape(g, r->x, 3, (const int64_t[]){ -1, 2, 3 });
    out[n++] = vb_transpose(g, vb_reshape(g, r->x, 3, (const int64_t[]){ -1, 2, 3 }),
                            (const int64_t[]){ 0, 2, 1 });
    out[n++] = vb_slice(g, r->x, (const int64_t[]){ 0, 1 }, (const int64_t[]){ -1, 3 });
    out[n++] = vb_pad(g, r->x, (const int64_t[]){ 0, 1 }, (const int64_t[]){ 0, 2 }, 4);
    out[n++] = vb_matmul(g, vb_reshape(g, r->x, 3, (const int64_t[]){ -1, 1, 6 }), m);
    out[n++] = vb_matmul_t(g, vb_reshape(g, r->x, 3, (const int64_t[]){ -1, 2, 3 }),
                           vb_reshape(g, r->y, 3, (const int64_t[]){ -1, 2, 3 }), false, true);
    out[n++] = vb_layer_norm(g, r->x, v, v, 1e-3);
    out[n++] = vb_bias_add(g, r->x, v);
    out[n++] = vb_assert(g, r->x, vb_equal(g, r->x, r->x));
    return n;
}

static size_t bytes_of(const struct vb_tensor *t)
{
    size_t n = t->dtype == VB_I64 ? 8 : t->dtype == VB_BOOL ? 1 : 4;

    for (unsigned i = 0; i < t->shape.rank; i++)
        n *= t->shape.dim[i];
    return n;
}

static float value(unsigned i)
{
    return (float)((i * 2654435761u >> 7) % 1000) / 250 - 1.97f;
}

static void run(struct vb_session *s, const struct rows *r, unsigned from, unsigned rows,
                struct vb_node *const *out, unsigned nout, struct vb_tensor *got)
{
    static float x[ROWS * COLS], y[ROWS * COLS];
    struct vb_error err = { "" };

    for (unsigned k = 0; k < rows * COLS; k++) {
        x[k] = value(from * COLS + k);
        y[k] = value(from * COLS + k + 1000);
    }
    const struct vb_feed feed[] = { { r->x, { VB_F32, VB_SHAPE(rows, COLS), x } },
                                    { r->y, { VB_F32, VB_SHAPE(rows, COLS), y } } };

    cr_assert_eq(vb_run(s, feed, 2, out, nout, got, &err), VB_OK, "%s", err.text);
}

static struct rows rows_new(void)
{
    struct rows r = { .g = vb_graph_new() };

    r.x = vb_placeholder(r.g, "x", VB_F32, VB_SHAPE(VB_BATCH, COLS));
    r.y = vb_placeholder(r.g, "y", VB_F32, VB_SHAPE(VB_BATCH, COLS));
    r.i = vb_cast(r.g, r.x, VB_I32);
    r.b = vb_cast(r.g, r.i, VB_BOOL);
    return r;
}

Test(shapes, a_row_of_a_batch_is_what_it_gives_alone_and_no_rows_give_none)
{
    struct rows r = rows_new();
    struct vb_node *out[128];
    struct vb_tensor all[128], part[128];
    struct vb_session *s = NULL, *t = NULL;
    const unsigned n = row_ops(&r, out);
    const char *why = "";

    cr_assert_eq(vb_graph_status(r.g, &why), VB_OK, "%s", why);
    cr_assert_eq(vb_session_open(NULL, r.g, &s, NULL), VB_OK);
    cr_assert_eq(vb_session_open(NULL, r.g, &t, NULL), VB_OK);
    run(s, &r, 0, ROWS, out, n, all);
    for (unsigned row = 0; row < ROWS; row++) {
        run(t, &r, row, 1, out, n, part);
        for (unsigned k = 0; k < n; k++) {
            const size_t bytes = bytes_of(&part[k]);

            cr_assert_eq(all[k].shape.dim[0], ROWS);
            cr_assert(memcmp((char *)all[k].data + row * bytes, part[k].data, bytes) == 0,
                      "row %u of %s", row, vb_node_name(out[k]));
        }
    }
    run(t, &r, 0, 0, out, n, part);
    for (unsigned k = 0; k < n; k++)
        cr_assert_eq(part[k].shape.dim[0], 0);
    vb_session_close(s);
    vb_session_close(t);
    vb_graph_free(r.g);
}

/* What is computed only for an op is overwritten by it, where it can work in place: run one at a time, since equal nodes
 * become one and have several readers. */
Test(shapes, an_op_that_takes_the_place_of_its_input_gives_the_same_bits)
{
    struct rows r = rows_new(), own = r;
    struct vb_node *out[128], *in_place[128];
    struct vb_tensor all[128], one;
    struct vb_session *s = NULL, *t = NULL;
    const unsigned n = row_ops(&r, out);

    own.x = vb_scale(r.g, r.x, 1, 0);
    own.y = vb_scale(r.g, r.y, 1, 0);
    own.i = vb_add(r.g, r.i, vb_cast(r.g, vb_scale(r.g, r.x, 0, 0), VB_I32));
    own.b = vb_logical_not(r.g, vb_logical_not(r.g, r.b));
    cr_assert_eq(row_ops(&own, in_place), n);
    cr_assert_eq(vb_session_open(NULL, r.g, &s, NULL), VB_OK);
    cr_assert_eq(vb_session_open(NULL, r.g, &t, NULL), VB_OK);
    run(s, &r, 0, ROWS, out, n, all);
    for (unsigned k = 0; k < n; k++) {
        run(t, &r, 0, ROWS, &in_place[k], 1, &one);
        cr_assert(memcmp(all[k].data, one.data, bytes_of(&one)) == 0, "%s",
                  vb_node_name(in_place[k]));
    }
    vb_session_close(s);
    vb_session_close(t);
    vb_graph_free(r.g);
}

/* Sums over more than a block, in each place, against sums in double; twice the same bits. */
Test(shapes, large_reductions_are_exact_enough_and_the_same_each_time)
{
    enum { A = 7, B = 1200, C = 37 };
    struct vb_graph *g = vb_graph_new();
    float *x = malloc(sizeof(float) * A * B * C), first[B * C];
    struct vb_session *s = NULL;
    struct vb_node *v, *sum[8];
    struct vb_tensor out[8];

    for (unsigned i = 0; i < A * B * C; i++)
        x[i] = value(i);
    v = vb_constant(g, VB_F32, VB_SHAPE(A, B, C), x);
    for (unsigned axes = 0; axes < 8; axes++)
        sum[axes] = vb_reduce(g, "reduce_sum", v, axes, true);
    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    cr_assert_eq(vb_run(s, NULL, 0, sum, 8, out, NULL), VB_OK);
    for (unsigned axes = 1; axes < 8; axes++) {
        const uint64_t *dim = out[axes].shape.dim;
        double *want = calloc(dim[0] * dim[1] * dim[2], sizeof(double));

        for (unsigned i = 0; i < A * B * C; i++)
            want[(i / (B * C) % dim[0] * dim[1] + i / C % B % dim[1]) * dim[2] + i % C % dim[2]] +=
                (double)x[i];
        for (uint64_t i = 0; i < dim[0] * dim[1] * dim[2]; i++)
            cr_assert_float_eq(((float *)out[axes].data)[i], want[i], 0.02, "axes %u: %g, not %g",
                               axes, (double)((float *)out[axes].data)[i], want[i]);
        free(want);
    }
    memcpy(first, out[1].data, sizeof(first));
    cr_assert_eq(vb_run(s, NULL, 0, sum, 8, out, NULL), VB_OK);
    cr_assert(memcmp(first, out[1].data, sizeof(first)) == 0);
    vb_session_close(s);
    vb_graph_free(g);
    free(x);
}
