/* Codecs: what cannot be sent stays, and nothing hostile is believed. */
#include "codec_wire.h"

Test(codec, what_is_not_finite_is_refused_and_nothing_changes)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 3e38f };
    const struct kn_codec_turn turn = { 0 };

    for (size_t k = 0; k < VB_ARRAY_LEN(codecs); k++)
        for (size_t o = 0; o < VB_ARRAY_LEN(odd); o++) {
            struct wire w = wire_make(&codecs[k], 1500);

            w.residual[1499] = w.before[1499] = 3e38f; /* with a large one: the sum is infinite */
            w.src[1499] = odd[o];
            cr_assert_eq(kn_encode(w.sent, w.residual, w.src, w.n, w.c, &turn), VB_INVAL);
            cr_assert(memcmp(w.residual, w.before, w.n * sizeof(float)) == 0);
            wire_free(&w);
        }
}

static enum vb_st decode(const struct wire *w, const void *src, size_t bytes)
{
    const struct kn_codec_turn turn = { .chunk = 3 };

    return kn_decode(w->dst, src, bytes, w->n, w->c, &turn);
}

Test(codec, a_wrong_size_is_refused)
{
    for (size_t k = 0; k < VB_ARRAY_LEN(codecs); k++)
        for (size_t s = 0; s < VB_ARRAY_LEN(sizes); s++) {
            struct wire w = wire_make(&codecs[k], sizes[s]);

            transfer(&w, 0);
            cr_assert_eq(decode(&w, w.sent, w.bytes), VB_OK);
            cr_assert_eq(decode(&w, w.sent, w.bytes + 1), VB_PROTO);
            cr_assert_eq(decode(&w, w.sent, SIZE_MAX), VB_PROTO);
            if (w.bytes > 0)
                cr_assert_eq(decode(&w, w.sent, w.bytes - 1), VB_PROTO);
            wire_free(&w);
        }
}

Test(codec, a_hostile_content_is_refused)
{
    /* codec, where of the message for 1000 elements, what */
    static const struct {
        size_t codec, at, bytes;
        uint32_t is;
    } bad[] = {
        { 0, 1998, 2, 0x7c00 },   { 0, 0, 2, 0xfe00 },       { 1, 6, 2, 0x7f80 },
        { 1, 1998, 2, 0xffff },   { 2, 0, 4, 0x7f800000 },   { 2, 12, 4, 0x7fc00000 },
        { 2, 4, 4, 0xbf800000 },  { 2, 8, 4, 0x7f7fffff },   { 2, 1015, 1, 0x80 },
        { 3, 0, 4, 0x7fc00000 },  { 3, 0, 4, 0x3f800000 },   { 3, 12, 4, 0xbf800000 },
        { 3, 12, 4, 0x7f800000 }, { 4, 36, 4, 1000 },        { 4, 36, 4, 0xffffffff },
        { 4, 4, 4, 0 },           { 4, 0, 4, 999 },          { 4, 76, 4, 0x7f800000 },
        { 5, 3996, 4, 998 },      { 6, 396, 4, 0xffffffff },
    };

    for (size_t b = 0; b < VB_ARRAY_LEN(bad); b++) {
        struct wire w = wire_make(&codecs[bad[b].codec], 1000);

        for (size_t i = 0; i < w.n; i++)
            w.src[i] = wide_range(1, i);
        transfer(&w, 0);
        memcpy((char *)w.sent + bad[b].at, &bad[b].is, bad[b].bytes);
        cr_assert_eq(decode(&w, w.sent, w.bytes), VB_PROTO, "case %zu", b);
        wire_free(&w);
    }
    struct wire w = wire_make(&codecs[3], 1001);

    transfer(&w, 0);
    ((uint8_t *)w.sent)[w.bytes - 1] |= 0x80; /* a bit of no element */
    cr_assert_eq(decode(&w, w.sent, w.bytes), VB_PROTO);
    wire_free(&w);
}
