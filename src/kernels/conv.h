/*
 * conv.h - windows over images: convolutions (oneDNN, in conv.c alone) and pools.
 *
 * Images are [rows, height, width, channels]; weights [height, width, in, out]. An element of the result belongs to a
 * window of the input: element (y, x) to the one that begins at (y, x) * stride - before. What lies outside is 0
 * for a convolution, and not there for a pool.
 */
#ifndef KERNELS_CONV_H
#define KERNELS_CONV_H

#include "verbena/status.h"

#include <stddef.h>
#include <stdint.h>

/* Height, then width. out = (before + in + after - size) / stride + 1, before and after < size. */
struct kn_window {
    int64_t in[2], size[2], stride[2], before[2], after[2], out[2];
};

enum kn_conv_kind {
    KN_CONV, /* result [rows, out.., out_channels] of x [rows, in.., in_channels] and weights */
    KN_CONV_GRAD_X, /* result like x, of the gradient of the result and weights */
    KN_CONV_GRAD_W /* result like the weights, of x and the gradient of the result; summed over rows */
};

struct kn_conv {
    int64_t kind, rows, in_channels, out_channels;
    struct kn_window w;
};

/*
 * Made ready when first seen, and kept for the next run of the same: at most 128, then the oldest goes. The same bits each
 * time for one number of threads and one CPU type. No array has more than INT_MAX elements. VB_NOMEM, or VB_IO: the library refuses.
 * Thread: any.
 */
enum vb_st kn_conv(const struct kn_conv *c, float *result, const float *a, const float *b);
/* Threads that kn_conv may use in this process; 0, as it is before: as many as OpenMP does. */
void kn_conv_threads(unsigned n);

/* The largest of each window, a NaN before any number; the mean of what of it lies inside. */
void kn_max_pool(float *y, const float *x, const struct kn_window *w, size_t rows, size_t channels);
void kn_avg_pool(float *y, const float *x, const struct kn_window *w, size_t rows, size_t channels);
/* Of several largest the first has the gradient. Windows in order, each adds to dx. */
void kn_max_pool_grad(float *dx, const float *dy, const float *x, const struct kn_window *w,
                      size_t rows, size_t channels);
void kn_avg_pool_grad(float *dx, const float *dy, const struct kn_window *w, size_t rows,
                      size_t channels);

#endif
