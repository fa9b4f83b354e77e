#include "cluster/coord.h"

#include <criterion/criterion.h>
#include <string.h>

static struct cl_spec spec; /* 2 ps, 3 workers: ranks 2, 3, 4 */
static struct coord c;

static void set_up(void)
{
    static const char text[] = "{\"ps\":[\"a:1\",\"a:2\"],\"worker\":[\"b:1\",\"b:2\",\"b:3\"]}";
    struct vb_err err;

    cr_assert_eq(cl_spec_parse(text, strlen(text), &spec, &err), VB_OK);
    cr_assert_eq(coord_init(&c, &spec, 0), VB_OK);
}

static void tear_down(void)
{
    coord_fini(&c);
    cl_spec_fini(&spec);
}

TestSuite(coord, .init = set_up, .fini = tear_down);

static void start(void)
{
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
        coord_in(&c, i);
        cr_assert_eq(coord_ready(&c, i), VB_OK);
    }
    cr_assert_eq(coord_next(&c).act, COORD_START);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
}

static enum vb_st give(uint32_t rank, uint32_t tag, uint32_t n, double v)
{
    return coord_reduce(&c, rank, &(struct wire_reduce){ .tag = tag, .n = n, .v = { v, 2 * v } });
}

Test(coord, the_run_starts_once_when_all_are_ready)
{
    start();
    cr_assert_eq(coord_ready(&c, 1), VB_PROTO);
}

Test(coord, who_is_missing_is_first_who_is_not_in_then_who_is_not_ready)
{
    uint32_t r[2];

    cr_assert_eq(coord_missing(&c, r, 2), 5);
    for (uint32_t i = 0; i < 4; i++) {
        coord_in(&c, i);
        cr_assert_eq(coord_ready(&c, i), VB_OK);
    }
    cr_assert(coord_missing(&c, r, 2) == 1 && r[0] == 4);
    coord_in(&c, 4);
    cr_assert(coord_missing(&c, r, 2) == 1 && r[0] == 4);
    cr_assert_eq(coord_ready(&c, 4), VB_OK);
    cr_assert_eq(coord_missing(&c, r, 2), 0);
}

Test(coord, sums_go_in_rank_order_whatever_the_order_of_arrival)
{
    static const double v[3] = { 1e16, 1.0, -1e16 };
    static const uint32_t order[6][3] = { { 2, 3, 4 }, { 2, 4, 3 }, { 3, 2, 4 },
                                          { 3, 4, 2 }, { 4, 2, 3 }, { 4, 3, 2 } };
    const double want = (v[0] + v[1]) + v[2];

    start();
    for (uint32_t tag = 0; tag < 6; tag++) {
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
            cr_assert_eq(give(order[tag][i], tag, 2, v[order[tag][i] - 2]), VB_OK);
        }
        const struct coord_out out = coord_next(&c);

        cr_assert(out.act == COORD_REDUCED && out.sum.tag == tag && out.sum.n == 2);
        cr_assert(out.sum.v[0] == want && out.sum.v[1] == 2 * want);
    }
}

Test(coord, so_many_tags_are_open_at_most_and_they_end_in_order)
{
    start();
    for (uint32_t tag = 0; tag < COORD_OPEN; tag++)
        cr_assert(give(2, tag, 1, 1) == VB_OK && give(3, tag, 1, 1) == VB_OK);
    cr_assert_eq(give(2, COORD_OPEN, 1, 1), VB_PROTO);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    cr_assert_eq(give(4, 0, 1, 1), VB_OK);
    cr_assert_eq(coord_next(&c).sum.tag, 0);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    cr_assert_eq(give(2, COORD_OPEN, 1, 1), VB_OK);
}

Test(coord, reductions_that_make_no_sense_are_refused)
{
    cr_assert_eq(give(2, 0, 1, 1), VB_PROTO); /* not started */
    start();
    cr_assert_eq(give(1, 0, 1, 1), VB_PROTO); /* a ps */
    cr_assert_eq(give(2, 1, 1, 1), VB_PROTO); /* not its next tag */
    cr_assert_eq(give(2, 0, 0, 1), VB_PROTO);
    cr_assert_eq(give(2, 0, 9, 1), VB_PROTO);
    cr_assert_eq(give(2, 0, 2, 1), VB_OK);
    cr_assert_eq(give(2, 0, 2, 1), VB_PROTO); /* twice */
    cr_assert_eq(give(3, 0, 1, 1), VB_PROTO); /* another n */
    cr_assert_eq(coord_finish(&c, 2), VB_OK);
    cr_assert_eq(give(2, 1, 2, 1), VB_PROTO); /* finished */
}

Test(coord, a_finished_worker_is_left_out_of_later_sums)
{
    start();
    cr_assert(give(2, 0, 1, 1) == VB_OK && give(3, 0, 1, 2) == VB_OK);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    cr_assert_eq(coord_finish(&c, 4), VB_OK);
    const struct coord_out out = coord_next(&c);

    cr_assert(out.act == COORD_REDUCED && out.sum.v[0] == 3);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
}

Test(coord, the_run_ends_when_all_workers_have_finished)
{
    cr_assert_eq(coord_finish(&c, 2), VB_PROTO); /* not started */
    start();
    cr_assert_eq(coord_finish(&c, 0), VB_PROTO); /* a ps */
    for (uint32_t i = 2; i < 5; i++) {
        cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
        cr_assert_eq(coord_finish(&c, i), VB_OK);
        cr_assert_eq(coord_finish(&c, i), VB_PROTO);
    }
    cr_assert_eq(coord_next(&c).act, COORD_END);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
}

/* ---- who makes a step: the first 2 of 3 workers that both ps have ---- */

static enum vb_st count(uint32_t worker, uint64_t clock)
{
    return coord_counted(&c, &(struct wire_counted){ .worker = worker, .clock = clock });
}

static void start_sets(void)
{
    coord_fini(&c);
    cr_assert_eq(coord_init(&c, &spec, 2), VB_OK);
    start();
}

Test(coord, the_first_workers_that_every_ps_has_make_the_step)
{
    start_sets();
    cr_assert(count(2, 0) == VB_OK && count(0, 0) == VB_OK && count(1, 0) == VB_OK);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    cr_assert(count(0, 0) == VB_OK && coord_next(&c).act == COORD_NOTHING);
    cr_assert_eq(count(2, 0), VB_OK);
    const struct coord_out out = coord_next(&c);

    cr_assert(out.act == COORD_SET && out.set.clock == 0 && out.set.bits[0] == 5);
    cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    cr_assert_eq(count(1, 0), VB_OK); /* too late */
    for (uint32_t w = 0; w < 3; w++)
        cr_assert(count(w, 1) == VB_OK && (w == 2 || count(w, 1) == VB_OK));
    cr_assert_eq(coord_next(&c).set.bits[0], 3);
}

Test(coord, counts_that_make_no_sense_are_refused)
{
    cr_assert_eq(count(0, 0), VB_PROTO); /* all make every step */
    start_sets();
    cr_assert_eq(count(3, 0), VB_PROTO); /* no such worker */
    cr_assert_eq(count(0, 1), VB_PROTO); /* a step that is to come */
    cr_assert_eq(count(UINT32_MAX, 0), VB_PROTO);
    cr_assert(count(0, 0) == VB_OK && count(0, 0) == VB_OK);
    cr_assert_eq(count(0, 0), VB_PROTO); /* there are two ps */
}

/* Words that are added one by one: a sum that does not depend on the order. */
static void add_words(uint32_t *sum, const uint32_t *other)
{
    for (unsigned i = 0; i < WIRE_NORM_WORDS; i++)
        sum[i] += other[i];
}

static void start_norms(uint32_t count, uint32_t nps)
{
    const struct coord_norms n = { .count = count, .nps = nps, .merge = add_words };

    cr_assert_eq(coord_init_norms(&c, &n), VB_OK);
    start();
}

static enum vb_st part(uint32_t rank, uint64_t clock, uint32_t first, uint32_t n, uint32_t value)
{
    struct wire_norm m = { .clock = clock, .first = first, .n = n };

    for (uint32_t i = 0; i < WIRE_NORM_SUMS && i < n; i++)
        m.sum[i][WIRE_NORM_WORDS - 1] = value + first + i;
    return coord_norm(&c, rank, &m);
}

Test(coord, sums_over_all_ps_are_told_when_each_has_given_all_of_them)
{
    start_norms(12, 2);
    for (uint64_t clock = 0; clock < 3; clock++) {
        const uint32_t early = clock % 2, late = 1 - early;

        cr_assert_eq(part(early, clock, 0, 10, 100), VB_OK);
        cr_assert_eq(part(early, clock, 10, 2, 100), VB_OK);
        cr_assert_eq(part(late, clock, 0, 10, 1000), VB_OK);
        cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
        cr_assert_eq(part(late, clock, 10, 2, 1000), VB_OK);
        for (uint32_t first = 0; first < 12; first += 10) {
            const struct coord_out out = coord_next(&c);
            const uint32_t n = first == 0 ? 10 : 2;

            cr_assert(out.act == COORD_NORMED && out.norm.clock == clock);
            cr_assert(out.norm.first == first && out.norm.n == n);
            for (uint32_t i = 0; i < WIRE_NORM_SUMS; i++)
                cr_assert_eq(out.norm.sum[i][WIRE_NORM_WORDS - 1],
                             i < n ? 1100 + 2 * (first + i) : 0);
        }
        cr_assert_eq(coord_next(&c).act, COORD_NOTHING);
    }
}

Test(coord, parts_of_sums_that_make_no_sense_are_refused)
{
    cr_assert_eq(part(0, 0, 0, 1, 1), VB_PROTO); /* no sums are made */
    start_norms(12, 1);
    cr_assert_eq(part(1, 0, 0, 10, 1), VB_PROTO); /* it has no chunk */
    cr_assert_eq(part(2, 0, 0, 10, 1), VB_PROTO); /* a worker */
    cr_assert_eq(part(0, 1, 0, 10, 1), VB_PROTO); /* a step that is to come */
    cr_assert_eq(part(0, 0, 10, 2, 1), VB_PROTO); /* not its next */
    cr_assert_eq(part(0, 0, 0, 9, 1), VB_PROTO);
    cr_assert_eq(part(0, 0, 0, UINT32_MAX, 1), VB_PROTO);
    cr_assert_eq(part(0, 0, 0, 10, 1), VB_OK);
    cr_assert_eq(part(0, 0, 0, 10, 1), VB_PROTO); /* twice */
    cr_assert_eq(part(0, 0, 10, 3, 1), VB_PROTO); /* more than there are */
    cr_assert_eq(part(0, 0, 10, 2, 1), VB_OK);
    cr_assert_eq(part(0, 0, 12, 0, 1), VB_PROTO); /* all are given */
}
