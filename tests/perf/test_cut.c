/* Messages are cut at what a device can take: whole, in order, never longer. */
#include "base/util.h"
#include "perf/raw_verbs.h"

#include <criterion/criterion.h>

Test(cut, pieces_make_up_the_message_and_none_is_too_long)
{
    static const uint64_t limits[] = { 1, 4096, 1 << 20, 8 << 20, UINT64_C(1) << 30, UINT32_MAX };
    static const uint64_t sizes[] = { 1,
                                      4095,
                                      4096,
                                      (1 << 20) + 4,
                                      (16 << 20) + 1,
                                      (UINT64_C(1) << 31) - 1,
                                      UINT64_C(1) << 31,
                                      (UINT64_C(1) << 31) + 1,
                                      UINT64_C(1) << 32,
                                      (UINT64_C(1) << 32) + 1 };

    for (unsigned l = 0; l < VB_ARRAY_LEN(limits); l++)
        for (unsigned s = 0; s < VB_ARRAY_LEN(sizes); s++) {
            const uint64_t limit = limits[l], bytes = sizes[s];
            uint64_t at = 0, pieces = 0;

            if (bytes / limit > 1 << 24)
                continue; /* a device that takes bytes alone gets small ones */
            while (at < bytes) {
                const uint64_t piece = raw_verbs_cut(bytes, limit, at);

                cr_assert(piece > 0 && piece <= limit && piece <= bytes - at);
                cr_assert(piece == limit || at + piece == bytes);
                at += piece;
                pieces++;
            }
            cr_assert_eq(pieces, (bytes + limit - 1) / limit);
        }
}

Test(cut, one_mebibyte_and_four_bytes_are_two_pieces_of_a_small_device)
{
    cr_assert_eq(raw_verbs_cut((1 << 20) + 4, 1 << 20, 0), 1 << 20);
    cr_assert_eq(raw_verbs_cut((1 << 20) + 4, 1 << 20, 1 << 20), 4);
}
