/* Building and differentiating graphs, with toy ops of this file: the graph itself knows none. */
#include "graph/graph.h"

#include <criterion/criterion.h>
#include <string.h>

static enum vb_st same_shapes(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    if (n->nin > 0)
        n->shape = n->in[0]->shape;
    if (n->nin > 1 && !gr_shape_eq(n->in[0]->shape, n->in[1]->shape)) {
        char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];

        gr_shape_str(n->in[0]->shape, a, sizeof(a));
        gr_shape_str(n->in[1]->shape, b, sizeof(b));
        vb_err_set(err, "%s: %s and %s", n->type->name, a, b);
        return VB_INVAL;
    }
    return VB_OK;
}

static const struct gr_type t_sum = { .name = "sum", .nin = 2, .infer = same_shapes };
static const struct gr_type t_flat = { .name = "flat", .nin = 1, .infer = same_shapes };

/* mul: d(a * b) = (dout * b, dout * a) */
static enum vb_st mul_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                           const bool *need, struct gr_node **din, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++)
        if (need[i])
            st = gr_add(g, n->type, NULL, (struct gr_node *[]){ dout, n->in[1 - i] }, NULL, &din[i],
                        err);
    return st;
}
static const struct gr_type t_mul = {
    .name = "mul", .nin = 2, .infer = same_shapes, .grad = mul_grad
};

static const struct gr_shape scalar = { .rank = 0 };

static struct graph *fresh(void)
{
    struct graph *g = NULL;

    cr_assert_eq(gr_new(&g), VB_OK);
    return g;
}

static struct gr_node *variable(struct graph *g, const char *name, struct gr_shape shape)
{
    struct gr_node *n = NULL;
    struct vb_err err = { "" };

    cr_assert_eq(gr_add_variable(g, name, shape, &n, &err), VB_OK, "%s", err.text);
    return n;
}

static struct gr_node *op2(struct graph *g, const struct gr_type *type, struct gr_node *a,
                           struct gr_node *b)
{
    struct gr_node *n = NULL;
    struct vb_err err = { "" };

    cr_assert_eq(gr_add(g, type, NULL, (struct gr_node *[]){ a, b }, NULL, &n, &err), VB_OK, "%s",
                 err.text);
    return n;
}

/* What a scalar graph computes when every variable holds its id + 2. */
static double eval(const struct gr_node *n)
{
    if (n->type == &t_sum)
        return eval(n->in[0]) + eval(n->in[1]);
    if (n->type == &t_mul)
        return eval(n->in[0]) * eval(n->in[1]);
    return n->type == &gr_constant ? (double)*(const float *)n->data : n->id + 2.0;
}

Test(graph, shapes_print_compare_and_count)
{
    const struct gr_shape a = { 2, { GR_BATCH, 784 } }, b = { 2, { GR_BATCH, 785 } };
    const struct gr_shape big = { 2, { UINT64_MAX / 2, 3 } },
                          none = { 3, { UINT64_MAX / 2, 3, 0 } };
    const struct gr_shape widest = {
        4, { UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX - 1 }
    };
    char text[GR_SHAPE_TEXT];

    gr_shape_str(a, text, sizeof(text));
    cr_assert_str_eq(text, "[batch, 784]");
    gr_shape_str(scalar, text, sizeof(text));
    cr_assert_str_eq(text, "[]");
    gr_shape_str(widest, text, sizeof(text));
    cr_assert_eq(text[strlen(text) - 1], ']');
    gr_shape_str(a, text, 4);
    cr_assert_str_eq(text, "[ba");
    cr_assert(gr_shape_eq(a, a) && !gr_shape_eq(a, b) && !gr_shape_eq(a, scalar));
    cr_assert_eq(gr_elems(a, 3), 2352);
    cr_assert_eq(gr_elems(a, 0), 0);
    cr_assert_eq(gr_elems(scalar, 9), 1);
    cr_assert_eq(gr_elems(big, 1), UINT64_MAX);
    cr_assert_eq(gr_elems(none, 1), 0);
}

Test(graph, names_are_unique_found_and_bounded)
{
    struct graph *g = fresh();
    struct gr_node *w = variable(g, "w", scalar), *n = NULL;
    char longest[GR_NAME_MAX + 1];
    struct vb_err err;

    memset(longest, 'x', sizeof(longest));
    longest[GR_NAME_MAX] = '\0';
    cr_assert_eq(gr_find(g, "w"), w);
    cr_assert_null(gr_find(g, "nobody"));
    cr_assert_eq(gr_add_placeholder(g, "w", GR_F32, scalar, &n, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "placeholder 'w': the graph has a variable of this name already");
    cr_assert_eq(gr_add_variable(g, longest, scalar, &n, &err), VB_INVAL);
    cr_assert_eq(gr_add_variable(g, "", scalar, &n, &err), VB_INVAL);
    variable(g, longest + 1, scalar);
    variable(g, "sum_3", scalar); /* the name that the next node would get */
    n = op2(g, &t_sum, w, w);
    cr_assert_eq(n->id, 3);
    cr_assert_str_neq(n->name, "sum_3");
    cr_assert_eq(gr_find(g, n->name), n);
    cr_assert_eq(gr_count(g), 4);
    gr_free(g);
    gr_free(NULL);
}

Test(graph, leaves_refuse_impossible_shapes)
{
    const struct gr_shape zero = { 2, { 4, 0 } }, inner = { 2, { 4, GR_BATCH } };
    const struct gr_shape batch = { 1, { GR_BATCH } },
                          huge = { 2, { 1u << 31, UINT64_C(1) << 31 } };
    const struct gr_shape deep = { GR_RANK_MAX + 1, { 1, 1, 1, 1 } };
    struct graph *g = fresh();
    struct gr_node *n = NULL;
    struct vb_err err;

    cr_assert_eq(gr_add_variable(g, "a", zero, &n, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "variable 'a': dimension 1 of [4, 0] must be a number from 1");
    cr_assert_eq(gr_add_placeholder(g, "b", GR_F32, inner, &n, &err), VB_INVAL);
    cr_assert_eq(gr_add_variable(g, "c", batch, &n, &err), VB_INVAL);
    cr_assert_eq(gr_add_variable(g, "d", huge, &n, &err), VB_INVAL);
    cr_assert_eq(gr_add_variable(g, "e", deep, &n, &err), VB_INVAL);
    cr_assert_eq(gr_count(g), 0);
    cr_assert_eq(gr_add_placeholder(g, "f", GR_I32, batch, &n, &err), VB_OK);
    cr_assert_eq(n->dtype, GR_I32);
    gr_free(g);
}

Test(graph, a_misfit_leaves_the_graph_as_it_was_and_names_both_shapes)
{
    struct graph *g = fresh();
    struct gr_node *a = variable(g, "a", (struct gr_shape){ 1, { 3 } });
    struct gr_node *b = variable(g, "b", (struct gr_shape){ 2, { 3, 4 } }), *n = NULL;
    struct vb_err err;

    cr_assert_eq(gr_add(g, &t_sum, "s", (struct gr_node *[]){ a, b }, NULL, &n, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "sum: [3] and [3, 4]");
    cr_assert_eq(gr_count(g), 2);
    cr_assert_null(gr_find(g, "s"));
    gr_free(g);
}

Test(graph, pruning_keeps_what_the_fetches_need)
{
    struct graph *g = fresh();
    struct gr_node *a = variable(g, "a", scalar), *b = variable(g, "b", scalar);
    struct gr_node *ab = op2(g, &t_mul, a, b), *aa = op2(g, &t_mul, a, a);
    struct gr_node *top = op2(g, &t_sum, ab, aa);
    bool need[5];

    gr_prune(g, &aa, 1, need);
    cr_assert(need[a->id] && need[aa->id] && !need[b->id] && !need[ab->id] && !need[top->id]);
    gr_prune(g, (struct gr_node *[]){ aa, b }, 2, need);
    cr_assert(need[a->id] && need[aa->id] && need[b->id] && !need[ab->id] && !need[top->id]);
    gr_prune(g, &top, 1, need);
    for (int i = 0; i < 5; i++)
        cr_assert(need[i]);
    gr_prune(g, NULL, 0, need);
    for (int i = 0; i < 5; i++)
        cr_assert_not(need[i]);
    gr_free(g);
}

Test(graph, a_variable_used_twice_gets_the_sum_of_both_ways)
{
    struct graph *g = fresh();
    struct gr_node *x = variable(g, "x", scalar), *y = variable(g, "y", scalar), *d[2];
    struct gr_node *left = op2(g, &t_mul, x, y), *right = op2(g, &t_mul, x, x);
    struct gr_node *loss = op2(g, &t_mul, left, right); /* x^3 y */
    const uint32_t before = gr_count(g);
    struct vb_err err = { "" };
    unsigned sums = 0;

    cr_assert_eq(gr_gradients(g, &t_sum, loss, (struct gr_node *[]){ x, y }, 2, d, &err), VB_OK,
                 "%s", err.text);
    cr_assert_eq(eval(d[0]), 3 * eval(x) * eval(x) * eval(y));
    cr_assert_eq(eval(d[1]), eval(x) * eval(x) * eval(x));
    for (uint32_t i = before; i < gr_count(g); i++) {
        sums += gr_at(g, i)->type == &t_sum;
        for (uint32_t k = 0; k < gr_at(g, i)->nin; k++)
            cr_assert_lt(gr_at(g, i)->in[k]->id, i, "numbers are not a topological order");
    }
    cr_assert_eq(sums, 2); /* x is read three times */
    gr_free(g);
}

Test(graph, contributions_are_added_last_user_first)
{
    struct graph *g = fresh();
    struct gr_node *x = variable(g, "x", scalar), *a = variable(g, "a", scalar);
    struct gr_node *b = variable(g, "b", scalar), *d = NULL;
    struct gr_node *first = op2(g, &t_mul, x, a), *second = op2(g, &t_mul, x, b);
    struct gr_node *loss = op2(g, &t_mul, first, second);
    struct vb_err err;

    cr_assert_eq(gr_gradients(g, &t_sum, loss, &x, 1, &d, &err), VB_OK);
    cr_assert_eq(d->type, &t_sum);
    cr_assert_eq(d->in[0]->in[1], b);
    cr_assert_eq(d->in[1]->in[1], a);
    gr_free(g);
}

Test(graph, only_what_leads_to_wanted_variables_is_differentiated)
{
    struct graph *g = fresh();
    struct gr_node *x = variable(g, "x", scalar), *y = variable(g, "y", scalar), *d = NULL;
    struct gr_node *flat = NULL, *alone = variable(g, "alone", scalar), *loss;
    struct vb_err err;

    cr_assert_eq(gr_add(g, &t_flat, "flat", &y, NULL, &flat, &err), VB_OK);
    loss = op2(g, &t_mul, x, flat);
    cr_assert_eq(gr_gradients(g, &t_sum, loss, &x, 1, &d, &err), VB_OK, "flat is beside it");
    cr_assert_eq(eval(d), eval(flat));
    cr_assert_eq(gr_gradients(g, &t_sum, loss, &y, 1, &d, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "'flat': op flat has no gradient, keep it off the way from loss to "
                               "variables");
    cr_assert_eq(gr_gradients(g, &t_sum, loss, &alone, 1, &d, &err), VB_INVAL);
    cr_assert_not_null(strstr(err.text, "does not depend on variable 'alone'"));
    gr_free(g);
}

Test(graph, a_loss_is_a_scalar)
{
    struct graph *g = fresh();
    struct gr_node *x = variable(g, "x", (struct gr_shape){ 1, { 3 } }), *d = NULL;
    struct gr_node *s = variable(g, "s", scalar);
    struct vb_err err;

    cr_assert_eq(gr_gradients(g, &t_sum, x, &x, 1, &d, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "loss 'x' has shape [3], it must be a float of shape []");
    cr_assert_eq(gr_gradients(g, &t_sum, s, &s, 1, &d, &err), VB_OK);
    cr_assert_eq(eval(d), 1.0);
    gr_free(g);
}

static void twice(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                  struct gr_run *r)
{
    for (uint64_t i = 0; i < gr_elems(out->shape, 0); i++)
        ((float *)out->data)[i] = 2 * ((const float *)in[0].data)[i];
}
static const struct gr_type t_twice = {
    .name = "twice", .nin = 1, .infer = same_shapes, .run = twice
};
static const struct gr_type t_show = {
    .name = "show", .nin = 1, .infer = same_shapes, .run = twice, .stateful = true
};

static struct gr_node *on(struct graph *g, const struct gr_type *t, struct gr_node *in)
{
    struct gr_node *n = NULL;
    struct vb_err err = { "" };

    cr_assert_eq(gr_add(g, t, NULL, &in, NULL, &n, &err), VB_OK, "%s", err.text);
    return n;
}

Test(simplify, what_is_known_or_the_same_is_there_once)
{
    struct graph *g = fresh(), *out = NULL;
    const float three = 3;
    struct gr_node *x = variable(g, "x", scalar), *c[2], *map[32];
    struct vb_err err = { "" };

    cr_assert_eq(gr_add_constant(g, NULL, GR_F32, scalar, &three, &c[0], &err), VB_OK);
    cr_assert_eq(gr_add_constant(g, NULL, GR_F32, scalar, &three, &c[1], &err), VB_OK);
    struct gr_node *fetch[] = { on(g, &t_twice, on(g, &t_twice, c[0])),
                                on(g, &t_twice, c[1]),
                                on(g, &t_twice, x),
                                on(g, &t_twice, x),
                                on(g, &t_show, x),
                                on(g, &t_show, x) };

    (void)on(g, &t_twice, x); /* nobody wants it */
    const struct gr_simplify p = { .fetch = fetch, .nfetch = 6 };

    cr_assert_eq(gr_simplify(g, &p, &out, map, &err), VB_OK, "%s", err.text);
    cr_assert(map[fetch[0]->id]->type == &gr_constant);
    cr_assert_eq(*(float *)map[fetch[0]->id]->data, 12);
    cr_assert_eq(*(float *)map[fetch[1]->id]->data, 6);
    cr_assert_eq(map[c[0]->id], map[c[1]->id]);
    cr_assert_eq(map[fetch[2]->id], map[fetch[3]->id]);
    cr_assert_neq(map[fetch[4]->id], map[fetch[5]->id]); /* it shows something, twice */
    cr_assert_eq(gr_count(out), 7);                      /* x, 3, 6, 12, 2 x, and two that show */
    gr_free(out);
    gr_free(g);
}

Test(simplify, what_is_fed_needs_nothing_and_what_is_not_is_named)
{
    struct graph *g = fresh(), *out = NULL;
    struct vb_err err = { "" };
    struct gr_node *x = NULL, *map[8];

    cr_assert_eq(gr_add_placeholder(g, "x", GR_F32, scalar, &x, &err), VB_OK);
    struct gr_node *a = on(g, &t_twice, x), *b = on(g, &t_twice, a);

    cr_assert_eq(gr_simplify(g, &(struct gr_simplify){ .fetch = &b, .nfetch = 1 }, &out, map, &err),
                 VB_INVAL);
    cr_assert_str_eq(err.text, "placeholder 'x' is needed and not fed");
    cr_assert_eq(gr_simplify(g, &(struct gr_simplify){ &b, &a, 1, 1 }, &out, map, &err), VB_OK);
    cr_assert_eq(gr_count(out), 2);
    cr_assert(map[a->id]->type == &gr_placeholder && map[x->id] == NULL);
    gr_free(out);
    gr_free(g);
}

Test(simplify, order_is_kept_where_it_was_asked_for)
{
    struct graph *g = fresh(), *out = NULL;
    struct vb_err err = { "" };
    struct gr_node *x = variable(g, "x", scalar), *first = on(g, &t_show, x), *map[8],
                   *then = on(g, &t_twice, x);

    cr_assert_eq(gr_after(first, then, &err), VB_INVAL);
    cr_assert_eq(gr_after(then, first, &err), VB_OK);
    cr_assert_eq(
        gr_simplify(g, &(struct gr_simplify){ .fetch = &then, .nfetch = 1 }, &out, map, &err),
        VB_OK);
    cr_assert_eq(gr_count(out), 3);
    cr_assert_eq(map[then->id]->nctl, 1);
    cr_assert_eq(map[then->id]->ctl[0], map[first->id]);
    gr_free(out);
    gr_free(g);
}
