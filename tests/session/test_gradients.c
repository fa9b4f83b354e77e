/*
 * Every op with a gradient, through the public interface: the gradient of sum(w * op(x, y)), w fixed, against central
 * differences of runs in float. Steps of 1e-2 leave errors of 1e-4 (third derivatives) and 1e-5 (rounding); a wrong
 * factor, index or sign is a hundred times larger.
 */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMS_MAX = 512 };

struct net {
    struct vb_graph *g;
    struct vb_node *x, *y, *index;
};

typedef struct vb_node *build(struct net *n);

static float number(unsigned seed, unsigned i)
{
    unsigned h = (seed * 7919 + i) * 2654435761u;

    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return 0.2f +
           (float)(h % 10000) / 10000 * 1.3f; /* in [0.2, 1.5): logarithms and roots are happy */
}

static uint64_t elems(struct vb_shape s)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < s.rank; i++)
        n *= s.dim[i];
    return n;
}

static struct vb_node *variable(struct vb_graph *g, const char *name, struct vb_shape s,
                                unsigned seed, bool mixed)
{
    float v[ELEMS_MAX];

    for (unsigned i = 0; i < elems(s); i++)
        v[i] = mixed && i % 2 != 0 ? -number(seed, i) : number(seed, i);
    return vb_variable(g, name, s, v);
}

static double value(struct vb_session *s, struct vb_node *loss)
{
    struct vb_tensor out;
    struct vb_error err = { "" };

    cr_assert_eq(vb_run(s, NULL, 0, &loss, 1, &out, &err), VB_OK, "%s", err.text);
    return (double)*(float *)out.data;
}

static void compare(struct vb_session *s, const char *name, struct vb_node *loss,
                    struct vb_node *var, struct vb_node *grad)
{
    const float h = 1e-2f;
    float *v = vb_session_variable(s, var), got[ELEMS_MAX];
    const uint64_t n = elems(vb_node_shape(var));
    double largest = 1e-3;
    struct vb_tensor out;

    cr_assert_eq(vb_run(s, NULL, 0, &grad, 1, &out, NULL), VB_OK);
    cr_assert_eq(elems(out.shape), n, "%s: shape of the gradient", name);
    memcpy(got, out.data, n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)got[i]));
    for (uint64_t i = 0; i < n; i++) {
        const float keep = v[i];

        v[i] = keep + h;
        const double up = value(s, loss);
        v[i] = keep - h;
        const double want = (up - value(s, loss)) / (2 * (double)h);
        v[i] = keep;
        cr_assert(fabs((double)got[i] - want) < 2e-3 * largest + 2e-3,
                  "%s: d/d%s[%lu] is %g, not %g", name, vb_node_name(var), i, (double)got[i], want);
    }
}

static void check(const char *name, build *b, struct vb_shape x, struct vb_shape y, bool mixed)
{
    static const int32_t index[] = { 2, 0, 2, 1 };
    struct net n = { .g = vb_graph_new() };
    struct vb_node *grad[2] = { NULL }, *out, *loss;
    struct vb_session *s = NULL;
    const char *why;

    n.x = variable(n.g, "x", x, 1, mixed);
    n.y = y.rank > 0 ? variable(n.g, "y", y, 2, mixed) : NULL;
    n.index = vb_constant(n.g, VB_I32, VB_SHAPE(4), index);
    out = b(&n);
    cr_assert_eq(vb_graph_status(n.g, &why), VB_OK, "%s: %s", name, why);

    const struct vb_shape so = vb_node_shape(out);
    float w[ELEMS_MAX];

    for (unsigned i = 0; i < elems(so); i++)
        w[i] = number(3, i) - 0.7f;
    loss =
        vb_reduce(n.g, "reduce_sum", vb_mul(n.g, out, vb_constant(n.g, VB_F32, so, w)), 0, false);
    struct vb_node *var[] = { n.x, n.y };
    const unsigned nvars = n.y != NULL ? 2 : 1;

    cr_assert(vb_gradients(n.g, loss, var, nvars, grad), "%s", name);
    cr_assert_eq(vb_session_open(NULL, n.g, &s, NULL), VB_OK);
    for (unsigned i = 0; i < nvars; i++)
        compare(s, name, loss, var[i], grad[i]);
    vb_session_close(s);
    vb_graph_free(n.g);
}

#define ONE(op)                                                                                    \
    static struct vb_node *op##_x(struct net *n)                                                   \
    {                                                                                              \
        return vb_##op(n->g, n->x);                                                                \
    }
#define TWO(op)                                                                                    \
    static struct vb_node *op##_xy(struct net *n)                                                  \
    {                                                                                              \
        return vb_##op(n->g, n->x, n->y);                                                          \
    }
/* clang-format off */
ONE(neg) ONE(abs) ONE(exp) ONE(log) ONE(sqrt) ONE(square) ONE(tanh) ONE(sigmoid) ONE(gelu)
ONE(relu) ONE(identity) ONE(softmax) ONE(log_softmax)
TWO(add) TWO(sub) TWO(mul) TWO(div) TWO(pow) TWO(maximum) TWO(minimum) TWO(matmul) TWO(bias_add)
TWO(squared_error) TWO(sigmoid_cross_entropy)
    /* clang-format on */

    static const struct vb_shape none = { 0, { 0 } };

Test(gradients, of_functions_of_one)
{
    static const struct {
        const char *name;
        build *b;
        bool mixed;
    } op[] = { { "neg", neg_x, true },
               { "abs", abs_x, true },
               { "exp", exp_x, true },
               { "log", log_x, false },
               { "sqrt", sqrt_x, false },
               { "square", square_x, true },
               { "tanh", tanh_x, true },
               { "sigmoid", sigmoid_x, true },
               { "gelu", gelu_x, true },
               { "relu", relu_x, true },
               { "identity", identity_x, true },
               { "softmax", softmax_x, true },
               { "log_softmax", log_softmax_x, true } };

    for (size_t i = 0; i < sizeof(op) / sizeof(*op); i++) {
        check(op[i].name, op[i].b, VB_SHAPE(3, 5), none, op[i].mixed);
        check(op[i].name, op[i].b, VB_SHAPE(2, 1, 3, 1, 2, 2), none, op[i].mixed);
        check(op[i].name, op[i].b, VB_SHAPE(1), none, op[i].mixed);
    }
}

Test(gradients, of_functions_of_two_with_broadcasting)
{
    static const struct {
        const char *name;
        build *b;
    } op[] = { { "add", add_xy }, { "sub", sub_xy },         { "mul", mul_xy },
               { "div", div_xy }, { "maximum", maximum_xy }, { "minimum", minimum_xy } };
    const struct vb_shape pair[][2] = {
        { VB_SHAPE(3, 4), VB_SHAPE(3, 4) },    { VB_SHAPE(3, 4), VB_SHAPE(4) },
        { VB_SHAPE(3, 4), VB_SHAPE(3, 1) },    { VB_SHAPE(1), VB_SHAPE(2, 3) },
        { VB_SHAPE(2, 1, 3), VB_SHAPE(4, 1) }, { VB_SHAPE(5, 1, 2), VB_SHAPE(5, 3, 1) }
    };

    for (size_t i = 0; i < sizeof(op) / sizeof(*op); i++)
        for (size_t k = 0; k < sizeof(pair) / sizeof(*pair); k++)
            check(op[i].name, op[i].b, pair[k][0], pair[k][1], true);
}

static struct vb_node *matmul_ta(struct net *n)
{
    return vb_matmul_t(n->g, n->x, n->y, true, false);
}
static struct vb_node *matmul_tb(struct net *n)
{
    return vb_matmul_t(n->g, n->x, n->y, false, true);
}
static struct vb_node *matmul_both(struct net *n)
{
    return vb_matmul_t(n->g, n->x, n->y, true, true);
}
static struct vb_node *normed(struct net *n)
{
    return vb_layer_norm(n->g, n->x, n->y, vb_square(n->g, n->y), 1e-3);
}

static struct vb_node *batch_normed(struct net *n)
{
    return vb_batch_norm(n->g, n->x, n->y, vb_square(n->g, n->y), NULL, NULL, 1e-3);
}
static struct vb_node *normed_as_given(struct net *n)
{
    const float mean[] = { 0.5f, -1, 0 }, variance[] = { 2, 0.5f, 1 };

    return vb_batch_norm(n->g, n->x, n->y, vb_square(n->g, n->y),
                         vb_constant(n->g, VB_F32, VB_SHAPE(3), mean),
                         vb_constant(n->g, VB_F32, VB_SHAPE(3), variance), 1e-3);
}

Test(gradients, of_products)
{
    check("batch_norm", batch_normed, VB_SHAPE(6, 3), VB_SHAPE(3), true);
    check("batch_norm", batch_normed, VB_SHAPE(2, 2, 3, 3), VB_SHAPE(3), true);
    check("batch_norm", normed_as_given, VB_SHAPE(4, 3), VB_SHAPE(3), true);
    check("matmul", matmul_xy, VB_SHAPE(3, 4), VB_SHAPE(4, 2), true);
    check("matmul of rows", matmul_xy, VB_SHAPE(2, 3, 4), VB_SHAPE(4, 2), true);
    check("matmul of rows", matmul_tb, VB_SHAPE(2, 3, 4), VB_SHAPE(2, 4), true);
    check("matmul of each", matmul_xy, VB_SHAPE(2, 3, 4), VB_SHAPE(2, 4, 2), true);
    check("matmul of each", matmul_tb, VB_SHAPE(2, 3, 4), VB_SHAPE(2, 5, 4), true);
    check("matmul of each", matmul_ta, VB_SHAPE(2, 4, 3), VB_SHAPE(2, 4, 2), true);
    check("matmul of each", matmul_both, VB_SHAPE(1, 2, 4, 3), VB_SHAPE(1, 2, 2, 4), true);
    check("layer_norm of x", normed, VB_SHAPE(3, 5), VB_SHAPE(5), true);
    check("bias_add", bias_add_xy, VB_SHAPE(3, 4), VB_SHAPE(4), true);
}

static struct vb_node *sum_0(struct net *n)
{
    return vb_reduce(n->g, "reduce_sum", n->x, 1, false);
}
static struct vb_node *sum_12(struct net *n)
{
    return vb_reduce(n->g, "reduce_sum", n->x, 6, true);
}
static struct vb_node *mean_1(struct net *n)
{
    return vb_reduce(n->g, "reduce_mean", n->x, 2, false);
}
static struct vb_node *mean_all(struct net *n)
{
    return vb_reduce(n->g, "reduce_mean", n->x, 0, false);
}
static struct vb_node *max_2(struct net *n)
{
    return vb_reduce(n->g, "reduce_max", n->x, 4, false);
}
static struct vb_node *min_02(struct net *n)
{
    return vb_reduce(n->g, "reduce_min", n->x, 5, true);
}
static struct vb_node *max_0(struct net *n)
{
    return vb_reduce(n->g, "reduce_max", n->x, 1, true);
}

Test(gradients, of_reductions)
{
    build *const b[] = { sum_0, sum_12, mean_1, mean_all, max_2, max_0, min_02 };

    for (size_t i = 0; i < sizeof(b) / sizeof(*b); i++) {
        char name[16];

        snprintf(name, sizeof(name), "reduction %zu", i);
        check(name, b[i], VB_SHAPE(3, 2, 4), none, true);
        check(name, b[i], VB_SHAPE(3, 1, 2, 1, 2, 2), none, true); /* no two nearly equal */
        check(name, b[i], VB_SHAPE(1, 1, 1), none, true);
    }
}

static struct vb_node *conv_same(struct net *n)
{
    return vb_conv2d(n->g, n->x, n->y, (struct vb_window){ .same = true, .stride = { 2, 1 } });
}
static struct vb_node *conv_placed(struct net *n)
{
    return vb_conv2d(n->g, n->x, n->y, (struct vb_window){ .before = { 1, 0 }, .after = { 0, 1 } });
}
static struct vb_node *most(struct net *n)
{
    return vb_max_pool2d(n->g, n->x, (struct vb_window){ .size = { 2, 2 } });
}
static struct vb_node *most_overlapping(struct net *n)
{
    return vb_max_pool2d(n->g, n->x,
                         (struct vb_window){ .size = { 3, 2 }, .stride = { 1, 2 }, .same = true });
}
static struct vb_node *mean_of(struct net *n)
{
    return vb_avg_pool2d(n->g, n->x,
                         (struct vb_window){ .size = { 2, 3 }, .stride = { 1, 1 }, .same = true });
}
static struct vb_node *biased(struct net *n)
{
    return vb_bias_add(n->g, n->x, n->y);
}

Test(gradients, of_windows_over_images)
{
    check("conv2d", conv_same, VB_SHAPE(2, 5, 4, 3), VB_SHAPE(3, 2, 3, 2), true);
    check("conv2d", conv_placed, VB_SHAPE(2, 3, 4, 1), VB_SHAPE(2, 3, 1, 4), true);
    check("max_pool2d", most, VB_SHAPE(2, 4, 5, 3), none, true);
    check("max_pool2d", most_overlapping, VB_SHAPE(1, 4, 5, 2), none, true);
    check("avg_pool2d", mean_of, VB_SHAPE(2, 3, 4, 2), none, true);
    check("bias_add", biased, VB_SHAPE(2, 2, 3, 4), VB_SHAPE(4), true);
}

/* A power of what is positive, to either; of what is negative, to what is raised. */
static struct vb_node *cubed(struct net *n)
{
    const float three[] = { 3, 2, -1, 0 };

    return vb_pow(n->g, n->x, vb_constant(n->g, VB_F32, VB_SHAPE(4), three));
}
/* Powers of 0 are 0 around any exponent above 0. */
static struct vb_node *raised(struct net *n)
{
    const float base[] = { 2, 0, 0.5f, 0 };

    return vb_pow(n->g, vb_constant(n->g, VB_F32, VB_SHAPE(4), base), n->x);
}

static struct vb_node *classified(struct net *n)
{
    return vb_softmax_cross_entropy(n->g, n->x,
                                    vb_reshape(n->g, n->index, 2, (const int64_t[]){ 2, 2 }));
}
static struct vb_node *attended(struct net *n)
{
    return vb_attention(n->g, n->x, n->y, vb_square(n->g, n->y), false);
}
static struct vb_node *attended_before(struct net *n)
{
    return vb_attention(n->g, n->x, n->y, vb_square(n->g, n->y), true);
}

Test(gradients, of_powers_and_losses)
{
    check("pow", raised, VB_SHAPE(3, 4), none, false);
    check("pow", pow_xy, VB_SHAPE(3, 4), VB_SHAPE(3, 4), false);
    check("pow", pow_xy, VB_SHAPE(2, 1, 3), VB_SHAPE(4, 1), false);
    check("pow", cubed, VB_SHAPE(3, 4), none, true);
    check("squared_error", squared_error_xy, VB_SHAPE(3, 4), VB_SHAPE(3, 4), true);
    check("sigmoid_cross_entropy", sigmoid_cross_entropy_xy, VB_SHAPE(3, 4), VB_SHAPE(3, 4), true);
    check("softmax_cross_entropy", classified, VB_SHAPE(2, 2, 5), none, true);
    check("attention", attended, VB_SHAPE(2, 1, 3, 4), VB_SHAPE(2, 1, 3, 4), true);
    check("attention", attended_before, VB_SHAPE(2, 3, 4), VB_SHAPE(2, 3, 4), true);
    check("attention", attended_before, VB_SHAPE(1, 2, 4), VB_SHAPE(1, 5, 4), true);
}

static struct vb_node *reshaped(struct net *n)
{
    return vb_reshape(n->g, n->x, 3, (const int64_t[]){ 2, -1, 2 });
}
static struct vb_node *transposed(struct net *n)
{
    return vb_transpose(n->g, n->x, (const int64_t[]){ 2, 0, 1 });
}
static struct vb_node *joined(struct net *n)
{
    return vb_concat(n->g, (struct vb_node *[]){ n->x, n->y, n->x }, 3, 1);
}
static struct vb_node *part(struct net *n)
{
    return vb_slice(n->g, n->x, (const int64_t[]){ 1, 0, 2 }, (const int64_t[]){ 2, -1, 1 });
}
static struct vb_node *embedded(struct net *n)
{
    return vb_gather(n->g, n->x, n->index);
}
static struct vb_node *scaled(struct net *n)
{
    return vb_scale(n->g, n->x, -2.5, 7);
}
static struct vb_node *chosen(struct net *n)
{
    return vb_select(n->g, vb_greater(n->g, n->x, n->y), vb_square(n->g, n->x),
                     vb_mul(n->g, n->x, n->y));
}
static struct vb_node *chosen_by_row(struct net *n)
{
    return vb_select(n->g, vb_greater(n->g, n->y, vb_neg(n->g, n->y)), n->x, vb_square(n->g, n->y));
}
static struct vb_node *padded(struct net *n)
{
    return vb_pad(n->g, n->x, (const int64_t[]){ 1, 0, 2 }, (const int64_t[]){ 0, 3, 1 }, 5);
}
static struct vb_node *top_2(struct net *n)
{
    return vb_pick(n->g, n->x, vb_top_k(n->g, n->x, 2));
}
static struct vb_node *picked(struct net *n)
{
    const int32_t place[] = { 1, 1, 0, 2, 0, 0 }; /* one twice, and some never */

    return vb_pick(n->g, n->x, vb_constant(n->g, VB_I32, VB_SHAPE(2, 3), place));
}
static struct vb_node *watched(struct net *n)
{
    return vb_assert(n->g, vb_square(n->g, n->x), vb_equal(n->g, n->x, n->x));
}

Test(gradients, of_what_moves_elements)
{
    check("transpose", transposed, VB_SHAPE(3, 2, 17), none, true);
    check("pad", padded, VB_SHAPE(2, 1, 3), none, true);
    check("top_k", top_2, VB_SHAPE(3, 5), none, true);
    check("pick", picked, VB_SHAPE(2, 4), none, true);
    check("assert", watched, VB_SHAPE(3, 2), none, true);
    check("select", chosen_by_row, VB_SHAPE(3, 4), VB_SHAPE(4), true);
    check("reshape", reshaped, VB_SHAPE(4, 3), none, true);
    check("transpose", transposed, VB_SHAPE(2, 3, 4), none, true);
    check("concat", joined, VB_SHAPE(2, 3, 2), VB_SHAPE(2, 1, 2), true);
    check("slice", part, VB_SHAPE(3, 2, 4), none, true);
    check("gather", embedded, VB_SHAPE(3, 5), none, true);
    check("scale", scaled, VB_SHAPE(7), none, true);
    check("select", chosen, VB_SHAPE(3, 4), VB_SHAPE(3, 4), true);
}
