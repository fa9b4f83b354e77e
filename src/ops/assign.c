/*
 * assign(var, x), assign_add(var, x), assign_sub(var, x) -> the variable as it is then; x has its shape. What reads the
 * variable in the same run does so before or after, in the order of nodes, unless control edges say.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <string.h>

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    enum vb_st st = op_want(n, 1, GR_F32, n->in[0]->shape.rank, err);

    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    if (st == VB_OK && n->in[0]->type != &gr_variable)
        st = op_misfit(n, "the first input is no variable", err);
    return st == VB_OK && !gr_shape_eq(n->shape, n->in[1]->shape)
               ? op_misfit(n, "shapes differ", err)
               : st;
}

static void assign_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    memmove(out->data, in[1].data, gr_elems(out->shape, 0) * sizeof(float));
}

static void assign_add_run(const struct gr_node *n, const struct gr_tensor *in,
                           struct gr_tensor *out, struct gr_run *r)
{
    const float *x = in[1].data;
    float *w = out->data;

    for (size_t i = 0, k = gr_elems(out->shape, 0); i < k; i++)
        w[i] += x[i];
}

static void assign_sub_run(const struct gr_node *n, const struct gr_tensor *in,
                           struct gr_tensor *out, struct gr_run *r)
{
    const float *x = in[1].data;
    float *w = out->data;

    for (size_t i = 0, k = gr_elems(out->shape, 0); i < k; i++)
        w[i] -= x[i];
}

#define ASSIGN(op)                                                                                 \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 2,                                                     \
                                     .stateful = true,                                             \
                                     .writes = 1,                                                  \
                                     .inplace_of = -1,                                             \
                                     .infer = infer,                                               \
                                     .run = op##_run }
ASSIGN(assign);
ASSIGN(assign_add);
ASSIGN(assign_sub);
