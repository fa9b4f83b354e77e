/*
 * window.h - what ops with windows over images [rows, height, width, channels] share: their settings and shapes.
 *
 * stride_h, stride_w: 0 is 1 (of pools: the window's own size). Around the image lie top, bottom, left, right elements,
 * each fewer than the window has; or, with same, as many as make the result ceil(size / stride) large, half of them (rounded down) before.
 */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include "graph/graph.h"
#include "kernels/conv.h"

/* Settings of all of them; those of an op are the first so many of names. */
enum { WIN_STRIDE, WIN_SAME = 2, WIN_TOP, WIN_BOTTOM, WIN_LEFT, WIN_RIGHT };
enum { WIN_SIZE = WIN_RIGHT + 1, WIN_IN = WIN_SIZE + 2 };
#define WIN_PLACE "stride_h", "stride_w", "same", "top", "bottom", "left", "right"

/* image: [rows, height, width, channels]; size: the window's; stride: where 0 is set. VB_INVAL: err says why. */
enum vb_st win_infer(const struct gr_node *n, const uint64_t *image, const uint64_t *size,
                     const uint64_t *stride, struct kn_window *out, struct vb_err *err);
/* VB_INVAL unless input i is an image of floats with known height, width and channels. */
enum vb_st win_image(const struct gr_node *n, uint32_t i, struct vb_err *err);
/* false: some tensor of this many rows has more elements than kernels count; the run has failed. */
bool win_fits(const struct gr_node *n, const struct gr_tensor *in, const struct gr_tensor *out,
              struct gr_run *r);

#endif
