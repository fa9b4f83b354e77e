/* Shape rules and their messages, the list of ops, and that working in place changes no bit. */
#include "harness.h"

#include "ops/ops.h"

#include <criterion/criterion.h>
#include <string.h>

static struct gr_shape mat(uint64_t rows, uint64_t cols)
{
    return (struct gr_shape){ 2, { rows, cols } };
}

static struct gr_shape vec(uint64_t n)
{
    return (struct gr_shape){ 1, { n } };
}

static const struct gr_attr *attr_of(bool ta, bool tb)
{
    static struct gr_attr attr;

    attr = (struct gr_attr){ .i = { ta, tb } };
    return &attr;
}

static void refused(struct bench *b, const struct gr_type *type, struct gr_node *in0,
                    struct gr_node *in1, const struct gr_attr *attr, const char *why)
{
    struct gr_node *n = NULL;

    cr_assert_eq(gr_add(b->g, type, NULL, (struct gr_node *[]){ in0, in1, in1 }, attr, &n, &b->err),
                 VB_INVAL, "%s", why);
    cr_assert_str_eq(b->err.text, why);
}

Test(ops, misfits_are_one_line_with_the_shapes)
{
    struct bench *b = bench_new(1);
    struct gr_node *x = bench_input(b, "x", mat(GR_BATCH, 784)), *v = bench_var(b, "v", vec(256));
    struct gr_node *w = bench_var(b, "w", mat(2, 128)), *labels = bench_labels(b, "l", 7, 2);
    struct gr_node *wide = NULL, *wider = NULL;

    refused(b, &op_matmul, x, w, NULL, "matmul: inner sizes differ, [batch, 784] x [2, 128]");
    refused(b, &op_matmul, x, w, attr_of(true, false),
            "matmul: inner sizes differ (first transposed), [batch, 784] x [2, 128]");
    refused(b, &op_matmul, x, v, NULL,
            "matmul: input 1 has rank 1 where 2 is needed, [batch, 784] x [256]");
    refused(b, &op_matmul, w, labels, NULL,
            "matmul: input 1 is i32 where f32 is needed, [2, 128] x [7]");
    refused(b, &op_matmul, x, x, attr_of(false, true),
            "matmul: the batch would not be the first dimension of the result, [batch, 784] x "
            "[batch, 784]");
    refused(b, &op_bias_add, x, v, NULL, "bias_add: columns and bias differ, [batch, 784] x [256]");
    refused(b, &op_add, x, w, NULL, "add: shapes do not fit, [batch, 784] x [2, 128]");
    refused(b, &op_relu_grad, x, w, NULL, "relu_grad: shapes differ, [batch, 784] x [2, 128]");
    refused(b, &op_relu, labels, NULL, NULL, "relu: input 0 is i32 where f32 is needed, [7]");
    refused(b, &op_softmax_cross_entropy, w, labels, NULL,
            "softmax_cross_entropy: rows and labels differ, [2, 128] x [7]");
    refused(b, &op_softmax_cross_entropy, w, v, NULL,
            "softmax_cross_entropy: input 1 is f32 where i32 is needed, [2, 128] x [256]");
    cr_assert_eq(gr_add_variable(b->g, "wide", mat(1, UINT64_C(1) << 31), &wide, &b->err), VB_OK);
    refused(b, &op_matmul, wide, w, attr_of(true, false),
            "matmul: inner sizes differ (first transposed), [1, 2147483648] x [2, 128]");
    cr_assert_eq(gr_add_variable(b->g, "wider", mat(1, 5), &wider, &b->err), VB_OK);
    refused(b, &op_matmul, wide, wider, attr_of(true, false),
            "matmul: there are more than 2147483647 rows or columns, [1, 2147483648] x [1, 5]");
    bench_free(b);
}

Test(ops, the_batch_passes_through_shapes)
{
    struct bench *b = bench_new(2);
    struct gr_node *x = bench_input(b, "x", mat(GR_BATCH, 8)), *w = bench_var(b, "w", mat(8, 3));
    struct gr_node *y = bench_matmul(b, x, w, false, false);

    cr_assert(gr_shape_eq(y->shape, mat(GR_BATCH, 3)));
    cr_assert(gr_shape_eq(bench_matmul(b, x, y, true, false)->shape, mat(8, 3)));
    cr_assert(gr_shape_eq(bench_op(b, &op_col_sum, y, NULL)->shape, vec(3)));
    cr_assert(gr_shape_eq(bench_op(b, &op_relu, y, NULL)->shape, y->shape));
    bench_free(b);
}

Test(ops, are_found_by_name)
{
    for (size_t i = 0; op_all[i] != NULL; i++) {
        cr_assert_eq(op_find(op_all[i]->name), op_all[i]);
        cr_assert(op_all[i]->run != NULL && op_all[i]->infer != NULL);
        cr_assert(op_all[i]->nin <= GR_IN_MAX && op_all[i]->inplace_of < (int)op_all[i]->nin);
        if (i > 0)
            cr_assert_lt(strcmp(op_all[i - 1]->name, op_all[i]->name), 0);
    }
    cr_assert_null(op_find("convolution"));
}

/* Runs n with its output in the place of the input it may replace; both must give the same bits. */
static void check_in_place(struct bench *b, const struct gr_node *n)
{
    struct gr_tensor in[GR_IN_MAX], out = bench_tensor(b, n);
    static float place[H_ELEMS];
    const size_t bytes = bench_elems(b, n) * sizeof(float);

    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = bench_tensor(b, n->in[i]);
    memcpy(place, in[n->type->inplace_of].data, bytes);
    out.data = in[n->type->inplace_of].data = place;
    n->type->run(n, in, &out, &(struct gr_run){ 0 });
    cr_assert(memcmp(place, b->f[n->id], bytes) == 0, "%s", n->type->name);
}

Test(ops, in_place_gives_the_same_bits)
{
    struct bench *b = bench_new(13);
    struct gr_node *x = bench_input(b, "x", mat(GR_BATCH, 17)), *w = bench_var(b, "w", vec(17));
    struct gr_node *y = bench_op(b, &op_bias_add, x, w), *h = bench_op(b, &op_relu, y, NULL);
    struct gr_node *sum = bench_op(b, &op_add, h, x), *d = NULL;
    struct gr_node *loss =
        bench_op(b, &op_softmax_cross_entropy, sum, bench_labels(b, "labels", GR_BATCH, 17));
    size_t checked = 0;

    cr_assert_eq(gr_gradients(b->g, &op_add, loss, &w, 1, &d, &b->err), VB_OK);
    bench_run(b);
    for (uint32_t id = 0; id < gr_count(b->g); id++)
        if (gr_at(b->g, id)->type->run != NULL && gr_at(b->g, id)->type->inplace_of >= 0) {
            check_in_place(b, gr_at(b->g, id));
            checked++;
        }
    cr_assert_eq(checked, 5);
    bench_free(b);
}
