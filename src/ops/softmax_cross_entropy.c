/*
 * softmax_cross_entropy(logits [.., classes], labels i32 [..]) -> scalar, the sum over rows of -log softmax(logits)[label]. A label
 * that is not in [0, classes) makes the run fail. Gradient: softmax_cross_entropy_grad(logits, labels, dloss) = dloss
 * (softmax(logits) - one-hot(labels)).
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

static enum vb_st fit(const struct gr_node *n, struct vb_err *err)
{
    struct gr_shape rows = n->in[0]->shape;
    enum vb_st st = op_want(n, 0, GR_F32, VB_MAX(rows.rank, 1u), err);

    if (st == VB_OK && rows.dim[rows.rank - 1] == GR_BATCH)
        return op_misfit(n, "there is no last dimension of classes", err);
    rows.rank--;
    if (st == VB_OK)
        st = op_want(n, 1, GR_I32, rows.rank, err);
    return st == VB_OK && !gr_shape_eq(rows, n->in[1]->shape)
               ? op_misfit(n, "rows and labels differ", err)
               : st;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = GR_F32;
    n->shape.rank = 0;
    return fit(n, err);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    if (!need[0])
        return VB_OK;
    return gr_add(g, &op_softmax_cross_entropy_grad, NULL,
                  (struct gr_node *[]){ n->in[0], n->in[1], dout }, NULL, &din_out[0], err);
}

struct rows {
    size_t n, classes;
};

/* false: a label is not there, the run has failed. */
static bool rows_of(const struct gr_node *n, const struct gr_tensor *in, struct rows *out,
                    struct gr_run *r)
{
    out->n = gr_elems(in[1].shape, 0);
    out->classes = in[0].shape.dim[in[0].shape.rank - 1];
    return op_inside(n, in[1].data, out->n, out->classes, r);
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    struct rows k;

    if (rows_of(n, in, &k, r))
        kn_softmax_xent(out->data, in[0].data, in[1].data, k.n, k.classes);
}

const struct gr_type op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .nin = 2,
    .inplace_of = -1,
    .infer = infer,
    .grad = grad,
    .run = run,
};

static enum vb_st grad_infer(struct gr_node *n, struct vb_err *err)
{
    const enum vb_st st = fit(n, err);

    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return st == VB_OK ? op_want(n, 2, GR_F32, 0, err) : st;
}

static void grad_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    struct rows k;

    if (rows_of(n, in, &k, r))
        kn_softmax_xent_grad(out->data, in[0].data, in[1].data, *(const float *)in[2].data, k.n,
                             k.classes);
}

const struct gr_type op_softmax_cross_entropy_grad = {
    .name = "softmax_cross_entropy_grad",
    .nin = 3,
    .inplace_of = 0,
    .infer = grad_infer,
    .run = grad_run,
};
