/* Optimizer steps in a graph have the bits of the kernel that parameter servers run, state included. */
#include "base/random.h"
#include "kernels/kn.h"
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 37, STEPS = 6 };

static const struct {
    struct vb_optimizer o;
    enum kn_opt_kind kind;
    unsigned state;
} all[] = {
    { { "apply_sgd", .rate = 0.1, .weight_decay = 0.01, .warmup = 3 }, KN_SGD, 0 },
    { { "apply_momentum", .rate = 0.05, .beta1 = 0.9, .schedule = 1, .every = 2, .gamma = 0.5 },
      KN_MOMENTUM,
      1 },
    { { "apply_nesterov", .rate = 0.05, .beta1 = 0.9, .clip = 0.3 }, KN_NESTEROV, 1 },
    { { "apply_adagrad", .rate = 0.01, .eps = 1e-10 }, KN_ADAGRAD, 1 },
    { { "apply_rmsprop", .rate = 0.01, .beta2 = 0.99, .eps = 1e-8 }, KN_RMSPROP, 1 },
    { { "apply_adam", .rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .schedule = 2,
        .every = 5, .floor = 0.1 },
      KN_ADAM,
      2 },
    { { "apply_adamw", .rate = 0.001, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8,
        .weight_decay = 0.01, .schedule = 3, .warmup = 2 },
      KN_ADAMW,
      2 },
    { { "apply_ftrl", .rate = 0.1, .beta = 1, .l1 = 0.001, .l2 = 0.1 }, KN_FTRL, 2 },
    { { "apply_lamb", .rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6,
        .weight_decay = 0.01 },
      KN_LAMB,
      2 },
};

struct one {
    struct vb_graph *g;
    struct vb_node *var[3], *gradient, *samples, *step, *next;
    struct vb_session *s;
};

static void fill(float *x, uint64_t stream)
{
    for (size_t i = 0; i < N; i++)
        x[i] = vb_random_f32(3, stream, i) * 2 - 1;
}

static struct one begin(size_t k, struct vb_node *(*rate)(struct vb_graph *g))
{
    static const char *const name[] = { "w", "m", "v" };
    struct one o = { .g = vb_graph_new() };
    float first[N];
    const char *why = "";

    fill(first, 0);
    for (unsigned i = 0; i <= all[k].state; i++)
        o.var[i] = vb_variable(o.g, name[i], VB_SHAPE(N), i == 0 ? first : NULL);
    o.gradient = vb_placeholder(o.g, "gradient", VB_F32, VB_SHAPE(N));
    o.samples = vb_placeholder(o.g, "samples", VB_I32, VB_SCALAR);
    o.step = vb_placeholder(o.g, "step", VB_I64, VB_SCALAR);
    o.next = vb_apply(o.g, &all[k].o, o.var[0], o.var + 1, all[k].state, o.gradient, o.samples,
                      o.step, rate != NULL ? rate(o.g) : NULL);
    cr_assert_eq(vb_graph_status(o.g, &why), VB_OK, "%s", why);
    cr_assert_eq(vb_session_open(NULL, o.g, &o.s, NULL), VB_OK);
    return o;
}

static void end(struct one *o)
{
    vb_session_close(o->s);
    vb_graph_free(o->g);
}

static enum vb_st step(struct one *o, float *gradient, int32_t samples, int64_t at, float *w,
                       struct vb_error *err)
{
    const struct vb_feed feed[] = { { o->gradient, { VB_F32, VB_SHAPE(N), gradient } },
                                    { o->samples, { VB_I32, VB_SCALAR, &samples } },
                                    { o->step, { VB_I64, VB_SCALAR, &at } } };
    struct vb_tensor out;
    const enum vb_st st = vb_run(o->s, feed, 3, &o->next, 1, &out, err);

    if (st == VB_OK)
        memcpy(w, out.data, N * sizeof(float));
    return st;
}

static void by_kernel(size_t k, float rate, int64_t t, int32_t samples, float *const *var,
                      const float *gradient)
{
    const struct vb_optimizer *v = &all[k].o;
    const struct kn_opt o = { .kind = all[k].kind,
                              .rate = rate,
                              .beta1 = (float)v->beta1,
                              .beta2 = (float)v->beta2,
                              .eps = (float)v->eps,
                              .weight_decay = (float)v->weight_decay,
                              .clip_value = (float)v->clip,
                              .beta = (float)v->beta,
                              .l1 = (float)v->l1,
                              .l2 = (float)v->l2,
                              .schedule = { (enum kn_rate_kind)v->schedule, (uint64_t)v->warmup,
                                            (uint64_t)v->every, v->gamma, v->floor } };
    const struct kn_grads g = { .type = KN_F32, .n = 1, .f32 = &gradient };
    struct kn_step s = kn_opt_step(&o, (uint64_t)t, (uint64_t)samples);

    if (o.kind == KN_LAMB) {
        struct kn_exact w = { .odd = 0 }, u = { .odd = 0 };

        kn_lamb_norms(&w, &u, &kn_ref, var[0], var[1], var[2], &g, &o, &s, N);
        s.trust = kn_opt_trust(&w, &u);
    }
    cr_assert(kn_ref.apply(var[0], var[1], var[2], &gradient, 1, &o, &s, N));
}

Test(apply, has_the_bits_of_the_kernel_after_each_step)
{
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
        struct one o = begin(k, NULL);
        float var[3][N] = { { 0 } }, gradient[N], got[N];
        float *const want[] = { var[0], var[1], var[2] };

        fill(var[0], 0);
        for (int t = 1; t <= STEPS; t++) {
            struct vb_error err = { "" };

            fill(gradient, (uint64_t)t);
            by_kernel(k, (float)all[k].o.rate, t, 4 + t, want, gradient);
            cr_assert_eq(step(&o, gradient, 4 + t, t, got, &err), VB_OK, "%s", err.text);
            cr_assert_eq(memcmp(got, var[0], sizeof(got)), 0, "%s, step %d", all[k].o.op, t);
            for (unsigned i = 0; i <= all[k].state; i++)
                cr_assert_eq(memcmp(vb_session_variable(o.s, o.var[i]), var[i], sizeof(got)), 0,
                             "%s: variable %u after step %d", all[k].o.op, i, t);
        }
        end(&o);
    }
}

static struct vb_node *a_quarter(struct vb_graph *g)
{
    const float rate = 0.25f;

    return vb_constant(g, VB_F32, VB_SCALAR, &rate);
}

Test(apply, takes_its_rate_from_the_graph)
{
    struct one o = begin(0, a_quarter);
    float w[N], gradient[N], got[N];
    float *const want[] = { w, NULL, NULL };

    fill(w, 0);
    fill(gradient, 1);
    by_kernel(0, 0.25f, 2, 3, want, gradient);
    cr_assert_eq(step(&o, gradient, 3, 2, got, NULL), VB_OK);
    cr_assert_eq(memcmp(got, w, sizeof(w)), 0);
    end(&o);
}

Test(apply, of_no_samples_changes_nothing_and_of_no_step_fails)
{
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
        struct one o = begin(k, NULL);
        float first[N], gradient[N], got[N];
        struct vb_error err = { "" };

        fill(first, 0);
        fill(gradient, 1);
        cr_assert_eq(step(&o, gradient, 0, 1, got, NULL), VB_OK);
        cr_assert_eq(memcmp(got, first, sizeof(got)), 0);
        cr_assert_eq(step(&o, gradient, 1, 0, got, &err), VB_INVAL);
        cr_assert_not_null(strstr(err.text, all[k].o.op), "%s", err.text);
        cr_assert_eq(step(&o, gradient, -1, 1, got, NULL), VB_INVAL);
        cr_assert_eq(memcmp(vb_session_variable(o.s, o.var[0]), first, sizeof(first)), 0);
        end(&o);
    }
}

Test(apply, refuses_what_is_no_state_of_its_own)
{
    struct vb_graph *g = vb_graph_new();
    struct vb_node *w = vb_variable(g, "w", VB_SHAPE(N), NULL),
                   *one = vb_constant(g, VB_I32, VB_SCALAR, (int32_t[]){ 1 }), *x = vb_neg(g, w);
    const char *why = "";

    cr_assert_null(vb_apply(g, &all[1].o, w, &w, 1, x, one, one, NULL));
    cr_assert_eq(vb_graph_status(g, &why), VB_INVAL);
    cr_assert_not_null(strstr(why, "one variable is given twice"), "%s", why);
    vb_graph_free(g);
    g = vb_graph_new();
    w = vb_variable(g, "w", VB_SHAPE(N), NULL);
    one = vb_constant(g, VB_I32, VB_SCALAR, (int32_t[]){ 1 });
    x = vb_neg(g, w);
    cr_assert_null(vb_apply(g, &all[1].o, w, &x, 1, x, one, one, NULL));
    cr_assert_eq(vb_graph_status(g, &why), VB_INVAL);
    cr_assert_not_null(strstr(why, "not all variables"), "%s", why);
    vb_graph_free(g);
}
