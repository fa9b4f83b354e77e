/* Workers and parameter servers over the loop transport: the numbers are those of one process. */
#include "rig.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint64_t sizes[] = { 5000, 3, 20000, 64, 1, 700 };

static void check_params(struct rig *r, uint64_t steps)
{
    float *want = rig_reference(r, steps);

    for (uint32_t w = 0; w < r->p.nworkers; w++)
        for (uint32_t v = 0; v < r->table.nvars; v++)
            cr_assert_eq(memcmp(exchange_param(r->x[w], v), want + r->table.var[v].offset / 4,
                                r->table.var[v].elems * sizeof(float)),
                         0, "worker %u, variable %u", w, v);
    free(want);
}

static void run(struct rig_params p, uint64_t steps)
{
    struct rig r;

    p.elems = sizes;
    p.nvars = VB_ARRAY_LEN(sizes);
    rig_open(&r, &p);
    cr_assert(rig_train(&r, steps), "%u ps, %u workers, seed %lu", p.nps, p.nworkers, p.seed);
    check_params(&r, steps);
    rig_close(&r);
}

static const struct kn_opt sgd = { .kind = KN_SGD, .rate = 0.1f };

Test(exchange, any_number_of_tasks_gives_the_bits_of_one_process)
{
    static const uint32_t workers[] = { 1, 2, 3, 4, 5, 8 };

    for (size_t i = 0; i < VB_ARRAY_LEN(workers); i++)
        for (uint32_t nps = 1; nps <= 3; nps++)
            run((struct rig_params){ .nps = nps,
                                     .nworkers = workers[i],
                                     .chunk_bytes = 4096,
                                     .landing_bytes = 1 << 20,
                                     .cls[0].optimizer = sgd },
                3);
}

Test(exchange, every_optimizer_keeps_its_state_with_its_chunk)
{
    static const struct kn_opt opt[] = {
        { .kind = KN_SGD, .rate = 0.1f },
        { .kind = KN_MOMENTUM, .rate = 0.1f, .beta1 = 0.9f },
        { .kind = KN_ADAM, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(opt); i++)
        for (uint32_t lanes = 1; lanes <= 3; lanes++)
            run((struct rig_params){ .nps = 2,
                                     .nworkers = 3,
                                     .nlanes = lanes,
                                     .chunk_bytes = 8192,
                                     .landing_bytes = 1 << 20,
                                     .cls[0].optimizer = opt[i] },
                4);
}

Test(exchange, classes_have_optimizers_and_lanes_of_their_own)
{
    static const struct kn_opt adam = {
        .kind = KN_ADAM, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f
    };

    for (uint32_t second = 1; second < VB_ARRAY_LEN(sizes); second++)
        for (uint64_t seed = 0; seed <= 3; seed++)
            run((struct rig_params){ .nps = 1 + second % 3,
                                     .nworkers = 3,
                                     .nlanes = 1 + second % 2,
                                     .chunk_bytes = 4096,
                                     .landing_bytes = seed % 2 == 0 ? 1 : 1 << 20,
                                     .cls = { { .optimizer = sgd }, { .optimizer = adam } },
                                     .second_var = second,
                                     .seed = seed,
                                     .knobs = { .place = seed > 1, .delay = 0.5f } },
                4);
}

Test(exchange, delays_reordering_and_duplicates_change_nothing)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        run((struct rig_params){ .nps = 2,
                                 .nworkers = 4,
                                 .chunk_bytes = 4096,
                                 .landing_bytes = 1 << 20,
                                 .cls[0].optimizer = sgd,
                                 .seed = seed,
                                 .knobs = { .delay = 0.5f, .reorder = 0.3f, .duplicate = 0.2f } },
            5);
}

Test(exchange, gradients_that_cannot_be_viewed_land_in_the_lanes_memory)
{
    for (uint64_t seed = 0; seed <= 5; seed++)
        run((struct rig_params){ .nps = 2,
                                 .nworkers = 3,
                                 .chunk_bytes = 4096,
                                 .landing_bytes = 1 << 20,
                                 .cls[0].optimizer = sgd,
                                 .seed = seed,
                                 .knobs = { .place = true, .delay = 0.5f, .reorder = 0.3f } },
            4);
}

Test(exchange, one_chunk_of_landing_memory_is_enough)
{
    for (uint64_t seed = 0; seed <= 10; seed++)
        run((struct rig_params){ .nps = 1,
                                 .nworkers = 5,
                                 .chunk_bytes = 4096,
                                 .landing_bytes = 1,
                                 .cls[0].optimizer = sgd,
                                 .seed = seed,
                                 .knobs = { .place = true, .delay = 0.5f } },
            4);
}

Test(exchange, a_finished_worker_leaves_and_the_others_go_on)
{
    struct rig r;
    const struct rig_params p = { .elems = sizes,
                                  .nvars = VB_ARRAY_LEN(sizes),
                                  .nps = 2,
                                  .nworkers = 2,
                                  .chunk_bytes = 4096,
                                  .landing_bytes = 1 << 20,
                                  .cls[0].optimizer = sgd };

    rig_open(&r, &p);
    cr_assert(rig_train(&r, 2));
    exchange_finish(r.x[1], 2);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(rig_progress(&r));
    cr_assert(exchange_idle(r.x[1]));
    for (uint32_t c = 0; c < r.table.nchunks; c++)
        exchange_push(r.x[0], c, 2, 10, 10);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(rig_progress(&r));
    for (uint32_t v = 0; v < r.table.nvars; v++)
        cr_assert_eq(exchange_round(r.x[0], v), 3);
    rig_close(&r);
}

Test(exchange, it_says_which_ps_it_waits_for)
{
    struct rig r;
    const struct rig_params p = { .elems = sizes,
                                  .nvars = VB_ARRAY_LEN(sizes),
                                  .nps = 2,
                                  .nworkers = 1,
                                  .chunk_bytes = 4096,
                                  .landing_bytes = 1 << 20,
                                  .cls[0].optimizer = sgd };
    uint32_t ps = 9;

    rig_open(&r, &p);
    cr_assert(rig_train(&r, 1));
    cr_assert(!exchange_missing(r.x[0], 1, &ps));
    for (uint32_t c = 0; c < r.table.nchunks && r.table.chunk[c].ps == 0; c++)
        exchange_push(r.x[0], c, 1, 10, 10);
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(rig_progress(&r));
    cr_assert(exchange_missing(r.x[0], 2, &ps));
    cr_assert_eq(ps, 1);
    rig_close(&r);
}
