/* Codecs: nothing is lost between what is sent and what stays. */
#include "codec_wire.h"

enum { STEPS = 20 };

Test(codec, decoded_and_residual_are_all_there_was)
{
    for (size_t k = 0; k < VB_ARRAY_LEN(codecs); k++)
        for (size_t s = 0; s < VB_ARRAY_LEN(sizes); s++) {
            struct wire w = wire_make(&codecs[k], sizes[s]);
            const bool rounds = codecs[k].kind == KN_CODEC_ONEBIT;

            for (uint64_t clock = 0; clock < STEPS; clock++) {
                for (size_t i = 0; i < w.n; i++)
                    w.src[i] = wide_range(clock, i);
                transfer(&w, clock);
                for (size_t i = 0; i < w.n; i++) {
                    const double had = (double)(w.src[i] + w.before[i]);
                    const double has = (double)w.dst[i] + (double)w.residual[i];

                    cr_assert(fabs(had - has) <=
                                  (rounds ? 0x1p-24 * fabs((double)w.residual[i]) : 0),
                              "codec %zu, %zu: %a is %a and %a", k, i, had, (double)w.dst[i],
                              (double)w.residual[i]);
                }
            }
            wire_free(&w);
        }
}

/* Gradients on a grid: adding the residual is exact too, but for codecs whose steps leave the grid. */
Test(codec, all_that_was_sent_and_the_residual_are_the_sum_of_all_gradients)
{
    static double sum[N_MAX], got[N_MAX];

    for (size_t k = 0; k < VB_ARRAY_LEN(codecs); k++) {
        struct wire w = wire_make(&codecs[k], N_MAX);
        const bool off_grid = codecs[k].kind == KN_CODEC_INT8 || codecs[k].kind == KN_CODEC_ONEBIT;

        memset(sum, 0, sizeof(sum));
        memset(got, 0, sizeof(got));
        for (uint64_t clock = 0; clock < 200; clock++) {
            for (size_t i = 0; i < N_MAX; i++) {
                w.src[i] = (float)(vb_random_u64(3, clock, i) % 8191) / 1024.0f - 4.0f;
                sum[i] += (double)w.src[i];
            }
            transfer(&w, clock);
            for (size_t i = 0; i < N_MAX; i++)
                got[i] += (double)w.dst[i];
        }
        for (size_t i = 0; i < N_MAX; i++) {
            const double lost = sum[i] - (got[i] + (double)w.residual[i]);

            cr_assert(off_grid ? fabs(lost) <= 200 * 0x1p-20 : lost == 0.0, "codec %zu: %g lost", k,
                      lost);
        }
        wire_free(&w);
    }
}

Test(codec, sizes_are_as_promised)
{
    static const size_t want[] = {
        2000, 2000, 1000 + 4 * 4, 125 + 2 * 8, 10 * 8, 1000 * 8, 100 * 4
    };

    for (size_t k = 0; k < VB_ARRAY_LEN(codecs); k++) {
        cr_assert_eq(kn_codec_bytes(&codecs[k], 1000), want[k], "codec %zu", k);
        cr_assert_eq(kn_codec_bytes(&codecs[k], 0), 0);
        cr_assert_gt(kn_codec_bytes(&codecs[k], 1), 0);
        cr_assert_gt(kn_codec_bytes(&codecs[k], UINT64_C(1) << 32), UINT64_C(1) << 25);
    }
    const struct kn_codec none = { .kind = KN_CODEC_TOPK, .share = (double)NAN };
    const struct kn_codec more = { .kind = KN_CODEC_TOPK, .share = 7.0 };

    cr_assert_eq(kn_codec_bytes(&none, 1000), 8);
    cr_assert_eq(kn_codec_bytes(&more, 1000), 8000);
}

Test(codec, numbers_too_large_for_a_format_go_in_parts)
{
    const struct kn_codec f16 = { .kind = KN_CODEC_F16 }, bf16 = { .kind = KN_CODEC_BF16 };
    struct wire w = wire_make(&f16, 2), b = wire_make(&bf16, 2);

    w.src[0] = 100000.0f;
    w.src[1] = -65519.0f;
    transfer(&w, 0);
    cr_assert(w.dst[0] == 65504.0f && w.residual[0] == 34496.0f);
    cr_assert(w.dst[1] == -65504.0f && w.residual[1] == -15.0f);
    b.src[0] = 0x1.fffffep127f;
    b.src[1] = -0x1.fffffep127f;
    transfer(&b, 0);
    cr_assert(b.dst[0] == 0x1.fep127f && b.dst[0] + b.residual[0] == 0x1.fffffep127f);
    cr_assert(b.dst[1] == -0x1.fep127f && b.dst[1] + b.residual[1] == -0x1.fffffep127f);
    wire_free(&w);
    wire_free(&b);
}

Test(codec, int8_keeps_its_promise_at_the_ends_of_the_range_of_floats)
{
    static const float most[] = { 0x1p-149f, 0x1p-143f, 0x1p-140f,      0x1p-126f,
                                  1.0f,      3.0f,      0x1.fffffep127f };
    const struct kn_codec c = { .kind = KN_CODEC_INT8 };

    for (size_t m = 0; m < VB_ARRAY_LEN(most); m++) {
        struct wire w = wire_make(&c, 257);

        for (size_t i = 0; i < w.n; i++)
            w.src[i] = most[m] * ((float)i / 128.0f - 1.0f);
        transfer(&w, 0);
        for (size_t i = 0; i < w.n; i++) {
            cr_assert_eq((double)w.dst[i] + (double)w.residual[i], (double)w.src[i]);
            cr_assert(fabsf(w.residual[i]) <= most[m] / 2.0f || m < 3);
        }
        wire_free(&w);
    }
}

Test(codec, halves_of_int8_steps_are_exact_too)
{
    const struct kn_codec c = { .kind = KN_CODEC_INT8 };
    struct wire w = wire_make(&c, 256);

    for (uint64_t seed = 0; seed < 300; seed++) {
        const float most = 1.0f + vb_random_f32(9, seed, 0), step = most / 127.0f;

        memset(w.residual, 0, w.n * sizeof(float));
        w.src[0] = most;
        for (size_t i = 1; i < w.n; i++) {
            w.src[i] = step * ((float)(i / 2) + 0.5f);
            for (size_t j = 0; j < i % 5; j++)
                w.src[i] = nextafterf(w.src[i], i % 2 == 0 ? 0.0f : most);
            w.src[i] = fminf(w.src[i], most);
        }
        transfer(&w, 0);
        for (size_t i = 0; i < w.n; i++)
            cr_assert_eq((double)w.dst[i] + (double)w.residual[i], (double)w.src[i]);
    }
    wire_free(&w);
}

Test(codec, topk_takes_the_largest_and_of_equal_ones_the_first)
{
    const struct kn_codec c = { .kind = KN_CODEC_TOPK, .share = 0.5 };
    static const float src[8] = { 1, -2, 2, 0, -2, 3, -0.5f, 2 };
    static const float want[8] = { 0, -2, 2, 0, -2, 3, 0, 0 };
    struct wire w = wire_make(&c, 8);

    memcpy(w.src, src, sizeof(src));
    transfer(&w, 0);
    for (size_t i = 0; i < 8; i++) {
        cr_assert_eq(w.dst[i], want[i]);
        cr_assert_eq(w.residual[i], src[i] - want[i]);
    }
    wire_free(&w);
}

static int larger_first(const void *a, const void *b)
{
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

    return (x < y) - (x > y);
}

Test(codec, topk_chooses_as_sorting_does)
{
    static float sorted[N_MAX];

    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct kn_codec c = { .kind = KN_CODEC_TOPK, .share = (double)seed / 25.0 };
        struct wire w = wire_make(&c, N_MAX);
        const size_t k = w.bytes / 8;
        size_t sent = 0;

        for (size_t i = 0; i < N_MAX; i++)
            sorted[i] = w.src[i] = 1.0f + (float)(vb_random_u64(4, seed, i) % (1 + 300 * seed));
        transfer(&w, 0);
        qsort(sorted, N_MAX, sizeof(float), larger_first);
        for (size_t i = 0; i < N_MAX; i++) {
            sent += w.dst[i] != 0.0f;
            cr_assert(w.dst[i] != 0.0f ? w.src[i] >= sorted[k - 1] : w.src[i] <= sorted[k - 1]);
        }
        cr_assert_eq(sent, k);
        wire_free(&w);
    }
}

Test(codec, randomk_comes_to_every_element_and_differs_by_turn)
{
    const struct kn_codec c = { .kind = KN_CODEC_RANDOMK, .share = 0.1, .seed = 1 };
    struct wire w = wire_make(&c, 500);
    size_t times[500] = { 0 };

    for (uint64_t clock = 0; clock < 200; clock++) {
        for (size_t i = 0; i < w.n; i++) {
            w.src[i] = 1.0f;
            w.residual[i] = 0.0f;
        }
        transfer(&w, clock);
        for (size_t i = 0; i < w.n; i++)
            times[i] += w.dst[i] != 0.0f;
    }
    for (size_t i = 0; i < w.n; i++)
        cr_assert(times[i] > 2 && times[i] < 60, "%zu: %zu times", i, times[i]);
    wire_free(&w);
}
