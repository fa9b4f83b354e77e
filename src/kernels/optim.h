/*
 * optim.h - optimizers and learning-rate schedules: what they compute, and what of it is the same for
 * all parameters of a step. The loops over parameters are in the tables of kn.h. Pure functions.
 * Thread: any.
 */
#ifndef KERNELS_OPTIM_H
#define KERNELS_OPTIM_H

#include "kernels/exact.h"

#include <stddef.h>
#include <stdint.h>

enum kn_opt_kind {
    KN_SGD,
    KN_MOMENTUM,
    KN_ADAM,
    KN_NESTEROV,
    KN_ADAGRAD,
    KN_RMSPROP,
    KN_ADAMW,
    KN_FTRL,
    KN_LAMB,
    KN_SUM,
};

enum kn_rate_kind { KN_RATE_CONSTANT, KN_RATE_STEP, KN_RATE_COSINE, KN_RATE_RSQRT };

/*
 * The factor of the learning rate at step t, from 1. With W = warmup and k = t - 1 - W steps since:
 *   warm-up   t / W while t <= W, whatever the kind; W = 0: none                (Goyal et al. 2017)
 *   constant  1
 *   step      gamma ^ floor(k / every)
 *   cosine    floor + (1 - floor) * (1 + cos(pi * min(k, every) / every)) / 2
 *                                               (Loshchilov & Hutter 2017, without restarts)
 *   rsqrt     sqrt(V / t), V = max(W, 1)                                    (Vaswani et al. 2017)
 * All in double. `every` 0 counts as 1.
 */
struct kn_rate {
    enum kn_rate_kind kind;
    uint64_t warmup, every;
    double gamma, floor;
};
double kn_rate_factor(const struct kn_rate *r, uint64_t t);

/*
 * One optimizer step. The gradient of an element, in this order (what is 0 is left out):
 *   g = norm * (scale * (tree sum of the gradients))
 *   g = min(max(g, -clip_value), clip_value)                                      clipping by value
 *   g = g + weight_decay * w                               L2; not for adamw, lamb and sum
 * With the state arrays m and v, all zero before the first step, and rate = o.rate * factor(t):
 *   sgd       w -= rate * g
 *   momentum  m = beta1 * m + g;  w -= rate * m                       (Polyak 1964; no dampening)
 *   nesterov  m = beta1 * m + g;  w -= rate * (g + beta1 * m)            (Sutskever et al. 2013)
 *   adagrad   m = m + g * g;  w -= rate * g / (sqrt(m) + eps)                 (Duchi et al. 2011)
 *   rmsprop   m = beta2 * m + (1 - beta2) * (g * g);  w -= rate * g / (sqrt(m) + eps)
 *                                                        (Tieleman & Hinton 2012; beta2 is alpha)
 *   adam      m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * (g * g)
 *             w -= rate_t * m / (sqrt(v) * inv_c2 + eps)           (Kingma & Ba 2015, algorithm 1)
 *             where rate_t = rate / (1 - beta1^t), inv_c2 = 1 / sqrt(1 - beta2^t), t from 1
 *   adamw     w = keep * w, keep = 1 - rate * weight_decay; then adam     (Loshchilov & Hutter 2019)
 *   ftrl      q = m + g * g;  v = v + g - (sqrt(q) - sqrt(m)) / rate * w;  m = q
 *             w = |v| <= l1 ? 0 : (sign(v) * l1 - v) / ((beta + sqrt(m)) / rate + l2)
 *                            (McMahan et al. 2013, algorithm 1: m is its n, v its z, rate its alpha)
 *             It draws towards 0: an element that never had a gradient becomes 0.
 *   lamb      m, v as adam;  u = inv_c1 * m / (sqrt(v) * inv_c2 + eps) + weight_decay * w
 *             w -= (rate * trust) * u, inv_c1 = 1 / (1 - beta1^t)     (You et al. 2020, algorithm 2)
 *             trust = |w| / |u| over the whole variable, 1 where one of them is 0
 *   sum       w = g: the workers have the optimizer
 * All in float, each operation rounded once, in the order written (left to right). Where PyTorch has
 * the optimizer these are its semantics.
 */
struct kn_opt {
    enum kn_opt_kind kind;
    float rate, beta1, beta2, eps;
    float weight_decay;
    float clip_value, clip_norm; /* 0: no clipping; by norm: over all variables, see kn_opt_norm */
    float beta, l1, l2;          /* ftrl */
    struct kn_rate schedule;
};

/* Arrays of optimizer state, one float per parameter each: 0, 1 (m), 2 (m then v, each n long). */
size_t kn_opt_state(enum kn_opt_kind kind);

/* What differs from step to step; made by kn_opt_step in double, then rounded once to float. */
struct kn_step {
    float scale;                  /* 1 / samples; 0 when there are none */
    float norm;                   /* 1, or what kn_opt_norm says */
    float rate;                   /* after the schedule */
    float rate_t, inv_c1, inv_c2; /* adam, adamw, lamb */
    float keep;                   /* adamw */
    float trust;                  /* lamb: 1, or what kn_opt_trust says */
};
struct kn_step kn_opt_step(const struct kn_opt *o, uint64_t t, uint64_t samples);

/* Clipping by the global norm: min(1, clip_norm / (sqrt(squares) + 1e-6)), squares being the sum over
 * all variables from kn_sq_norm. 1 when the optimizer does not clip by norm. */
float kn_opt_norm(const struct kn_opt *o, const struct kn_exact *squares);
/* lamb's trust of one variable, from the sums of kn_lamb_norms over all its pieces. */
float kn_opt_trust(const struct kn_exact *w_squares, const struct kn_exact *u_squares);

#endif
