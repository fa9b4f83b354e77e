/* 16-bit floats: every table against the definition of rounding, over all halves and their neighbours. */
#include "tables.h"

#include "base/random.h"
#include "base/util.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_MAX = 4200, ALL = 65536 };
static const size_t sizes[] = { 0, 1, 7, 8, 9, 255, 256, 257, 4099 };
static float x[ALL * 4], wide[ALL], back[ALL];
static uint16_t half[ALL * 4], want[ALL * 4];

static const struct {
    enum kn_type type;
    int mantissa, least; /* bits; exponent of the least normal number */
    float largest;
} format[] = { { KN_F16, 10, -14, 65504.0f }, { KN_BF16, 7, -126, 0x1.fep127f } };

/* What the 16 bits mean, from the formats' definition. */
static float meaning(size_t f, uint16_t h)
{
    const int p = format[f].mantissa, field = (h & 0x7fff) >> p;
    const double fraction = (h & ((1 << p) - 1)) / (double)(1 << p);
    const double sign = (h & 0x8000) != 0 ? -1.0 : 1.0;

    if (field == 0x7fff >> p)
        return fraction != 0.0 ? NAN : (float)(sign * (double)INFINITY);
    if (field == 0)
        return (float)(sign * ldexp(fraction, format[f].least));
    return (float)(sign * ldexp(1.0 + fraction, field - 1 + format[f].least));
}

/* Nearest, ties to even, by rounding to multiples of the last place in double. */
static float rounded(size_t f, float a)
{
    int e;

    if (!isfinite(a) || a == 0.0f)
        return a;
    (void)frexp((double)a, &e);
    e = VB_MAX(e - 1, format[f].least) - format[f].mantissa;
    const double r = ldexp(rint(ldexp((double)a, -e)), e);

    return fabs(r) > (double)format[f].largest ? copysignf(INFINITY, a) : (float)r;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b) && signbit(a) == signbit(b));
}

Test(half, widening_gives_the_meaning_of_all_65536)
{
    const struct kn_ops *table[TABLES_MAX];

    for (size_t i = 0; i < ALL; i++)
        half[i] = (uint16_t)i;
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t f = 0; f < 2; f++) {
            table[k]->widen(wide, half, format[f].type, ALL);
            for (size_t i = 0; i < ALL; i++) {
                const float is = meaning(f, (uint16_t)i);

                cr_assert(isnan(is) ? isnan(wide[i]) != 0 : same_float(wide[i], is), "%s: %04zx",
                          table[k]->name, i);
            }
            table[k]->narrow(want, wide, format[f].type, ALL);
            for (size_t i = 0; i < ALL; i++)
                cr_assert(want[i] == i || isnan(wide[i]), "%s: %04zx becomes %04x", table[k]->name,
                          i, want[i]);
        }
}

/* Every half, the point midway to the next, and the floats beside that. */
static void neighbours(size_t f)
{
    for (size_t i = 0; i < ALL; i++) {
        const float a = meaning(f, (uint16_t)i),
                    b = meaning(f, (uint16_t)(i ^ 0x8000) == 0 ? 0 : (uint16_t)(i + 1));
        const float mid = isfinite(a) && isfinite(b) ? a + (b - a) / 2.0f : 1.02f * a;

        x[4 * i] = a;
        x[4 * i + 1] = mid;
        x[4 * i + 2] = nextafterf(mid, INFINITY);
        x[4 * i + 3] = nextafterf(mid, -INFINITY);
    }
}

Test(half, narrowing_rounds_to_nearest_even)
{
    const struct kn_ops *table[TABLES_MAX];

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t f = 0; f < 2; f++) {
            neighbours(f);
            table[k]->narrow(half, x, format[f].type, 4 * ALL);
            for (size_t q = 0; q < 4; q++) {
                table[k]->widen(back, half + q * ALL, format[f].type, ALL);
                for (size_t i = 0; i < ALL; i++)
                    cr_assert(same_float(back[i], rounded(f, x[q * ALL + i])), "%s: %a becomes %a",
                              table[k]->name, (double)x[q * ALL + i], (double)back[i]);
            }
        }
}

static void random_bits(float *out, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = (uint32_t)vb_random_u64(3, stream, i);

        memcpy(&out[i], &u, sizeof(u));
    }
}

Test(half, every_table_has_the_references_bits_at_any_size_and_place)
{
    const struct kn_ops *table[TABLES_MAX];

    random_bits(x, N_MAX, 1);
    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t f = 0; f < 2; f++)
            for (size_t i = 0; i < VB_ARRAY_LEN(sizes); i++)
                for (size_t at = 0; at < 9; at++) {
                    const size_t n = sizes[i];

                    memset(half, 0x55, sizeof(*half) * N_MAX);
                    memset(want, 0x55, sizeof(*want) * N_MAX);
                    table[k]->narrow(half + at, x + at, format[f].type, n);
                    kn_ref.narrow(want + at, x + at, format[f].type, n);
                    cr_assert(memcmp(half, want, sizeof(*half) * N_MAX) == 0);
                    memset(back, 0x55, sizeof(*back) * N_MAX);
                    memset(wide, 0x55, sizeof(*wide) * N_MAX);
                    table[k]->widen(back + at, (uint16_t *)(void *)x + at, format[f].type, n);
                    kn_ref.widen(wide + at, (uint16_t *)(void *)x + at, format[f].type, n);
                    cr_assert(memcmp(back, wide, sizeof(*back) * N_MAX) == 0);
                }
}

Test(half, sums_of_16_bit_gradients_are_sums_of_what_they_mean)
{
    enum { N = 1100, G = 21 };
    static const enum kn_opt_kind kinds[] = { KN_SGD, KN_ADAM, KN_SUM };
    static uint16_t narrow[G][N];
    static float wider[G][N], state[2][3][N];
    const struct kn_ops *table[TABLES_MAX];
    const uint16_t *g16[G];
    const float *g32[G];
    double sq[2][N / KN_SQ_GROUP + 1] = { { 0 } };

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t c = 0; c < 2 * VB_ARRAY_LEN(kinds) * G; c++) {
            const size_t f = c % 2, ng = 1 + c / 2 % G, n = ng % 3 == 0 ? N : 77;
            const struct kn_opt o = {
                .kind = kinds[c / 2 / G], .rate = 0.5f, .beta1 = 0.5f, .beta2 = 0.75f, .eps = 0.5f
            };
            const struct kn_step s = kn_opt_step(&o, 1, 8);
            const struct kn_grads g = { .type = format[f].type, .n = ng, .half = g16 };
            const struct kn_grads wg = { .n = ng, .f32 = g32 };

            for (size_t i = 0; i < ng; i++) {
                for (size_t j = 0; j < N; j++)
                    narrow[i][j] = (uint16_t)(vb_random_u64(4, i, j) & 0xbbff); /* finite */
                kn_ref.widen(wider[i], narrow[i], format[f].type, N);
                g16[i] = narrow[i] + 1;
                g32[i] = wider[i] + 1;
            }
            memset(state, 0, sizeof(state));
            table[k]->apply_any(state[0][0], state[0][1], state[0][2], &g, &o, &s, n - 1);
            kn_ref.apply(state[1][0], state[1][1], state[1][2], g32, ng, &o, &s, n - 1);
            cr_assert(memcmp(state[0], state[1], sizeof(state[0])) == 0, "%s: %zu of type %d",
                      table[k]->name, ng, (int)format[f].type);
            table[k]->sq(sq[0], &g, 0.5f, 0, n - 1);
            kn_ref.sq(sq[1], &wg, 0.5f, 0, n - 1);
            cr_assert(memcmp(sq[0], sq[1], sizeof(sq[0])) == 0);
        }
}

Test(half, one_infinity_or_nan_is_found_wherever_it_is)
{
    static const uint32_t odd[3][2] = { { 0x7f800000, 0xffc00001 },
                                        { 0x7c00, 0xfc01 },
                                        { 0xff80, 0x7f81 } };
    const struct kn_ops *table[TABLES_MAX];
    uint16_t h[300] = { 0x7bff, 0x8001 };
    float y[300] = { 3e38f, -1e-45f };

    for (size_t k = 0, nk = tables(table); k < nk; k++)
        for (size_t n = 0; n <= 257; n++)
            for (size_t type = KN_F32; type <= KN_BF16; type++)
                for (size_t at = 0; at < VB_MIN(n + 1, (size_t)258); at++) {
                    const float keep = y[at + 1];
                    const uint16_t keep16 = h[at + 1];
                    void *from = type == KN_F32 ? (void *)(y + 1) : h + 1;

                    if (type == KN_F32)
                        memcpy(&y[at + 1], &odd[0][at % 2], sizeof(float));
                    else
                        h[at + 1] = (uint16_t)odd[type][at % 2];
                    cr_assert_eq(table[k]->all_finite(from, (enum kn_type)type, n), at == n,
                                 "%s: %zu of %zu, type %zu", table[k]->name, at, n, type);
                    y[at + 1] = keep;
                    h[at + 1] = keep16;
                }
}
