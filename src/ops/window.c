#include "ops/window.h"

#include "ops/check.h"

#include <limits.h>

enum vb_st win_image(const struct gr_node *n, uint32_t i, struct vb_err *err)
{
    const struct gr_shape *s = &n->in[i]->shape;
    enum vb_st st = op_want(n, i, GR_F32, 4, err);

    return st == VB_OK && gr_elems(*s, 1) > INT_MAX
               ? op_misfit(n, "an image has more than 2147483647 elements", err)
               : st;
}

/* Height (i = 0) or width; what is known of it is below INT_MAX. */
static enum vb_st one(const struct gr_node *n, int i, struct kn_window *w, struct vb_err *err)
{
    const int64_t *a = n->attr.i;

    if (w->stride[i] < 0 || w->stride[i] > INT_MAX)
        return op_misfit(n, "a stride is not in [0, 2147483647]", err);
    if (a[WIN_SAME] != 0 && (a[WIN_TOP + 2 * i] != 0 || a[WIN_BOTTOM + 2 * i] != 0))
        return op_misfit(n, "same says how much lies around; top, bottom, left and right do too",
                         err);
    if (a[WIN_SAME] != 0) {
        const int64_t out = (w->in[i] + w->stride[i] - 1) / w->stride[i];
        const int64_t need = (out - 1) * w->stride[i] + w->size[i] - w->in[i];

        w->before[i] = VB_MAX(need, 0) / 2;
        w->after[i] = VB_MAX(need, 0) - w->before[i];
    } else {
        w->before[i] = a[WIN_TOP + 2 * i];
        w->after[i] = a[WIN_BOTTOM + 2 * i];
    }
    if (w->before[i] < 0 || w->after[i] < 0 || w->before[i] >= w->size[i] ||
        w->after[i] >= w->size[i])
        return op_misfit(n, "what lies around is not in [0, size of the window)", err);
    if (w->before[i] + w->in[i] + w->after[i] < w->size[i])
        return op_misfit(n, "the window is larger than what it moves over", err);
    w->out[i] = (w->before[i] + w->in[i] + w->after[i] - w->size[i]) / w->stride[i] + 1;
    return VB_OK;
}

enum vb_st win_infer(const struct gr_node *n, const uint64_t *image, const uint64_t *size,
                     const uint64_t *stride, struct kn_window *out, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    for (int i = 0; i < 2 && st == VB_OK; i++) {
        const int64_t own = n->attr.i[WIN_STRIDE + i];

        if (image[1 + i] == 0 || image[1 + i] > INT_MAX || size[i] == 0 || size[i] > INT_MAX)
            return op_misfit(n, "image and window are not in [1, 2147483647]", err);
        out->in[i] = (int64_t)image[1 + i];
        out->size[i] = (int64_t)size[i];
        out->stride[i] = own != 0 ? own : (int64_t)stride[i];
        st = one(n, i, out, err);
    }
    return st;
}

bool win_fits(const struct gr_node *n, const struct gr_tensor *in, const struct gr_tensor *out,
              struct gr_run *r)
{
    uint64_t most = gr_elems(out->shape, 0);

    for (uint32_t i = 0; i < n->nin; i++)
        most = VB_MAX(most, gr_elems(in[i].shape, 0));
    if (most > INT_MAX)
        op_fail(n, r, "there are more than 2147483647 elements");
    return most <= INT_MAX;
}
