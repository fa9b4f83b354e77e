/* The one sum and the optimizers: every table against formulas written here on their own. */
#include "tables.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_MAX = 4200, G_MAX = 17 };
#define NORM 0.75f
#define TRUST 1.25f
static const size_t sizes[] = { 0,  1,   7,   8,   9,   31,  32,  33,   63,   64,
                                65, 255, 256, 257, 511, 512, 513, 1025, 4096, 4099 };
static const struct kn_opt opts[] = {
    { .kind = KN_SGD, .rate = 0.1f },
    { .kind = KN_MOMENTUM, .rate = 0.05f, .beta1 = 0.9f },
    { .kind = KN_ADAM, .rate = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f },
    { .kind = KN_NESTEROV, .rate = 0.05f, .beta1 = 0.9f },
    { .kind = KN_ADAGRAD, .rate = 0.01f, .eps = 1e-10f },
    { .kind = KN_RMSPROP, .rate = 0.01f, .beta2 = 0.99f, .eps = 1e-8f },
    { .kind = KN_ADAMW,
      .rate = 0.001f,
      .beta1 = 0.9f,
      .beta2 = 0.99f,
      .eps = 1e-8f,
      .weight_decay = 0.01f },
    { .kind = KN_FTRL, .rate = 0.1f, .beta = 1.0f, .l1 = 0.001f, .l2 = 0.1f },
    { .kind = KN_LAMB,
      .rate = 0.001f,
      .beta1 = 0.9f,
      .beta2 = 0.99f,
      .eps = 1e-6f,
      .weight_decay = 0.01f },
    { .kind = KN_SUM },
};
/* What only changes the gradient. */
static const struct kn_opt more[] = {
    { .kind = KN_SGD, .rate = 0.1f, .weight_decay = 0.02f },
    { .kind = KN_MOMENTUM, .rate = 0.05f, .beta1 = 0.9f, .clip_value = 0.25f },
    { .kind = KN_ADAM,
      .rate = 0.001f,
      .beta1 = 0.9f,
      .beta2 = 0.999f,
      .eps = 1e-8f,
      .weight_decay = 0.1f,
      .clip_value = 0.25f },
    { .kind = KN_FTRL, .rate = 0.1f, .beta = 1.0f, .l1 = 0.001f, .weight_decay = 0.5f },
    { .kind = KN_ADAMW,
      .rate = 0.001f,
      .beta1 = 0.9f,
      .beta2 = 0.99f,
      .eps = 1e-8f,
      .weight_decay = 0.01f,
      .clip_value = 0.125f },
    { .kind = KN_SUM, .weight_decay = 0.5f, .clip_value = 0.5f },
};

struct state {
    float w[N_MAX], m[N_MAX], v[N_MAX];
};
static struct state got, want;
static float gradient[KN_SUM_MAX][N_MAX / 4]; /* long enough for G_MAX of N_MAX too */

static void fill(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (vb_random_f32(7, stream, i) - 0.5f) *
               exp2f((float)(vb_random_u64(8, stream, i) % 24) - 12.0f);
}

/* The tree, level by level, as kn.h words it. */
static float tree(const float *leaf, size_t n)
{
    float node[KN_SUM_MAX];

    memcpy(node, leaf, n * sizeof(*leaf));
    while (n > 1) {
        for (size_t i = 0; i + 1 < n; i += 2)
            node[i / 2] = node[i] + node[i + 1];
        if (n % 2 == 1)
            node[n / 2] = node[n - 1];
        n = (n + 1) / 2;
    }
    return node[0];
}

static float adam_direction(const struct kn_opt *o, uint64_t t, float g, float *m, float *v,
                            float factor)
{
    const float inv_c2 = (float)(1.0 / sqrt(1.0 - pow((double)o->beta2, (double)t)));

    *m = o->beta1 * *m + (1.0f - o->beta1) * g;
    *v = o->beta2 * *v + (1.0f - o->beta2) * (g * g);
    return (factor * *m) / (sqrtf(*v) * inv_c2 + o->eps);
}

static void ftrl_one(const struct kn_opt *o, float g, float *w, float *m, float *v)
{
    const float q = *m + g * g;

    *v = (*v + g) - ((sqrtf(q) - sqrtf(*m)) / o->rate) * *w;
    *m = q;
    *w = ((*v < 0.0f ? -o->l1 : o->l1) - *v) / ((o->beta + sqrtf(q)) / o->rate + o->l2);
    if (*v >= -o->l1 && *v <= o->l1)
        *w = 0.0f;
}

/* One element, from the papers. */
static void step_one(const struct kn_opt *o, uint64_t t, float g, float *w, float *m, float *v)
{
    const double c1 = 1.0 - pow((double)o->beta1, (double)t), rate = (double)o->rate;

    switch (o->kind) {
    case KN_SGD:
        *w = *w - o->rate * g;
        return;
    case KN_MOMENTUM:
        *m = o->beta1 * *m + g;
        *w = *w - o->rate * *m;
        return;
    case KN_NESTEROV:
        *m = o->beta1 * *m + g;
        *w = *w - o->rate * (g + o->beta1 * *m);
        return;
    case KN_ADAGRAD:
        *m = *m + g * g;
        *w = *w - (o->rate * g) / (sqrtf(*m) + o->eps);
        return;
    case KN_RMSPROP:
        *m = o->beta2 * *m + (1.0f - o->beta2) * (g * g);
        *w = *w - (o->rate * g) / (sqrtf(*m) + o->eps);
        return;
    case KN_ADAM:
        *w = *w - adam_direction(o, t, g, m, v, (float)(rate / c1));
        return;
    case KN_ADAMW:
        *w = (float)(1.0 - rate * (double)o->weight_decay) * *w;
        *w = *w - adam_direction(o, t, g, m, v, (float)(rate / c1));
        return;
    case KN_FTRL:
        ftrl_one(o, g, w, m, v);
        return;
    case KN_LAMB: {
        const float u = adam_direction(o, t, g, m, v, (float)(1.0 / c1)) + o->weight_decay * *w;

        *w = *w - (o->rate * TRUST) * u;
        return;
    }
    case KN_SUM:
        *w = g;
        return;
    }
}

static float gradient_one(const struct kn_opt *o, float sum, float w)
{
    const bool own = o->kind == KN_ADAMW || o->kind == KN_LAMB || o->kind == KN_SUM;
    float g = NORM * ((float)(1.0 / 48.0) * sum);

    if (o->clip_value != 0.0f)
        g = fmaxf(fminf(g, o->clip_value), -o->clip_value);
    return o->weight_decay != 0.0f && !own ? g + o->weight_decay * w : g;
}

static void step_all(const struct kn_opt *o, uint64_t t, const float *const *g, size_t ng,
                     size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++) {
        float leaf[KN_SUM_MAX];

        for (size_t k = 0; k < ng; k++)
            leaf[k] = g[k][i - at];
        step_one(o, t, gradient_one(o, tree(leaf, ng), want.w[i]), &want.w[i], &want.m[i],
                 &want.v[i]);
    }
}

static void state_init(void)
{
    fill(want.w, N_MAX, 1);
    memset(want.m, 0, sizeof(want.m));
    memset(want.v, 0, sizeof(want.v));
    got = want;
}

/* Three steps of n elements that start `at` elements into their arrays; all other elements must
 * stay. */
static void check(const struct kn_ops *k, const struct kn_opt *o, size_t ng, size_t at, size_t n)
{
    const float *g[KN_SUM_MAX];
    const size_t nstate = kn_opt_state(o->kind);

    state_init();
    for (uint64_t t = 1; t <= 3; t++) {
        struct kn_step s = kn_opt_step(o, t, 48);

        s.norm = NORM;
        s.trust = TRUST;
        for (size_t i = 0; i < ng; i++)
            g[i] = &gradient[0][0] + i * n + (size_t)t * 5 + (at + i) % 3;
        k->apply(got.w + at, nstate > 0 ? got.m + at : NULL, nstate > 1 ? got.v + at : NULL, g, ng,
                 o, &s, n);
        step_all(o, t, g, ng, at, n);
    }
    cr_assert(memcmp(&got, &want, sizeof(got)) == 0, "%s: optimizer %d, %zu gradients, %zu at %zu",
              k->name, (int)o->kind, ng, n, at);
}

Test(apply, every_table_and_optimizer_gives_the_formulas_bits)
{
    const struct kn_ops *table[TABLES_MAX];

    fill(&gradient[0][0], sizeof(gradient) / sizeof(float), 2);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t o = 0; o < VB_ARRAY_LEN(opts); o++)
            for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++)
                for (size_t ng = 1; ng <= G_MAX; ng++)
                    check(table[k], &opts[o], ng, (i + ng) % 4, sizes[i]);
}

Test(apply, decay_and_clipping_change_the_gradient_alone)
{
    const struct kn_ops *table[TABLES_MAX];

    fill(&gradient[0][0], sizeof(gradient) / sizeof(float), 5);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t o = 0; o < VB_ARRAY_LEN(more); o++)
            for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++)
                for (size_t ng = 1; ng <= 6; ng++)
                    check(table[k], &more[o], ng, (i + ng) % 4, sizes[i]);
}

Test(apply, many_gradients_make_the_same_tree)
{
    const struct kn_ops *table[TABLES_MAX];
    static const size_t many[] = { 31, 63, 64, 100, 255, 511, 512, 1000, 1023, 1024 };

    fill(&gradient[0][0], sizeof(gradient) / sizeof(float), 3);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t i = 0; i < VB_ARRAY_LEN(many); i++)
            check(table[k], &opts[0], many[i], 1, 519);
}

Test(apply, every_offset_from_alignment_is_fine)
{
    const struct kn_ops *table[TABLES_MAX];

    fill(&gradient[0][0], sizeof(gradient) / sizeof(float), 4);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t o = 0; o < VB_ARRAY_LEN(opts); o++)
            for (size_t at = 0; at < 16; at++)
                for (size_t ng = 1; ng <= 5; ng++)
                    check(table[k], &opts[o], ng, at, 77);
}

Test(apply, not_a_number_and_infinity_pass_through_alone)
{
    const struct kn_ops *table[TABLES_MAX];

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t o = 0; o < VB_ARRAY_LEN(opts); o++)
            for (size_t ng = 1; ng <= 9; ng++) {
                const float *g[9];
                const struct kn_step s = kn_opt_step(&opts[o], 1, 1);

                memset(gradient, 0, 9 * sizeof(gradient[0]));
                memset(&got, 0, sizeof(got));
                for (size_t i = 0; i < ng; i++)
                    g[i] = gradient[i];
                gradient[ng - 1][17] = NAN;
                gradient[ng / 2][30] = INFINITY;
                table[k]->apply(got.w, got.m, got.v, g, ng, &opts[o], &s, 40);
                for (size_t i = 0; i < 40; i++) {
                    if (i != 17 && i != 30)
                        cr_assert_eq(got.w[i], 0.0f);
                    else
                        cr_assert_not(isfinite(got.w[i]), "%s, %zu of %zu", table[k]->name, i, ng);
                }
                cr_assert(isnan(got.w[17]));
            }
}

/* Clipped or not. */
Test(apply, a_sum_that_is_no_number_is_noticed_wherever_it_stands)
{
    static const float odd[] = { NAN, -NAN, INFINITY, -INFINITY };
    const struct kn_ops *table[TABLES_MAX];

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t o = 0; o < 2 * VB_ARRAY_LEN(opts); o++)
            for (size_t ng = 1; ng <= 5; ng += 2) {
                struct kn_opt opt = opts[o / 2];
                const struct kn_step s = kn_opt_step(&opt, 1, 1);
                const float *g[5];

                opt.clip_value = o % 2 == 0 ? 0 : 0.5f;
                memset(gradient, 0, 5 * sizeof(gradient[0]));
                for (size_t i = 0; i < ng; i++)
                    g[i] = gradient[i];
                for (size_t at = 0; at < 70; at++) {
                    memset(&got, 0, sizeof(got));
                    cr_assert(table[k]->apply(got.w, got.m, got.v, g, ng, &opt, &s, 70));
                    gradient[at % ng][at] = odd[at % 4];
                    cr_assert_not(table[k]->apply(got.w, got.m, got.v, g, ng, &opt, &s, 70),
                                  "%s, %zu gradients, at %zu", table[k]->name, ng, at);
                    gradient[at % ng][at] = 3e38f; /* large, but one */
                    memset(&got, 0, sizeof(got));
                    cr_assert(table[k]->apply(got.w, got.m, got.v, g, ng, &opt, &s, 70));
                    gradient[at % ng][at] = 0;
                }
            }
}

Test(apply, a_step_of_no_samples_changes_no_weight)
{
    const struct kn_step s = kn_opt_step(&opts[0], 1, 0);
    const float g[1] = { 3.0f }, *const gs[1] = { g };
    float w[1] = { 2.0f };

    kn_ref.apply(w, NULL, NULL, gs, 1, &opts[0], &s, 1);
    cr_assert_eq(w[0], 2.0f);
}
