/*
 * Every read of every worker over the loop transport, with delays, reordering and duplicates: a variable has a slot for each
 * worker that counts its pushes, so what is read tells what it holds. At clock c with bound s a worker must see
 *   of itself exactly c                        its own writes
 *   of others at least c - s                   nothing from before the window is missing
 *   of others at most what they have pushed    each push once
 *   of others at most c + s + 1                nobody is further ahead than the bound lets him
 */
#include "rig.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { VARS = 4, SLOTS = 16 };

static const uint64_t sizes[VARS] = { SLOTS, SLOTS, SLOTS, SLOTS };

struct witness {
    struct rig r;
    uint32_t s;
    uint64_t clock[RIG_WORKERS_MAX];
    uint64_t reads, behind;
};

static bool at_clock(const struct witness *t, uint32_t w)
{
    for (uint32_t v = 0; v < VARS; v++)
        if (exchange_round(t->r.x[w], v) != t->clock[w])
            return false;
    return true;
}

static void check_read(struct witness *t, uint32_t w)
{
    const uint64_t c = t->clock[w];

    for (uint32_t v = 0; v < VARS; v++)
        for (uint32_t i = 0; i < t->r.p.nworkers; i++) {
            const uint64_t n = (uint64_t)exchange_param(t->r.x[w], v)[i];

            cr_assert(
                i == w ? n == c : n + t->s >= c && n <= t->clock[i] && n <= c + t->s + 1,
                "%u workers, %u ps, s %u, seed %lu: worker %u at clock %lu reads %lu of worker %u "
                "at %lu",
                t->r.p.nworkers, t->r.p.nps, t->s, t->r.p.seed, w, c, n, i, t->clock[i]);
            t->behind += n < c;
            t->reads++;
        }
}

static void push(struct witness *t, uint32_t w)
{
    const struct vb_perm order = vb_perm_make(t->r.table.nchunks, t->r.p.seed + w, t->clock[w]);

    for (uint32_t v = 0; v < VARS; v++)
        for (uint32_t i = 0; i < SLOTS; i++)
            exchange_grad(t->r.x[w], v)[i] = i == w ? -1 : 0;
    /* in sync the sum is divided by all samples */
    for (uint32_t k = 0; k < t->r.table.nchunks; k++)
        exchange_push(t->r.x[w], (uint32_t)vb_perm_at(&order, k), t->clock[w], t->s > 0 || w == 0,
                      1);
    t->clock[w]++;
}

/* Of those that may go on each does so by chance, so some run ahead as far as they may. */
static void run(struct witness *t, uint64_t reads)
{
    for (uint64_t n = 0, last = 0; t->reads < reads; n++) {
        cr_assert(rig_progress(&t->r) && n < last + 100000, "it stands still at %lu reads",
                  t->reads);
        for (uint32_t w = 0; w < t->r.p.nworkers; w++) {
            if (vb_random_u64(t->r.p.seed, w, n) % 8 > w % 4 || !at_clock(t, w))
                continue;
            check_read(t, w);
            push(t, w);
            last = n;
        }
    }
}

static void witness(uint32_t s, uint32_t nworkers, uint32_t nps, uint64_t seed, uint64_t reads)
{
    struct witness *t = calloc(1, sizeof(*t));
    const struct rig_params p = {
        .elems = sizes,
        .nvars = VARS,
        .nps = nps,
        .nworkers = nworkers,
        .nlanes = 1 + seed % 2,
        .chunk_bytes = SLOTS * sizeof(float),
        .landing_bytes = seed % 3 == 0 ? 1 : 1 << 20,
        .cls[0] = { .rule = { s > 0 ? PS_SSP : PS_SYNC, s, s, 0 },
                    .optimizer = { .kind = KN_SGD, .rate = 1 } },
        .seed = seed,
        .knobs = { .delay = 0.4f,
                   .reorder = 0.2f,
                   .duplicate = seed % 2 ? 0.1f : 0,
                   .place = seed % 2 == 0 },
    };

    cr_assert_not_null(t);
    t->s = s;
    rig_open(&t->r, &p);
    for (uint32_t c = 0; c < t->r.table.nchunks; c++)
        exchange_init(t->r.x[0], c);
    run(t, reads);
    /* nothing behind would show nothing about the bound */
    cr_assert(s == 0 ? t->behind == 0 : nworkers == 1 || t->behind > 0);
    rig_close(&t->r);
    free(t);
}

static void grid(uint32_t s)
{
    const uint64_t reads = getenv("VB_LONG") != NULL ? 1000000 : 10000;
    uint64_t seed = 1;

    for (uint32_t nworkers = 1; nworkers <= 8; nworkers++)
        for (uint32_t nps = 1; nps <= 4; nps++)
            witness(s, nworkers, nps, seed++, reads);
}

Test(witness, s_0)
{
    grid(0);
}
Test(witness, s_1)
{
    grid(1);
}
Test(witness, s_2)
{
    grid(2);
}
Test(witness, s_3)
{
    grid(3);
}
Test(witness, s_7)
{
    grid(7);
}
