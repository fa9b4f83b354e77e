/* The chunk table: everything owned once, ranges even, the same on every side. */
#include "ps/table.h"

#include <criterion/criterion.h>

/* A class ends after each of these variables, and after the last one. */
static struct ps_table make_classes(const uint64_t *elems, uint32_t n, uint64_t ends, uint32_t nps,
                                    uint32_t nlanes, uint64_t chunk_bytes)
{
    struct ps_var var[64];
    struct ps_table t;
    struct vb_err err;

    for (uint32_t i = 0; i < n; i++)
        var[i] = (struct ps_var){
            .name = "v",
            .elems = elems[i],
            .cls = (uint32_t)__builtin_popcountll(ends & ((UINT64_C(1) << i) - 1)),
        };
    const struct ps_table_params p = {
        .var = var, .nvars = n, .nps = nps, .nlanes = nlanes, .chunk_bytes = chunk_bytes
    };

    cr_assert_eq(ps_table_make(&p, &t, &err), VB_OK);
    return t;
}

static struct ps_table make(const uint64_t *elems, uint32_t n, uint32_t nps, uint32_t nlanes,
                            uint64_t chunk_bytes)
{
    return make_classes(elems, n, 0, nps, nlanes, chunk_bytes);
}

/* Chunks follow each other without gap or overlap, inside their ps's range. */
static void check_cover(const struct ps_table *t)
{
    uint64_t at = 0, ranks = 0;
    uint32_t seen[64] = { 0 };

    for (uint32_t c = 0; c < t->nchunks; c++) {
        const struct ps_chunk *k = &t->chunk[c];
        const struct ps_line *line = &t->line[k->cls];
        const uint64_t range = line->offset + k->ps * line->range_bytes;

        if (at < line->offset) { /* the next class */
            cr_assert_eq(at, t->line[k->cls - 1].offset + t->line[k->cls - 1].bytes);
            at = line->offset;
        }
        cr_assert_eq(k->offset, at);
        cr_assert_eq(k->cls, t->var[k->first_var].cls);
        cr_assert_eq(k->at - ps_range_at(t, k->cls, k->ps), k->offset - range);
        cr_assert(k->at + k->bytes <= ps_range_at(t, t->nclasses, k->ps));
        ranks |= k->need < 64 ? UINT64_C(1) << k->need : 0;
        cr_assert_eq(k->nth, seen[k->ps * t->nlanes + k->lane]++);
        cr_assert(k->bytes > 0 && k->bytes <= PS_CHUNK_MAX && k->bytes % PS_ALIGN == 0);
        cr_assert(k->offset >= range && k->offset + k->bytes <= range + line->range_bytes);
        cr_assert(k->lane < t->nlanes);
        at += k->bytes;
    }
    cr_assert_eq(at, t->line_bytes);
    cr_assert_eq(ranks, t->nchunks >= 64 ? UINT64_MAX : (UINT64_C(1) << t->nchunks) - 1);
}

/* A chunk lists exactly the variables that list it. */
static void check_matches(const struct ps_table *t)
{
    uint64_t by_var = 0, by_chunk = 0;

    for (uint32_t v = 0; v < t->nvars; v++) {
        uint32_t first = 0;
        const uint32_t n = ps_var_chunks(t, v, &first);

        cr_assert(n > 0);
        for (uint32_t c = first; c < first + n; c++) {
            cr_assert(v >= t->chunk[c].first_var);
            cr_assert(v < t->chunk[c].first_var + t->chunk[c].nvars);
        }
        by_var += n;
    }
    for (uint32_t c = 0; c < t->nchunks; c++)
        by_chunk += t->chunk[c].nvars;
    cr_assert_eq(by_var, by_chunk);
}

Test(table, every_byte_is_owned_once_whatever_the_sizes)
{
    static const uint64_t sizes[][8] = {
        { 200704, 256, 32768, 128, 1280, 10 },
        { 1 },
        { 1, 1, 1, 1, 1, 1, 1, 1 },
        { 100000000, 256, 256, 256 },
        { 15, 16, 17, 1023, 1024, 1025, 3, 262144 },
    };
    static const uint64_t chunk[] = { 0, 64, 4096, 65536, 1 << 20, 1 << 30 };

    for (size_t s = 0; s < VB_ARRAY_LEN(sizes); s++)
        for (uint32_t nps = 1; nps <= 9; nps += 2)
            for (size_t c = s == 3 ? 3 : 0; c < VB_ARRAY_LEN(chunk); c++)
                for (uint32_t lanes = 1; lanes <= 3; lanes += 2) {
                    uint32_t n = 0;

                    while (n < 8 && sizes[s][n] != 0)
                        n++;
                    for (uint64_t ends = 0; ends < 128; ends += s == 3 ? 128 : 43) {
                        struct ps_table t = make_classes(sizes[s], n, ends, nps, lanes, chunk[c]);

                        check_cover(&t);
                        check_matches(&t);
                        ps_table_fini(&t);
                    }
                }
}

/* So small classes do not all end up in the first lane. */
Test(table, lanes_share_the_chunks_of_all_classes)
{
    static const uint64_t sizes[] = { 10, 10, 10, 10 };
    struct ps_table t = make_classes(sizes, 4, 7, 1, 2, 0);

    cr_assert_eq(t.nclasses, 4);
    cr_assert_eq(ps_lane_chunks(&t, 0, 0), 2);
    cr_assert_eq(ps_lane_chunks(&t, 0, 1), 2);
    cr_assert_eq(t.chunk[3].at, 3 * PS_PAGE);
    ps_table_fini(&t);
}

/* The forward pass goes through all classes at once. */
Test(table, chunks_are_ranked_by_when_the_forward_pass_needs_them)
{
    const struct ps_var var[] = { { .name = "w1", .elems = 10, .need = 0 },
                                  { .name = "w2", .elems = 10, .need = 2 },
                                  { .name = "b1", .elems = 10, .cls = 1, .need = 1 },
                                  { .name = "b2", .elems = 20, .cls = 1, .need = 3 } };
    static const uint32_t need[] = { 0, 2, 1, 3, 4 };
    struct ps_table t;
    struct vb_err err;

    cr_assert_eq(
        ps_table_make(
            &(struct ps_table_params){ .var = var, .nvars = 4, .nps = 1, .chunk_bytes = 64 }, &t,
            &err),
        VB_OK);
    cr_assert_eq(t.nchunks, 5);
    for (uint32_t c = 0; c < 5; c++)
        cr_assert_eq(t.chunk[c].need, need[c]);
    ps_table_fini(&t);
}

Test(table, classes_come_one_after_another)
{
    const struct ps_var var[] = { { .name = "a", .elems = 1 },
                                  { .name = "b", .elems = 1, .cls = 2 } };
    struct ps_table t;
    struct vb_err err;

    cr_assert_eq(
        ps_table_make(&(struct ps_table_params){ .var = var, .nvars = 2, .nps = 1 }, &t, &err),
        VB_INVAL);
    cr_assert_eq(
        ps_table_make(&(struct ps_table_params){ .var = var + 1, .nvars = 1, .nps = 1 }, &t, &err),
        VB_INVAL);
}

Test(table, load_is_even_by_bytes_though_one_variable_is_huge)
{
    static const uint64_t one_huge[] = { 100 << 20, 250, 250, 250, 250, 250, 250, 250 };
    static const uint64_t mlp[] = { 200704, 256, 32768, 128, 1280, 10 };

    for (uint32_t nps = 1; nps <= 4; nps++) {
        struct ps_table a = make(one_huge, 8, nps, 1, 0), b = make(mlp, 6, nps, 1, 0);

        cr_assert(ps_range_used(&a, 0, 0) * nps <= a.line_bytes * 1.02);
        cr_assert(ps_range_used(&b, 0, 0) * nps <= b.line_bytes * 1.02);
        ps_table_fini(&a);
        ps_table_fini(&b);
    }
}

Test(table, ranges_are_whole_pages_and_huge_ones_whole_huge_pages)
{
    static const uint64_t small[] = { 5000, 7000 }, large[] = { UINT64_C(200) << 20 };
    struct ps_table a = make(small, 2, 3, 1, 0), b = make(large, 1, 2, 1, 0);

    cr_assert_eq(a.line[0].range_bytes % PS_PAGE, 0);
    cr_assert_eq(b.line[0].range_bytes % PS_HUGE_PAGE, 0);
    cr_assert_eq(ps_range_at(&a, 1, 2) % PS_PAGE, 0);
    ps_table_fini(&a);
    ps_table_fini(&b);
}

Test(table, a_ps_without_any_bytes_still_has_a_region)
{
    static const uint64_t tiny[] = { 10 };
    struct ps_table t = make(tiny, 1, 4, 1, 0);

    cr_assert_eq(ps_range_used(&t, 0, 3), 0);
    cr_assert_eq(ps_range_at(&t, 1, 3), PS_PAGE);
    cr_assert_eq(ps_lane_chunks(&t, 3, 0), 0);
    ps_table_fini(&t);
}

Test(table, what_does_not_fit_is_refused_with_a_reason)
{
    const struct ps_var empty = { .name = "w", .elems = 0 },
                        huge = { .name = "h", .elems = UINT64_MAX / 2 };
    struct ps_table t;
    struct vb_err err;

    cr_assert_eq(
        ps_table_make(&(struct ps_table_params){ .var = &empty, .nvars = 1, .nps = 1 }, &t, &err),
        VB_INVAL);
    cr_assert(strstr(err.text, "w is empty") != NULL);
    cr_assert_eq(
        ps_table_make(&(struct ps_table_params){ .var = &huge, .nvars = 1, .nps = 1 }, &t, &err),
        VB_INVAL);
    cr_assert(strstr(err.text, "h") != NULL);
    cr_assert_eq(ps_table_make(&(struct ps_table_params){ .nps = 1 }, &t, &err), VB_INVAL);
}

Test(table, the_text_tells_two_layouts_apart)
{
    static const uint64_t a_sizes[] = { 10, 20 }, b_sizes[] = { 20, 10 };
    struct ps_table a = make(a_sizes, 2, 1, 1, 0), b = make(b_sizes, 2, 1, 1, 0);
    char ta[256], tb[256];

    ps_table_text(&a, ta, sizeof(ta));
    ps_table_text(&b, tb, sizeof(tb));
    cr_assert_str_neq(ta, tb);
    ps_table_fini(&a);
    ps_table_fini(&b);
}
