/* What does not fit is refused when a node is made, in one line with all shapes. */
#include "ops/ops.h"

#include <criterion/criterion.h>
#include <string.h>

enum { B = 0 }; /* GR_BATCH in the shapes below */

struct bad {
    const char *op;
    const struct gr_node *in[3];
    struct {
        const char *name;
        int64_t value;
    } attr;
    const char *why;
};
#define NONE                                                                                       \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

static struct gr_node *leaf(struct graph *g, const char *name, enum gr_dtype type, uint32_t rank,
                            uint64_t a, uint64_t b, uint64_t c)
{
    struct gr_node *n = NULL;
    struct vb_err err;

    cr_assert_eq(gr_add_placeholder(g, name, type,
                                    (struct gr_shape){ rank, { a == B ? GR_BATCH : a, b, c, 2 } },
                                    &n, &err),
                 VB_OK);
    return n;
}

static struct gr_attr attr_of(const struct gr_type *t, const struct bad *bad)
{
    struct gr_attr a = { .i = { 0 } };
    int k = 0;

    if (bad->attr.name == NULL)
        return a;
    while (strcmp(t->ints[k], bad->attr.name) != 0)
        k++;
    a.i[k] = bad->attr.value;
    return a;
}

static void check(struct graph *g, const struct bad *bad)
{
    const struct gr_type *t = op_find(bad->op);
    const struct gr_attr a = attr_of(t, bad);
    const uint32_t count = gr_count(g);
    struct gr_node *n = NULL;
    struct vb_err err = { "" };
    uint32_t nin = 0;

    while (nin < 3 && bad->in[nin] != NULL)
        nin++;
    cr_assert_eq(
        gr_add_n(g, t, NULL, (struct gr_node *const *)(const void *)bad->in, nin, &a, &n, &err),
        VB_INVAL);
    cr_assert_str_eq(err.text, bad->why);
    cr_assert_eq(gr_count(g), count);
}

Test(misfits, are_one_line_with_the_shapes)
{
    struct graph *g = NULL;

    cr_assert_eq(gr_new(&g), VB_OK);
    struct gr_node *x = leaf(g, "x", GR_F32, 2, B, 6, 0), *v = leaf(g, "v", GR_F32, 1, 5, 0, 0),
                   *w = leaf(g, "w", GR_F32, 3, 2, 3, 4), *i = leaf(g, "i", GR_I32, 2, 2, 3, 0),
                   *b = leaf(g, "b", GR_BOOL, 1, 3, 0, 0), *r = leaf(g, "r", GR_F32, 1, B, 0, 0),
                   *c = leaf(g, "c", GR_F32, 3, 2, 3, 1), *p = leaf(g, "p", GR_F32, 4, B, 5, 5),
                   *k = leaf(g, "k", GR_F32, 4, 3, 3, 2),
                   *none = leaf(g, "none", GR_F32, 0, 1, 0, 0);
    const struct bad bad[] = {
        { "mul", { x, v }, NONE, "mul: shapes do not fit, [batch, 6] x [5]" },
        { "mul", { x, w }, NONE, "mul: shapes do not fit, [batch, 6] x [2, 3, 4]" },
        { "add", { i, w }, NONE, "add: input 1 is f32 where i32 is needed, [2, 3] x [2, 3, 4]" },
        { "sub", { b, b }, NONE, "sub: input 0 is bool, which it does not take, [3] x [3]" },
        { "pow", { i, i }, NONE, "pow: input 0 is i32, which it does not take, [2, 3] x [2, 3]" },
        { "logical_and",
          { x, x },
          NONE,
          "logical_and: input 0 is f32, which it does not take, [batch, 6] x [batch, 6]" },
        { "less", { i, v }, NONE, "less: input 1 is f32 where i32 is needed, [2, 3] x [5]" },
        { "select",
          { v, v, v },
          NONE,
          "select: input 0 is f32 where bool is needed, [5] x [5] x [5]" },
        { "select", { b, v, v }, NONE, "select: shapes do not fit, [3] x [5] x [5]" },
        { "argmax",
          { w },
          { "axis", 3 },
          "argmax: no such axis, or it is the batch, or too long, [2, 3, 4]" },
        { "argmax",
          { x },
          { "axis", -2 },
          "argmax: no such axis, or it is the batch, or too long, [batch, 6]" },
        { "argmax", { none }, NONE, "argmax: no such axis, or it is the batch, or too long, []" },
        { "top_k", { w }, { "k", 5 }, "top_k: k is not 1 to the last dimension, [2, 3, 4]" },
        { "top_k", { none }, { "k", 1 }, "top_k: k is not 1 to the last dimension, []" },
        { "pick",
          { w, i },
          NONE,
          "pick: input 1 has rank 2 where 3 is needed, [2, 3, 4] x [2, 3]" },
        { "pick",
          { x, i },
          NONE,
          "pick: other dimensions than the last differ, [batch, 6] x [2, 3]" },
        { "pad", { x }, { "before0", 1 }, "pad: the batch cannot be padded, [batch, 6]" },
        { "pad", { v }, { "after0", -1 }, "pad: before or after is negative or too large, [5]" },
        { "pad",
          { v },
          { "after0", INT64_MAX },
          "pad 'pad_12': [9223372036854775812] has more elements than can be counted" },
        { "concat",
          { v, v },
          { "axis", 1 },
          "concat: no such axis, or it is the batch, [5] x [5]" },
        { "concat",
          { w, x },
          NONE,
          "concat: input 1 has rank 2 where 3 is needed, [2, 3, 4] x [batch, 6]" },
        { "reshape", { v }, { "rank", 7 }, "reshape: the rank is not 0 to 6, [5]" },
        { "cast", { v }, { "type", 4 }, "cast: there is no such type, [5]" },
        { "gather", { w, v }, NONE, "gather: input 1 is f32 where i32 is needed, [2, 3, 4] x [5]" },
        { "gather",
          { none, i },
          NONE,
          "gather: the table has no rows, or the result too many dimensions, [] x [2, 3]" },
        { "one_hot",
          { i },
          { "depth", 0 },
          "one_hot: depth is not positive, or there are too many dimensions, [2, 3]" },
        { "squared_error", { v, x }, NONE, "squared_error: shapes differ, [5] x [batch, 6]" },
        { "assert", { v, v }, NONE, "assert: input 1 is f32 where bool is needed, [5] x [5]" },
        { "print", { v }, { "most", 65 }, "print: most is not 0 to 64, [5]" },
        { "spread",
          { v, w },
          { "axes", 4 },
          "spread: the second is not reduced to the shape of the first, [5] x [2, 3, 4]" },
        { "sum_to",
          { v, w },
          NONE,
          "sum_to: the second cannot be repeated to the first, [5] x [2, 3, 4]" },
        { "pick_grad",
          { v, i, w },
          NONE,
          "pick_grad: input 1 has rank 2 where 3 is needed, [5] x [2, 3] x [2, 3, 4]" },
        { "gather_grad",
          { v, i, w },
          NONE,
          "gather_grad: the first has another shape than what was gathered, [5] x [2, 3] x [2, 3, "
          "4]" },
        { "concat", { v, r }, NONE, "concat: the axis is a batch, [5] x [batch]" },
        { "add",
          { c, r },
          NONE,
          "add: the batch would not be the first dimension of the result, [2, 3, 1] x [batch]" },
        { "conv2d",
          { p, w },
          NONE,
          "conv2d: input 1 has rank 3 where 4 is needed, [batch, 5, 5, 2] x [2, 3, 4]" },
        { "conv2d",
          { p, leaf(g, "k3", GR_F32, 4, 3, 3, 3) },
          NONE,
          "conv2d: channels of images and weights differ, [batch, 5, 5, 2] x [3, 3, 3, 2]" },
        { "conv2d",
          { p, k },
          { "top", 3 },
          "conv2d: what lies around is not in [0, size of the window), [batch, 5, 5, 2] x [3, 3, "
          "2, 2]" },
        { "conv2d",
          { p, k },
          { "stride_w", -1 },
          "conv2d: a stride is not in [0, 2147483647], [batch, 5, 5, 2] x [3, 3, 2, 2]" },
        { "conv2d",
          { p, leaf(g, "k6", GR_F32, 4, 6, 1, 2) },
          NONE,
          "conv2d: the window is larger than what it moves over, [batch, 5, 5, 2] x [6, 1, 2, 2]" },
        { "max_pool2d",
          { p },
          NONE,
          "max_pool2d: image and window are not in [1, 2147483647], [batch, 5, 5, 2]" },
        { "bias_add", { v, v }, NONE, "bias_add: input 0 has rank 1 where 2 is needed, [5] x [5]" },
        { "bias_add", { p, v }, NONE, "bias_add: columns and bias differ, [batch, 5, 5, 2] x [5]" },
        { "matmul", { w, x }, NONE, "matmul: inner sizes differ, [2, 3, 4] x [batch, 6]" },
    };

    for (size_t nth = 0; nth < VB_ARRAY_LEN(bad); nth++)
        check(g, &bad[nth]);
    gr_free(g);
}
