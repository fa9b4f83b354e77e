#include "kernels/conv.h"

#include "base/util.h"

#include <string.h>

/* The part of a window that lies inside, in order of its elements. */
struct part {
    int64_t y0, y1, x0, x1;
};

static struct part part_of(const struct kn_window *w, int64_t y, int64_t x)
{
    const int64_t top = y * w->stride[0] - w->before[0], left = x * w->stride[1] - w->before[1];

    return (struct part){ VB_MAX(top, 0), VB_MIN(top + w->size[0], w->in[0]), VB_MAX(left, 0),
                          VB_MIN(left + w->size[1], w->in[1]) };
}

static size_t image(const int64_t *dim, size_t channels)
{
    return (size_t)dim[0] * (size_t)dim[1] * channels;
}

/* Of an image: element (y, x), its first channel. */
static size_t at(const struct kn_window *w, int64_t y, int64_t x, size_t channels)
{
    return (size_t)(y * w->in[1] + x) * channels;
}

/* b is larger than a, or a NaN and a is none */
static bool beats(float b, float a)
{
    return b > a || (b != b && a == a);
}

static void max_at(float *restrict y, const float *restrict x, const struct kn_window *w,
                   const struct part *p, size_t channels)
{
    memcpy(y, x + at(w, p->y0, p->x0, channels), channels * sizeof(*y));
    for (int64_t i = p->y0; i < p->y1; i++)
        for (int64_t j = p->x0; j < p->x1; j++) {
            const float *restrict v = x + at(w, i, j, channels);

            for (size_t c = 0; c < channels; c++)
                y[c] = beats(v[c], y[c]) ? v[c] : y[c];
        }
}

static void mean_at(float *restrict y, const float *restrict x, const struct kn_window *w,
                    const struct part *p, size_t channels)
{
    const float n = (float)((p->y1 - p->y0) * (p->x1 - p->x0));

    memset(y, 0, channels * sizeof(*y));
    for (int64_t i = p->y0; i < p->y1; i++)
        for (int64_t j = p->x0; j < p->x1; j++) {
            const float *restrict v = x + at(w, i, j, channels);

            for (size_t c = 0; c < channels; c++)
                y[c] += v[c];
        }
    for (size_t c = 0; c < channels; c++)
        y[c] /= n;
}

#define POOL(name, one)                                                                            \
    void name(float *y, const float *x, const struct kn_window *w, size_t rows, size_t channels)   \
    {                                                                                              \
        for (size_t r = 0; r < rows; r++, x += image(w->in, channels))                             \
            for (int64_t i = 0; i < w->out[0]; i++)                                                \
                for (int64_t j = 0; j < w->out[1]; j++, y += channels) {                           \
                    const struct part p = part_of(w, i, j);                                        \
                                                                                                   \
                    one(y, x, w, &p, channels);                                                    \
                }                                                                                  \
    }
POOL(kn_max_pool, max_at)
POOL(kn_avg_pool, mean_at)

enum { BLOCK = 64 };

/* The same maxima again, and where each lies; n channels, at most BLOCK. */
static void max_grad_at(float *restrict dx, const float *restrict dy, const float *restrict x,
                        const struct kn_window *w, const struct part *p, size_t channels, size_t n)
{
    float best[BLOCK];
    int32_t place[BLOCK] = { 0 }, k = 0;

    memcpy(best, x + at(w, p->y0, p->x0, channels), n * sizeof(*best));
    for (int64_t i = p->y0; i < p->y1; i++)
        for (int64_t j = p->x0; j < p->x1; j++, k++) {
            const float *restrict v = x + at(w, i, j, channels);

            for (size_t c = 0; c < n; c++) {
                const bool more = beats(v[c], best[c]);

                best[c] = more ? v[c] : best[c];
                place[c] = more ? k : place[c];
            }
        }
    k = 0;
    for (int64_t i = p->y0; i < p->y1; i++)
        for (int64_t j = p->x0; j < p->x1; j++, k++) {
            float *restrict d = dx + at(w, i, j, channels);

            for (size_t c = 0; c < n; c++)
                d[c] += place[c] == k ? dy[c] : 0.0f;
        }
}

void kn_max_pool_grad(float *dx, const float *dy, const float *x, const struct kn_window *w,
                      size_t rows, size_t channels)
{
    const size_t all = image(w->in, channels);

    for (size_t r = 0; r < rows; r++, x += all, dx += all) {
        memset(dx, 0, all * sizeof(*dx));
        for (int64_t i = 0; i < w->out[0]; i++)
            for (int64_t j = 0; j < w->out[1]; j++, dy += channels) {
                const struct part p = part_of(w, i, j);

                for (size_t c = 0; c < channels; c += BLOCK)
                    max_grad_at(dx + c, dy + c, x + c, w, &p, channels,
                                VB_MIN(channels - c, (size_t)BLOCK));
            }
    }
}

static void mean_grad_at(float *restrict dx, const float *restrict dy, const struct kn_window *w,
                         const struct part *p, size_t channels)
{
    const float n = (float)((p->y1 - p->y0) * (p->x1 - p->x0));

    for (int64_t i = p->y0; i < p->y1; i++)
        for (int64_t j = p->x0; j < p->x1; j++) {
            float *restrict d = dx + at(w, i, j, channels);

            for (size_t c = 0; c < channels; c++)
                d[c] += dy[c] / n;
        }
}

void kn_avg_pool_grad(float *dx, const float *dy, const struct kn_window *w, size_t rows,
                      size_t channels)
{
    const size_t all = image(w->in, channels);

    for (size_t r = 0; r < rows; r++, dx += all) {
        memset(dx, 0, all * sizeof(*dx));
        for (int64_t i = 0; i < w->out[0]; i++)
            for (int64_t j = 0; j < w->out[1]; j++, dy += channels) {
                const struct part p = part_of(w, i, j);

                mean_grad_at(dx, dy, w, &p, channels);
            }
    }
}
