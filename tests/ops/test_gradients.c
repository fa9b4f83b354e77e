/* Gradients of every op, and of a whole network, against finite differences. */
#include "harness.h"

#include "ops/ops.h"

#include <criterion/criterion.h>

static struct gr_shape mat(uint64_t rows, uint64_t cols)
{
    return (struct gr_shape){ 2, { rows, cols } };
}

static struct gr_shape vec(uint64_t n)
{
    return (struct gr_shape){ 1, { n } };
}

static const uint64_t dims[][3] = { { 1, 2, 1 }, { 3, 4, 5 }, { 8, 2, 9 }, { 5, 10, 17 } };

static struct gr_node *loss_of(struct bench *b, struct gr_node *logits)
{
    return bench_op(b, &op_softmax_cross_entropy, logits,
                    bench_labels(b, "labels", logits->shape.dim[0], logits->shape.dim[1]));
}

Test(gradients, of_matmul_in_all_four_combinations)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(dims); i++)
        for (int t = 0; t < 4; t++) {
            const uint64_t m = dims[i][0], n = dims[i][1], k = dims[i][2];
            const bool ta = (t & 1) != 0, tb = (t & 2) != 0;
            struct bench *b = bench_new(1);
            struct gr_node *x = bench_var(b, "x", ta ? mat(k, m) : mat(m, k));
            struct gr_node *y = bench_var(b, "y", tb ? mat(n, k) : mat(k, n));
            struct gr_node *loss = loss_of(b, bench_matmul(b, x, y, ta, tb));

            bench_check_gradients(b, loss, (struct gr_node *[]){ x, y }, 2);
            bench_free(b);
        }
}

Test(gradients, of_bias_add)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(dims); i++) {
        struct bench *b = bench_new(1);
        struct gr_node *x = bench_var(b, "x", mat(dims[i][0], dims[i][1]));
        struct gr_node *y = bench_var(b, "y", vec(dims[i][1]));

        bench_check_gradients(b, loss_of(b, bench_op(b, &op_bias_add, x, y)),
                              (struct gr_node *[]){ x, y }, 2);
        bench_free(b);
    }
}

Test(gradients, of_relu_and_add)
{
    for (size_t i = 1; i < VB_ARRAY_LEN(dims); i++) {
        struct bench *b = bench_new(1);
        struct gr_node *x = bench_var(b, "x", mat(dims[i][0], dims[i][1]));
        struct gr_node *y = bench_var(b, "y", mat(dims[i][0], dims[i][1]));
        struct gr_node *sum = bench_op(b, &op_add, bench_op(b, &op_relu, x, NULL), y);

        bench_check_gradients(b, loss_of(b, sum), (struct gr_node *[]){ x, y }, 2);
        bench_free(b);
    }
}

Test(gradients, of_a_variable_used_by_two_ops_and_twice_by_one)
{
    struct bench *b = bench_new(1);
    struct gr_node *x = bench_var(b, "x", mat(4, 4));
    struct gr_node *square = bench_matmul(b, x, x, false, true);
    struct gr_node *sum = bench_op(b, &op_add, square, bench_op(b, &op_relu, x, NULL));

    bench_check_gradients(b, loss_of(b, bench_op(b, &op_add, sum, sum)), &x, 1);
    bench_free(b);
}

Test(gradients, scale_with_what_comes_from_above)
{
    struct bench *b = bench_new(1);
    struct gr_node *x = bench_var(b, "x", mat(3, 5));
    struct gr_node *one = loss_of(b, x);

    bench_check_gradients(b, bench_op(b, &op_add, one, one), &x, 1);
    bench_free(b);
}

/* Layers of units[0..n), relu between them. var_out: weights and bias of each. */
static struct gr_node *mlp(struct bench *b, const uint64_t *units, size_t n,
                           struct gr_node **var_out)
{
    struct gr_node *h = bench_input(b, "x", mat(GR_BATCH, units[0]));

    for (size_t i = 1; i < n; i++) {
        const char name[2][3] = { { 'w', (char)('0' + i) }, { 'b', (char)('0' + i) } };

        var_out[0] = bench_var(b, name[0], mat(units[i - 1], units[i]));
        var_out[1] = bench_var(b, name[1], vec(units[i]));
        h = bench_op(b, &op_bias_add, bench_matmul(b, h, var_out[0], false, false), var_out[1]);
        if (i + 1 < n)
            h = bench_op(b, &op_relu, h, NULL);
        var_out += 2;
    }
    return loss_of(b, h);
}

Test(gradients, of_a_network_of_three_layers)
{
    static const uint64_t units[] = { 12, 16, 9, 10 };
    static const uint64_t batches[] = { 1, 7, 32 };

    for (size_t i = 0; i < VB_ARRAY_LEN(batches); i++) {
        struct bench *b = bench_new(batches[i]);
        struct gr_node *var[6];
        struct gr_node *loss = mlp(b, units, VB_ARRAY_LEN(units), var);

        bench_check_gradients(b, loss, var, 6);
        bench_free(b);
    }
}

Test(gradients, of_an_empty_batch_are_zero)
{
    static const uint64_t units[] = { 12, 16, 10 };
    struct bench *b = bench_new(0);
    struct gr_node *var[4], *grad[4];
    struct gr_node *loss = mlp(b, units, VB_ARRAY_LEN(units), var);

    cr_assert_eq(gr_gradients(b->g, &op_add, loss, var, 4, grad, &b->err), VB_OK);
    bench_run(b);
    cr_assert_eq(b->f[loss->id][0], 0.0f);
    for (int i = 0; i < 4; i++)
        for (uint64_t k = 0; k < bench_elems(b, grad[i]); k++)
            cr_assert_eq(b->f[grad[i]->id][k], 0.0f);
    bench_free(b);
}
