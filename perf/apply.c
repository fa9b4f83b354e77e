/*
 * perf apply - one optimizer step over arrays that no cache holds: the sum of n gradients and the optimizer in
 * one pass, in the pieces in which a lane does it. One thread on one processor.
 *
 * Baseline: STREAM's triad, a = b + s * c, by the same program. Bytes are those that have to be moved: 4 for each
 * float read or written, 12 a float for triad, n + 2 floats for SGD (parameter read and written), n + 4 with
 * momentum, n + 6 with Adam.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "kernels/kn.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

enum { GRADS_MAX = 8, PIECE = 2048, ARRAYS = 3 + GRADS_MAX };
#define USUAL_BYTES (UINT64_C(128) << 20)

struct arrays {
    float *x[ARRAYS]; /* parameter, m, v, gradients */
    size_t n;
    void *at;
    uint64_t bytes;
};

struct apply_case {
    const char *name;
    struct kn_opt opt;
    size_t ng;
    bool
        checked; /* each piece of gradient is looked at for NaN first, as a ps does unless told otherwise */
    double goal;
};

static bool make(struct arrays *a, uint64_t bytes)
{
    a->n = bytes / sizeof(float) / PIECE * PIECE;
    a->bytes = ARRAYS * a->n * sizeof(float);
    a->at = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->at == MAP_FAILED || a->n == 0) {
        log_error("no memory for %" PRIu64 " bytes", a->bytes);
        return false;
    }
    (void)madvise(a->at, a->bytes, MADV_HUGEPAGE);
    for (unsigned i = 0; i < ARRAYS; i++) {
        a->x[i] = (float *)a->at + i * a->n;
        for (size_t k = 0; k < a->n; k++)
            a->x[i][k] = 1e-3f;
    }
    return true;
}

/* Built twice: a plain build knows no wide registers. */
#define TRIAD(name)                                                                                \
    static void name(float *restrict a, const float *restrict b, const float *restrict c, float s, \
                     size_t n)                                                                     \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            a[i] = b[i] + s * c[i];                                                                \
    }
TRIAD(triad_plain)
__attribute__((target("avx2"))) TRIAD(triad_avx2)

    static double triad(const struct arrays *a)
{
    const double begun = bench_now_s();

    (__builtin_cpu_supports("avx2") ? triad_avx2 : triad_plain)(a->x[0], a->x[3], a->x[4], 1e-3f,
                                                                a->n);
    return bench_now_s() - begun;
}

static double apply(const struct arrays *a, const struct apply_case *c)
{
    const struct kn_ops *kn = kn_best();
    const struct kn_step s = kn_opt_step(&c->opt, 1, 100);
    const size_t state = kn_opt_state(c->opt.kind);
    const double begun = bench_now_s();
    bool finite = true;

    for (size_t at = 0; at < a->n; at += PIECE) {
        const float *g[GRADS_MAX];

        for (size_t i = 0; i < c->ng; i++) {
            g[i] = a->x[3 + i] + at;
            finite = (!c->checked || kn->all_finite(g[i], KN_F32, PIECE)) && finite;
        }
        kn->apply(a->x[0] + at, state > 0 ? a->x[1] + at : NULL, state > 1 ? a->x[2] + at : NULL, g,
                  c->ng, &c->opt, &s, PIECE);
    }
    return finite ? bench_now_s() - begun : -1;
}

static bool one_case(const struct bench_out *o, const struct arrays *a, const struct apply_case *c,
                     unsigned rounds)
{
    const double floats = (double)c->ng + 2 + 2 * (double)kn_opt_state(c->opt.kind);
    const double size = (double)a->n * sizeof(float);
    double ours[BENCH_ROUNDS_MAX], base[BENCH_ROUNDS_MAX];
    char cases[160], label[64];

    (void)apply(a, c);
    (void)triad(a);
    for (unsigned i = 0; i < rounds; i++) {
        ours[i] = floats * size / apply(a, c);
        base[i] = 3 * size / triad(a);
        if (ours[i] < 0)
            return false;
    }
    snprintf(cases, sizeof(cases),
             "\"optimizer\": \"%s\", \"gradients\": %zu, \"bytes\": %.0f, \"checked\": %s, "
             "\"against\": \"triad\"",
             c->name, c->ng, size, c->checked ? "true" : "false");
    snprintf(label, sizeof(label), "apply %s of %zu%s", c->name, c->ng,
             c->checked ? ", checked" : "");
    bench_print(o, &(struct bench_row){ .bench = "apply",
                                        .cases = cases,
                                        .value = bench_median(ours, rounds),
                                        .unit = "B/s",
                                        .baseline = bench_median(base, rounds),
                                        .goal = c->goal,
                                        .more_is_better = true,
                                        .noisy = bench_spread(base, rounds) > 0.1,
                                        .first = -1,
                                        .label = label });
    return true;
}

static bool all_cases(const struct bench_out *o, const struct arrays *a, unsigned rounds)
{
    static const struct kn_opt sgd = { .kind = KN_SGD, .rate = 1e-3f };
    static const struct kn_opt momentum = { .kind = KN_MOMENTUM, .rate = 1e-3f, .beta1 = 0.9f };
    static const struct kn_opt adam = {
        .kind = KN_ADAM, .rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f
    };
    const struct apply_case cases[] = {
        { "sgd", sgd, 1, false, 0.97 },
        { "sgd", sgd, 2, false, 0.90 },
        { "sgd", sgd, 4, false, 0.90 },
        { "sgd", sgd, 8, false, 0.90 },
        { "sgd", sgd, 1, true, -1 },
        { "sgd", sgd, 8, true, -1 },
        { "momentum", momentum, 1, false, 0.90 },
        { "momentum", momentum, 8, false, 0.90 },
        { "adam", adam, 1, false, 0.85 },
        { "adam", adam, 2, false, 0.85 },
        { "adam", adam, 4, false, 0.85 },
        { "adam", adam, 8, false, 0.85 },
    };
    bool ok = true;

    for (size_t i = 0; ok && i < VB_ARRAY_LEN(cases); i++)
        ok = one_case(o, a, &cases[i], rounds);
    return ok;
}

bool perf_apply(const struct bench_out *o, const struct perf_engine_params *p)
{
    struct arrays a = { 0 };
    cpu_set_t before;
    bool ok = sched_getaffinity(0, sizeof(before), &before) == 0;

    bench_pin(0);
    ok = ok && make(&a, p->bytes != 0 ? p->bytes : USUAL_BYTES) && all_cases(o, &a, p->rounds);
    if (a.at != NULL && a.at != MAP_FAILED)
        munmap(a.at, a.bytes);
    (void)sched_setaffinity(0, sizeof(before), &before);
    return ok;
}
