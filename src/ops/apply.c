/*
 * apply_sgd and so on: apply_K(w, state.., gradient, samples, step, [rate]) -> w as it is then: one optimizer step with the bits that a
 * parameter server makes, by its kernel (formulas: kernels/optim.h). State are as many more variables like w as the optimizer has: m,
 * or m and v. The gradient is a sum over so many samples (0 of them: no step); step counts from 1; both are scalars of any number type. rate is a
 * scalar in place of the setting, for schedules of one's own.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "kernels/kn.h"

#include <assert.h>
#include <math.h>

enum { SCHEDULE, WARMUP, EVERY };
enum { RATE, BETA1, BETA2, EPS, DECAY, CLIP, GAMMA, FLOOR, BETA, L1, L2, REALS };
static const char *const ints[] = { "schedule", "warmup", "every", NULL }, *const reals[] = {
    "rate",  "beta1", "beta2", "eps", "weight_decay", "clip",
    "gamma", "floor", "beta",  "l1",  "l2",           NULL
};
static_assert((int)REALS <= (int)GR_REALS_MAX, "settings of an optimizer");

static enum vb_st want_settings(const struct gr_node *n, struct vb_err *err)
{
    const int64_t *a = n->attr.i;

    if (a[SCHEDULE] < KN_RATE_CONSTANT || a[SCHEDULE] > KN_RATE_RSQRT)
        return op_misfit(n, "the schedule is not 0 (constant), 1 (step), 2 (cosine), 3 (rsqrt)",
                         err);
    if (a[WARMUP] < 0 || a[EVERY] < 0)
        return op_misfit(n, "warmup or every is negative", err);
    for (int i = 0; i < REALS; i++)
        if (!(fabs(n->attr.f[i]) < 1e30))
            return op_misfit(n, "a setting is not a number below 1e30", err);
    return VB_OK;
}

static enum vb_st infer(struct gr_node *n, struct vb_err *err)
{
    const uint32_t vars = n->type->writes;
    const struct gr_shape w = n->in[0]->shape;
    enum vb_st st = want_settings(n, err);

    n->dtype = GR_F32;
    n->shape = w;
    for (uint32_t i = 0; i <= vars && st == VB_OK; i++) {
        st = op_want(n, i, GR_F32, w.rank, err);
        if (st == VB_OK && i < vars && n->in[i]->type != &gr_variable)
            st = op_misfit(n, "parameters and state are not all variables", err);
        if (st == VB_OK && !gr_shape_eq(n->in[i]->shape, w))
            st = op_misfit(n, "parameters, state and gradient differ", err);
        for (uint32_t k = 0; k < i && st == VB_OK && i < vars; k++)
            if (n->in[k] == n->in[i])
                st = op_misfit(n, "one variable is given twice", err);
    }
    for (uint32_t i = vars + 1; i < n->nin && st == VB_OK; i++)
        st = n->in[i]->shape.rank != 0 || (OP_NUMBERS >> n->in[i]->dtype & 1) == 0
                 ? op_misfit(n, "samples, step and rate are not scalar numbers", err)
                 : VB_OK;
    return st;
}

static double number(const struct gr_tensor *t)
{
    return t->dtype == GR_F32   ? (double)*(const float *)t->data
           : t->dtype == GR_I32 ? (double)*(const int32_t *)t->data
                                : (double)*(const int64_t *)t->data;
}

static struct kn_opt optimizer(const struct gr_node *n, enum kn_opt_kind kind)
{
    const double *f = n->attr.f;

    return (struct kn_opt){ .kind = kind,
                            .rate = (float)f[RATE],
                            .beta1 = (float)f[BETA1],
                            .beta2 = (float)f[BETA2],
                            .eps = (float)f[EPS],
                            .weight_decay = (float)f[DECAY],
                            .clip_value = (float)f[CLIP],
                            .beta = (float)f[BETA],
                            .l1 = (float)f[L1],
                            .l2 = (float)f[L2],
                            .schedule = { .kind = (enum kn_rate_kind)n->attr.i[SCHEDULE],
                                          .warmup = (uint64_t)n->attr.i[WARMUP],
                                          .every = (uint64_t)n->attr.i[EVERY],
                                          .gamma = f[GAMMA],
                                          .floor = f[FLOOR] } };
}

static float trust(const struct kn_opt *o, const struct kn_step *s, float *const *var,
                   const float *gradient, size_t n)
{
    const struct kn_grads g = { .type = KN_F32, .n = 1, .f32 = &gradient };
    struct kn_exact w_squares = { .odd = 0 }, u_squares = { .odd = 0 };

    kn_lamb_norms(&w_squares, &u_squares, kn_best(), var[0], var[1], var[2], &g, o, s, n);
    return kn_opt_trust(&w_squares, &u_squares);
}

static void apply(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                  struct gr_run *r, enum kn_opt_kind kind)
{
    const uint32_t vars = n->type->writes;
    const float *gradient = in[vars].data;
    const double samples = number(&in[vars + 1]), step = number(&in[vars + 2]);
    const size_t elems = gr_elems(out->shape, 0);
    struct kn_opt o = optimizer(n, kind);
    float *var[3] = { out->data };

    if (!(step >= 1 && step < 0x1p53 && samples >= 0 && samples < 0x1p53)) {
        op_fail(n, r, "step is not 1 or more, or samples not 0 or more, or they are too large");
        return;
    }
    for (uint32_t i = 1; i < vars; i++)
        var[i] = in[i].data;
    if (n->nin > vars + 3)
        o.rate = (float)number(&in[vars + 3]);
    if ((uint64_t)samples == 0)
        return;
    struct kn_step s = kn_opt_step(&o, (uint64_t)step, (uint64_t)samples);

    if (kind == KN_LAMB)
        s.trust = trust(&o, &s, var, gradient, elems);
    (void)kn_best()->apply(var[0], var[1], var[2], &gradient, 1, &o, &s, elems);
}

#define APPLY(op, kind, vars)                                                                      \
    static void op##_run(const struct gr_node *n, const struct gr_tensor *in,                      \
                         struct gr_tensor *out, struct gr_run *r)                                  \
    {                                                                                              \
        apply(n, in, out, r, kind);                                                                \
    }                                                                                              \
    const struct gr_type op_apply_##op = { .name = "apply_" #op,                                   \
                                           .nin = vars + 3,                                        \
                                           .nin_max = vars + 4,                                    \
                                           .ints = ints,                                           \
                                           .reals = reals,                                         \
                                           .stateful = true,                                       \
                                           .writes = vars,                                         \
                                           .inplace_of = -1,                                       \
                                           .infer = infer,                                         \
                                           .run = op##_run };
APPLY(sgd, KN_SGD, 1)
APPLY(momentum, KN_MOMENTUM, 2)
APPLY(nesterov, KN_NESTEROV, 2)
APPLY(adagrad, KN_ADAGRAD, 2)
APPLY(rmsprop, KN_RMSPROP, 2)
APPLY(adam, KN_ADAM, 3)
APPLY(adamw, KN_ADAMW, 3)
APPLY(ftrl, KN_FTRL, 3)
APPLY(lamb, KN_LAMB, 3)
