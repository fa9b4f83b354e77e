/* Convolutions against plain loops in double: any geometry, the same bits again, after others, and in two threads. */
#include "kernels/conv.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMS = 20000 };

struct sizes {
    size_t x, w, y;
};

static int64_t draw(uint64_t seed, uint64_t *at, uint64_t below)
{
    return (int64_t)(vb_random_u64(seed, 3, (*at)++) % below);
}

static struct kn_conv any_conv(uint64_t seed)
{
    static const int64_t channels[] = { 1, 2, 3, 8, 16, 17, 32 };
    uint64_t at = 0;
    struct kn_conv c = { .rows = 1 + draw(seed, &at, 4),
                         .in_channels = channels[draw(seed, &at, VB_ARRAY_LEN(channels))],
                         .out_channels = channels[draw(seed, &at, VB_ARRAY_LEN(channels))] };

    for (int i = 0; i < 2; i++) {
        c.w.size[i] = 1 + draw(seed, &at, 5);
        c.w.stride[i] = 1 + draw(seed, &at, 3);
        c.w.before[i] = draw(seed, &at, (uint64_t)c.w.size[i]);
        c.w.after[i] = draw(seed, &at, (uint64_t)c.w.size[i]);
        c.w.in[i] = c.w.size[i] + draw(seed, &at, 5);
        c.w.out[i] = (c.w.before[i] + c.w.in[i] + c.w.after[i] - c.w.size[i]) / c.w.stride[i] + 1;
    }
    return c;
}

static struct sizes sizes_of(const struct kn_conv *c)
{
    const struct kn_window *w = &c->w;

    return (struct sizes){ (size_t)(c->rows * w->in[0] * w->in[1] * c->in_channels),
                           (size_t)(w->size[0] * w->size[1] * c->in_channels * c->out_channels),
                           (size_t)(c->rows * w->out[0] * w->out[1] * c->out_channels) };
}

static void fill(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        x[i] = vb_random_f32(5, stream, i) * 2.0f - 1.0f;
}

/* All products of an element of x, one of w and one of y; `to` has one of the three. */
static void plain(const struct kn_conv *c, double *to, const float *x, const float *w,
                  const float *y)
{
    const struct kn_window *k = &c->w;
    const int64_t ni = c->in_channels, no = c->out_channels;

    for (int64_t p = 0; p < c->rows * k->out[0] * k->out[1] * k->size[0] * k->size[1]; p++) {
        const int64_t b = p % k->size[1], a = p / k->size[1] % k->size[0],
                      e = p / k->size[1] / k->size[0], j = e % k->out[1],
                      i = e / k->out[1] % k->out[0], r = e / k->out[1] / k->out[0],
                      u = i * k->stride[0] - k->before[0] + a,
                      v = j * k->stride[1] - k->before[1] + b;

        if (u < 0 || v < 0 || u >= k->in[0] || v >= k->in[1])
            continue;
        for (int64_t m = 0; m < ni; m++)
            for (int64_t o = 0; o < no; o++) {
                const int64_t ax = ((r * k->in[0] + u) * k->in[1] + v) * ni + m,
                              aw = ((a * k->size[1] + b) * ni + m) * no + o, ay = e * no + o;

                if (c->kind == KN_CONV)
                    to[ay] += (double)x[ax] * (double)w[aw];
                else if (c->kind == KN_CONV_GRAD_X)
                    to[ax] += (double)y[ay] * (double)w[aw];
                else
                    to[aw] += (double)x[ax] * (double)y[ay];
            }
    }
}

struct arrays {
    float x[ELEMS], w[ELEMS], y[ELEMS], got[ELEMS + 1], again[ELEMS];
    double want[ELEMS];
};

static enum vb_st run(const struct kn_conv *c, float *result, const struct arrays *m)
{
    return c->kind == KN_CONV          ? kn_conv(c, result, m->x, m->w)
           : c->kind == KN_CONV_GRAD_X ? kn_conv(c, result, m->y, m->w)
                                       : kn_conv(c, result, m->x, m->y);
}

/* At most 4 * 9 * 9 * 32 products below 1, summed in float: 1e-6 each of a sum that is mostly below 100. */
static size_t check(const struct kn_conv *c, struct arrays *m)
{
    const struct sizes s = sizes_of(c);
    const size_t n = c->kind == KN_CONV ? s.y : c->kind == KN_CONV_GRAD_X ? s.x : s.w;

    fill(m->x, s.x, 1);
    fill(m->w, s.w, 2);
    fill(m->y, s.y, 3);
    memset(m->want, 0, n * sizeof(double));
    for (size_t i = 0; i <= n; i++)
        m->got[i] = NAN;
    plain(c, m->want, m->x, m->w, m->y);
    cr_assert_eq(run(c, m->got, m), VB_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_float_eq(m->got[i], m->want[i], 1e-4, "kind %d at %zu: %g, not %g", (int)c->kind,
                           i, (double)m->got[i], m->want[i]);
    cr_assert(isnan(m->got[n]));
    return n;
}

Test(conv, is_what_plain_loops_give_and_the_same_again_when_others_came_between)
{
    struct arrays *m = calloc(1, sizeof(*m));
    struct kn_conv first = any_conv(0);
    size_t n;

    for (uint64_t i = 0; i < 100; i++)
        for (int kind = KN_CONV; kind <= KN_CONV_GRAD_W; kind++) {
            struct kn_conv c = any_conv(i);

            c.kind = kind;
            if (sizes_of(&c).w < ELEMS && sizes_of(&c).x < ELEMS && sizes_of(&c).y < ELEMS)
                check(&c, m);
        }
    n = check(&first, m); /* 128 are kept */
    memcpy(m->again, m->got, n * sizeof(float));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(run(&first, m->got, m), VB_OK);
        cr_assert_eq(memcmp(m->again, m->got, n * sizeof(float)), 0);
    }
    free(m);
}

Test(conv, of_no_rows_gives_weights_no_gradient)
{
    struct kn_conv c = any_conv(1);
    float w[ELEMS];
    const size_t n = sizes_of(&c).w;

    cr_assert_lt(n, ELEMS);
    fill(w, n, 1);
    c.rows = 0;
    c.kind = KN_CONV_GRAD_W;
    cr_assert_eq(kn_conv(&c, w, NULL, NULL), VB_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(w[i], 0.0f);
    c.kind = KN_CONV;
    cr_assert_eq(kn_conv(&c, NULL, NULL, w), VB_OK);
    c.kind = KN_CONV_GRAD_X;
    cr_assert_eq(kn_conv(&c, NULL, NULL, w), VB_OK);
}

static void *many(void *arg)
{
    struct arrays *m = arg;
    const struct kn_conv c = { .rows = 2,
                               .in_channels = 16,
                               .out_channels = 16,
                               .w = {
                                   { 8, 8 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 8, 8 } } };
    const size_t bytes = sizes_of(&c).y * sizeof(float);

    if (run(&c, m->got, m) != VB_OK)
        return NULL;
    for (int i = 0; i < 200; i++)
        if (run(&c, m->again, m) != VB_OK || memcmp(m->got, m->again, bytes) != 0)
            return NULL;
    return m;
}

Test(conv, of_one_shape_runs_in_two_threads_at_once)
{
    struct arrays *m[2];
    pthread_t t[2];

    for (int i = 0; i < 2; i++) {
        m[i] = calloc(1, sizeof(*m[i]));
        fill(m[i]->x, ELEMS, (uint64_t)i);
        fill(m[i]->w, ELEMS, 7);
        cr_assert_eq(pthread_create(&t[i], NULL, many, m[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        void *ok = NULL;

        pthread_join(t[i], &ok);
        cr_assert_not_null(ok);
    }
    cr_assert_neq(memcmp(m[0]->got, m[1]->got, 64), 0);
    free(m[0]);
    free(m[1]);
}

Test(conv, has_the_same_bits_each_time_for_a_number_of_threads)
{
    struct arrays *m = calloc(1, sizeof(*m));

    for (unsigned threads = 1; threads <= 3; threads++)
        for (int kind = KN_CONV; kind <= KN_CONV_GRAD_W; kind++) {
            struct kn_conv c = any_conv(7);
            size_t n;

            c.kind = kind;
            kn_conv_threads(threads);
            n = check(&c, m);
            for (int i = 0; i < 10; i++) {
                cr_assert_eq(run(&c, m->again, m), VB_OK);
                cr_assert_eq(memcmp(m->again, m->got, n * sizeof(float)), 0);
            }
        }
    free(m);
}
