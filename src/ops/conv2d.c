/*
 * conv2d(x [rows, h, w, in], weights [kh, kw, in, out]; stride.., same or top..) -> [rows, h', w', out]: a cross-correlation, as
 * networks use it: y[r, i, j, o] = sum over (a, b, c) of x[r, i stride - top + a, j stride - left + b, c] weights[a, b, c, o].
 *
 * Gradients: conv2d_grad_x(dy, weights; .., in_h, in_w) and conv2d_grad_w(x, dy; .., size_h, size_w), which sums over rows.
 */
#include "ops/check.h"
#include "ops/ops.h"
#include "ops/window.h"

#include <limits.h>

static const char *const ints[] = { WIN_PLACE, NULL }, *const grad_ints[] = { WIN_PLACE, "size_h",
                                                                              "size_w",  "in_h",
                                                                              "in_w",    NULL };

/* The images of x and y, and weights, as known: of each kind two are inputs. */
struct shapes {
    struct gr_shape x, w, y;
};

static enum vb_st geometry(const struct gr_node *n, const struct shapes *s, struct kn_conv *c,
                           struct vb_err *err)
{
    static const uint64_t stride[] = { 1, 1 };

    *c = (struct kn_conv){ .in_channels = (int64_t)s->x.dim[3],
                           .out_channels = (int64_t)s->w.dim[3] };
    if (s->w.dim[0] == GR_BATCH)
        return op_misfit(n, "weights have no batch", err);
    if (s->x.dim[3] != s->w.dim[2])
        return op_misfit(n, "channels of images and weights differ", err);
    return win_infer(n, s->x.dim, s->w.dim, stride, &c->w, err);
}

static struct gr_shape image(uint64_t rows, const int64_t *size, uint64_t channels)
{
    return (struct gr_shape){ 4, { rows, (uint64_t)size[0], (uint64_t)size[1], channels } };
}

static enum vb_st infer_conv(const struct gr_node *n, struct gr_shape *out, struct kn_conv *c,
                             struct vb_err *err)
{
    const struct shapes s = { .x = n->in[0]->shape, .w = n->in[1]->shape };
    const enum vb_st st = geometry(n, &s, c, err);

    if (st == VB_OK)
        *out = image(s.x.dim[0], c->w.out, s.w.dim[3]);
    return st;
}

/* dy, weights */
static enum vb_st infer_x(const struct gr_node *n, struct gr_shape *out, struct kn_conv *c,
                          struct vb_err *err)
{
    const struct gr_shape y = n->in[0]->shape, w = n->in[1]->shape;
    const int64_t *in = &n->attr.i[WIN_IN];
    const struct shapes s = { .w = w, .x = image(y.dim[0], in, w.dim[2]) };
    const enum vb_st st = geometry(n, &s, c, err);

    *out = s.x;
    return st == VB_OK && !gr_shape_eq(y, image(y.dim[0], c->w.out, w.dim[3]))
               ? op_misfit(n, "the gradient has not the shape of a result", err)
               : st;
}

/* x, dy */
static enum vb_st infer_w(const struct gr_node *n, struct gr_shape *out, struct kn_conv *c,
                          struct vb_err *err)
{
    const struct gr_shape x = n->in[0]->shape, y = n->in[1]->shape;
    const int64_t *size = &n->attr.i[WIN_SIZE];
    const struct gr_shape w = { 4, { (uint64_t)size[0], (uint64_t)size[1], x.dim[3], y.dim[3] } };
    const enum vb_st st = geometry(n, &(struct shapes){ .x = x, .w = w }, c, err);

    *out = w;
    return st == VB_OK && !gr_shape_eq(y, image(x.dim[0], c->w.out, y.dim[3]))
               ? op_misfit(n, "the gradient has not the shape of a result", err)
               : st;
}

static enum vb_st shape_of(const struct gr_node *n, struct gr_shape *out, struct kn_conv *c,
                           struct vb_err *err)
{
    if (n->type == &op_conv2d)
        return infer_conv(n, out, c, err);
    return n->type == &op_conv2d_grad_x ? infer_x(n, out, c, err) : infer_w(n, out, c, err);
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    struct kn_conv c;
    enum vb_st st = win_image(n, 0, err);

    if (st == VB_OK)
        st = win_image(n, 1, err);
    n->dtype = GR_F32;
    if (st == VB_OK)
        st = shape_of(n, &n->shape, &c, err);
    return st == VB_OK && gr_elems(n->shape, 1) > INT_MAX
               ? op_misfit(n, "the result has more than 2147483647 elements", err)
               : st;
}

static void run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r)
{
    struct gr_shape shape;
    struct kn_conv c;
    struct vb_err err;

    if (!win_fits(n, in, out, r) || shape_of(n, &shape, &c, &err) != VB_OK)
        return;
    c.kind = n->type == &op_conv2d          ? KN_CONV
             : n->type == &op_conv2d_grad_x ? KN_CONV_GRAD_X
                                            : KN_CONV_GRAD_W;
    c.rows = (int64_t)in[0].shape.dim[0];
    const enum vb_st st = kn_conv(&c, out->data, in[0].data, in[1].data);

    if (st != VB_OK)
        op_fail(n, r, st == VB_NOMEM ? vb_st_str(st) : "oneDNN does not compute it");
}

static enum vb_st grad(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err)
{
    struct gr_node *x = n->in[0], *w = n->in[1];
    struct gr_attr a = n->attr;
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2; i++) {
        a.i[WIN_SIZE + i] = (int64_t)w->shape.dim[i];
        a.i[WIN_IN + i] = (int64_t)x->shape.dim[1 + i];
    }
    if (need[0])
        st = gr_add(g, &op_conv2d_grad_x, NULL, (struct gr_node *[]){ dout, w }, &a, &din_out[0],
                    err);
    if (st == VB_OK && need[1])
        st = gr_add(g, &op_conv2d_grad_w, NULL, (struct gr_node *[]){ x, dout }, &a, &din_out[1],
                    err);
    return st;
}

const struct gr_type op_conv2d = { .name = "conv2d",
                                   .nin = 2,
                                   .ints = ints,
                                   .inplace_of = -1,
                                   .infer = infer,
                                   .grad = grad,
                                   .run = run };
#define OF_GRADIENT(op)                                                                            \
    const struct gr_type op_##op = {                                                               \
        .name = #op, .nin = 2, .ints = grad_ints, .inplace_of = -1, .infer = infer, .run = run     \
    }
OF_GRADIENT(conv2d_grad_x);
OF_GRADIENT(conv2d_grad_w);
