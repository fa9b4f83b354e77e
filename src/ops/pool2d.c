/*
 * max_pool2d, avg_pool2d (x [rows, h, w, channels]; size_h, size_w, stride.., same or top..) -> [rows, h', w', channels]: of each
 * window the largest, or the mean of what lies inside the image. Gradients: max_pool2d_grad(dy, x; ..), of several largest to the
 * first; avg_pool2d_grad(dy; .., in_h, in_w).
 */
#include "ops/check.h"
#include "ops/ops.h"
#include "ops/window.h"

#include <limits.h>

static const char *const ints[] = { WIN_PLACE, "size_h", "size_w", NULL }, *const grad_ints[] = {
    WIN_PLACE, "size_h", "size_w", "in_h", "in_w", NULL
};

/* y: of windows over x */
static enum vb_st windows(const struct gr_node *n, const struct gr_shape *x, struct gr_shape *y,
                          struct kn_window *w, struct vb_err *err)
{
    const uint64_t size[] = { (uint64_t)n->attr.i[WIN_SIZE], (uint64_t)n->attr.i[WIN_SIZE + 1] };
    const enum vb_st st = win_infer(n, x->dim, size, size, w, err);

    *y = *x;
    if (st == VB_OK) {
        y->dim[1] = (uint64_t)w->out[0];
        y->dim[2] = (uint64_t)w->out[1];
    }
    return st;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    struct kn_window w;
    const enum vb_st st = win_image(n, 0, err);

    n->dtype = GR_F32;
    return st == VB_OK ? windows(n, &n->in[0]->shape, &n->shape, &w, err) : st;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    const size_t rows = out->shape.dim[0], channels = out->shape.dim[3];
    struct kn_window w;
    struct gr_shape y;
    struct vb_err err;

    if (windows(n, &in[0].shape, &y, &w, &err) != VB_OK)
        return;
    if (n->type == &op_max_pool2d)
        kn_max_pool(out->data, in[0].data, &w, rows, channels);
    else
        kn_avg_pool(out->data, in[0].data, &w, rows, channels);
}

/* The image whose gradient this is. */
static struct gr_shape image_of(const struct gr_node *n)
{
    struct gr_shape x = n->in[0]->shape;

    if (n->type == &op_max_pool2d_grad)
        return n->in[1]->shape;
    x.dim[1] = (uint64_t)n->attr.i[WIN_IN];
    x.dim[2] = (uint64_t)n->attr.i[WIN_IN + 1];
    return x;
}

static enum vb_st grad_infer(struct gr_node *n, struct vb_err *err)
{
    struct kn_window w;
    struct gr_shape y;
    enum vb_st st = VB_OK;

    for (uint32_t i = 0; i < n->nin && st == VB_OK; i++)
        st = win_image(n, i, err);
    if (st != VB_OK)
        return st;
    n->dtype = GR_F32;
    n->shape = image_of(n);
    st = windows(n, &n->shape, &y, &w, err);
    if (st == VB_OK && gr_elems(n->shape, 1) > INT_MAX)
        return op_misfit(n, "an image has more than 2147483647 elements", err);
    return st == VB_OK && !gr_shape_eq(y, n->in[0]->shape)
               ? op_misfit(n, "the gradient has not the shape of a result", err)
               : st;
}

static void grad_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const size_t rows = out->shape.dim[0], channels = out->shape.dim[3];
    struct kn_window w;
    struct gr_shape y;
    struct vb_err err;

    if (windows(n, &out->shape, &y, &w, &err) != VB_OK)
        return;
    if (n->type == &op_max_pool2d_grad)
        kn_max_pool_grad(out->data, in[0].data, in[1].data, &w, rows, channels);
    else
        kn_avg_pool_grad(out->data, in[0].data, &w, rows, channels);
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *in[] = { dout, n->in[0] };
    struct gr_attr a = n->attr;

    if (n->type == &op_max_pool2d)
        return gr_add(g, &op_max_pool2d_grad, NULL, in, &a, &din_out[0], err);
    a.i[WIN_IN] = (int64_t)n->in[0]->shape.dim[1];
    a.i[WIN_IN + 1] = (int64_t)n->in[0]->shape.dim[2];
    return gr_add(g, &op_avg_pool2d_grad, NULL, in, &a, &din_out[0], err);
}

#define POOL(op)                                                                                   \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .nin = 1,                                                     \
                                     .ints = ints,                                                 \
                                     .inplace_of = -1,                                             \
                                     .infer = infer,                                               \
                                     .grad = grad,                                                 \
                                     .run = run }
POOL(max_pool2d);
POOL(avg_pool2d);

const struct gr_type op_max_pool2d_grad = { .name = "max_pool2d_grad",
                                            .nin = 2,
                                            .ints = ints,
                                            .inplace_of = -1,
                                            .infer = grad_infer,
                                            .run = grad_run };
const struct gr_type op_avg_pool2d_grad = { .name = "avg_pool2d_grad",
                                            .nin = 1,
                                            .ints = grad_ints,
                                            .inplace_of = -1,
                                            .infer = grad_infer,
                                            .run = grad_run };
