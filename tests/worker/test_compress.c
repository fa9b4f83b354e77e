/* Encoded pushes over the loop transport: nothing of a gradient is lost, and what is malformed ends the link. */
#include "rig.h"

#include "worker/exchange_priv.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const uint64_t sizes[] = { 5000, 3, 20000, 64, 1, 700 };
static const struct kn_codec codecs[] = {
    { .kind = KN_CODEC_F16 },
    { .kind = KN_CODEC_BF16 },
    { .kind = KN_CODEC_INT8 },
    { .kind = KN_CODEC_ONEBIT },
    { .kind = KN_CODEC_TOPK, .share = 0.05 },
    { .kind = KN_CODEC_RANDOMK, .share = 0.05, .seed = 9 },
};

static struct rig_params params(const struct kn_codec *codec)
{
    return (struct rig_params){ .elems = sizes,
                                .nvars = VB_ARRAY_LEN(sizes),
                                .nps = 2,
                                .nworkers = 3,
                                .nlanes = 2,
                                .chunk_bytes = 4096,
                                .landing_bytes = 1 << 20,
                                .cls[0].push = codec,
                                .cls[0].optimizer = { .kind = KN_SGD, .rate = 33.0f } };
}

/* With rate 33 and 33 samples in a step a parameter is minus the sum of all that was decoded. */
static void check_sums(const struct rig *r, uint64_t steps)
{
    for (uint32_t v = 0; v < r->table.nvars; v++)
        for (uint64_t e = 0; e < r->table.var[v].elems; e++) {
            const uint64_t i = r->table.var[v].offset / sizeof(float) + e;
            double sum = 0, kept = 0;

            for (uint32_t w = 0; w < r->p.nworkers; w++) {
                kept += (double)r->x[w]->residual[i];
                for (uint64_t t = 0; t < steps; t++)
                    sum += (double)rig_grad(w, t, i);
            }
            const double sent = -(double)exchange_param(r->x[0], v)[e];

            cr_assert_lt(fabs(sent + kept - sum), 2e-5, "variable %u, element %lu: %g + %g, not %g",
                         v, e, sent, kept, sum);
        }
}

static void run(struct rig_params p, uint64_t steps)
{
    struct rig r;

    rig_open(&r, &p);
    cr_assert(rig_train(&r, steps), "codec %d, seed %lu", p.cls[0].push->kind, p.seed);
    check_sums(&r, steps);
    for (uint32_t w = 1; w < p.nworkers; w++)
        for (uint32_t v = 0; v < r.table.nvars; v++)
            cr_assert_eq(memcmp(exchange_param(r.x[w], v), exchange_param(r.x[0], v),
                                r.table.var[v].elems * sizeof(float)),
                         0);
    cr_assert_gt(exchange_push_ratio(r.x[0]), 1.9);
    rig_close(&r);
}

Test(compress, what_is_sent_and_what_is_kept_are_the_gradients)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(codecs); i++)
        run(params(&codecs[i]), 6);
}

Test(compress, delays_reordering_duplicates_and_landing_change_nothing)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(codecs); i++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct rig_params p = params(&codecs[i]);

            p.seed = seed;
            p.knobs = (struct tp_loop_knobs){ .delay = 0.5f,
                                              .reorder = 0.3f,
                                              .duplicate = seed % 2 ? 0.2f : 0,
                                              .place = seed % 2 == 0 };
            p.landing_bytes = seed == 4 ? 1 : 1 << 20;
            run(p, 4);
        }
}

/* One worker has sent its first pushes when its staging is overwritten under way. */
static bool taken(const struct kn_codec *codec, int fill)
{
    struct rig_params p = params(codec);
    struct rig r;
    bool ok;

    p.nworkers = 1;
    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    for (uint32_t c = 0; c < r.table.nchunks; c++)
        exchange_push(r.x[0], c, 1, 10, 10);
    memset(tp_region_base(r.worker_node[0], r.x[0]->staging), fill, 4096);
    ok = rig_progress(&r);
    for (int i = 0; ok && i < 20; i++)
        ok = rig_progress(&r);
    rig_close(&r);
    return ok;
}

Test(compress, what_cannot_be_decoded_ends_the_link)
{
    cr_assert(!taken(&codecs[0], 0xff), "NaN in fp16");
    cr_assert(!taken(&codecs[1], 0xff), "NaN in bf16");
    cr_assert(!taken(&codecs[2], 0xff), "a scale that is a NaN");
    cr_assert(!taken(&codecs[3], 0xff), "a mean that is a NaN");
    cr_assert(!taken(&codecs[4], 0x3f), "an index out of range");
    cr_assert(!taken(&codecs[4], 0), "the same index twice");
    cr_assert(!taken(&codecs[5], 0xff), "a value that is a NaN");
}

Test(compress, a_gradient_with_a_nan_is_not_sent)
{
    struct rig_params p = params(&codecs[0]);
    struct rig r;

    p.nworkers = 1;
    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    const uint64_t before = exchange_pushed_bytes(r.x[0]);

    exchange_grad(r.x[0], 0)[7] = NAN;
    exchange_push(r.x[0], 0, 1, 10, 10);
    cr_assert_eq(exchange_wait(r.x[0], 0), VB_INVAL);
    cr_assert_eq(exchange_pushed_bytes(r.x[0]), before);
    rig_close(&r);
}

/* How far the windows are from the parameters, on average; all workers have the same. */
static double distance(const struct rig *r)
{
    double sum = 0, n = 0;

    for (uint32_t c = 0; c < r->table.nchunks; c++) {
        const struct ps_chunk *k = &r->table.chunk[c];
        const float *w = rig_params_at(r, k);

        for (uint32_t i = 0; i < r->p.nworkers; i++)
            cr_assert_eq(memcmp(r->x[i]->window + k->offset, r->x[0]->window + k->offset, k->bytes),
                         0, "worker %u, chunk %u", i, c);
        for (uint64_t i = 0; i < k->bytes / sizeof(float); i++, n++)
            sum += fabs((double)w[i] -
                        (double)((const float *)(const void *)(r->x[0]->window + k->offset))[i]);
    }
    return sum / n;
}

static double pulled(struct rig_params p, uint64_t steps)
{
    struct rig r;

    rig_open(&r, &p);
    cr_assert(rig_train(&r, steps), "codec %d, seed %lu", p.cls[0].pull->kind, p.seed);
    cr_assert_gt(exchange_pull_ratio(r.x[0]), 1.9);
    cr_assert_eq(exchange_push_ratio(r.x[0]), 1);
    const double d = distance(&r);

    rig_close(&r);
    return d;
}

/* What was left out of the parameters comes with what is sent next: when they stand still, windows come to them. */
Test(compress, windows_come_to_the_parameters)
{
    static const double left[] = { 1e-3, 1e-5, 1e-6, 0.9, 1e-9, 0.3 };

    for (size_t i = 0; i < VB_ARRAY_LEN(codecs); i++) {
        struct rig_params p = params(NULL);

        p.cls[0].pull = &codecs[i];
        const double before = pulled(p, 4);

        p.quiet_from = 4;
        const double after = pulled(p, 4 + 30);

        cr_assert(before > 0 && after <= left[i] * before, "codec %zu: %g, then %g", i, before,
                  after);
    }
}

Test(compress, pulls_survive_delays_reordering_duplicates_and_landing)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(codecs); i++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct rig_params p = params(NULL);

            p.cls[0].pull = &codecs[i];
            const double want = pulled(p, 4);

            p.seed = seed;
            p.knobs = (struct tp_loop_knobs){ .delay = 0.5f,
                                              .reorder = 0.3f,
                                              .duplicate = seed % 2 ? 0.2f : 0,
                                              .place = seed % 2 == 0 };
            cr_assert_eq(pulled(p, 4), want);
        }
}

/* Both directions, each with its own: what was applied is what was decoded of the pushes. */
Test(compress, both_directions_at_once)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(codecs); i++) {
        struct rig_params p = params(&codecs[i]);
        struct rig r;

        p.cls[0].pull = &codecs[(i + 2) % VB_ARRAY_LEN(codecs)];
        rig_open(&r, &p);
        cr_assert(rig_train(&r, 4));
        (void)distance(&r);
        rig_close(&r);
    }
}

Test(compress, parameters_with_an_infinity_are_not_sent)
{
    struct rig_params p = params(NULL);
    struct rig r;

    p.cls[0].pull = &codecs[2];
    p.nworkers = 1;
    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    *(float *)(uintptr_t)rig_params_at(&r, &r.table.chunk[0]) = INFINITY;
    exchange_push(r.x[0], 0, 1, 10, 10);
    bool ok = true;

    for (int i = 0; ok && i < 20; i++)
        ok = rig_progress(&r);
    cr_assert(!ok);
    cr_assert_str_eq(lane_why(r.lane[0][0]), "v has a NaN or infinity after step 1");
    rig_close(&r);
}

/* One worker's answers are overwritten under way. */
Test(compress, parameters_that_cannot_be_decoded_end_the_link)
{
    struct rig_params p = params(NULL);
    struct rig r;

    p.cls[0].pull = &codecs[4];
    p.nworkers = 1;
    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    for (uint32_t c = 0; c < r.table.nchunks; c++)
        exchange_push(r.x[0], c, 1, 10, 10);
    bool ok = true;

    for (int i = 0; ok && i < 40; i++) {
        for (uint32_t k = 0; k < p.nps; k++) {
            for (uint32_t l = 0; l < p.nlanes; l++) {
                const enum vb_st st = lane_poll(r.lane[k][l], 0);

                cr_assert(st == VB_OK || st == VB_TIMEOUT);
            }
            memset(tp_region_base(r.ps_node[k], 2), 0, 1024); /* the region of pulls */
        }
        ok = rig_progress(&r);
    }
    cr_assert(!ok);
    rig_close(&r);
}

/* Sums are of floats: eight times 16384 is more than fp16 holds. */
Test(compress, a_sum_does_not_overflow_what_its_parts_fit_in)
{
    struct rig_params p = params(&codecs[0]);
    struct rig r;

    p.nworkers = 8;
    p.cls[0].optimizer.rate = 1;
    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    const float before = exchange_param(r.x[0], 0)[0];

    for (uint32_t w = 0; w < 8; w++) {
        memset(r.x[w]->residual, 0, r.table.line_bytes);
        for (uint64_t i = 0; i < r.table.var[0].elems; i++)
            exchange_grad(r.x[w], 0)[i] = 16384;
        exchange_push(r.x[w], 0, 1, 1, 8);
    }
    for (int i = 0; i < 1000; i++)
        cr_assert(rig_progress(&r));
    cr_assert_eq(exchange_param(r.x[7], 0)[0], before - 16384);
    rig_close(&r);
}
