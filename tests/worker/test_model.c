/* From layers to a graph; first values; the checksum of the parameters. */
#include "worker/model.h"

#include "worker/feed.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static enum vb_st build(const struct model_layer *l, uint32_t n, struct model *m, uint32_t *bad,
                        struct vb_err *err)
{
    return model_build(l, n, &(struct model_input){ .rank = 1, .dim = { 784 } }, m, bad, err);
}

Test(model, an_mlp_has_its_variables_in_forward_order)
{
    static const struct model_layer l[] = {
        { "dense", 256 }, { "relu", 0 }, { "dense", 10 }, { "softmax_cross_entropy", 0 }
    };
    static const char *const names[] = { "dense1/weight", "dense1/bias", "dense2/weight",
                                         "dense2/bias" };
    struct model m;
    struct vb_err err;
    uint32_t bad = 0;

    cr_assert_eq(build(l, 4, &m, &bad, &err), VB_OK, "%s", err.text);
    cr_assert_eq(m.nvars, 4);
    cr_assert_eq(m.nparams, 784 * 256 + 256 + 256 * 10 + 10);
    cr_assert_eq(m.classes, 10);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_str_eq(m.var[i]->name, names[i]);
        cr_assert(gr_shape_eq(m.var[i]->shape, m.grad[i]->shape));
    }
    model_fini(&m);
}

Test(model, what_does_not_fit_names_the_layer_and_the_reason)
{
    static const struct {
        struct model_layer l[4];
        uint32_t n, bad;
        const char *says;
    } cases[] = {
        { { { "dense", 10 } }, 1, 1, "must be a loss" },
        { { { "relu", 0 }, { "softmax_cross_entropy", 0 } }, 2, 2, "nothing to learn" },
        { { { "dense", 10 }, { "softmax_cross_entropy", 0 }, { "relu", 0 } },
          3,
          2,
          "after the loss" },
        { { { "dens", 10 } }, 1, 0, "unknown layer 'dens'" },
        { { { "dense", 0 }, { "softmax_cross_entropy", 0 } }, 2, 0, "" },
        { { { "conv2d", 4 }, { "softmax_cross_entropy", 0 } }, 2, 0, "needs images" },
        { { { "embedding", 4 }, { "softmax_cross_entropy", 0 } }, 2, 0, "symbols" },
        { { { .type = "transformer_block", .heads = 2 } }, 1, 0, "a row for each position" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct model m;
        struct vb_err err = { 0 };
        uint32_t bad = 99;

        cr_assert_eq(build(cases[i].l, cases[i].n, &m, &bad, &err), VB_INVAL, "case %zu", i);
        cr_assert_eq(bad, cases[i].bad, "case %zu: layer %u", i, bad);
        cr_assert(strstr(err.text, cases[i].says) != NULL, "case %zu: %s", i, err.text);
    }
}

Test(model, every_layer_can_be_built_and_evaluated_without_dropout)
{
    static const struct {
        struct model_input in;
        struct model_layer l[8];
        uint32_t n, nvars;
        uint64_t outputs;
        bool differs;
    } cases[] = {
        { { GR_F32, 2, { 12, 10 }, 0, false },
          { { .type = "conv2d", .units = 4, .kernel = 3, .stride = 1, .padding = MODEL_SAME },
            { .type = "relu" },
            { .type = "max_pool", .kernel = 2 },
            { .type = "flatten" },
            { .type = "dropout", .rate = 0.5 },
            { .type = "dense", .units = 10 },
            { .type = "softmax_cross_entropy" } },
          7,
          4,
          10,
          true },
        { { GR_I32, 1, { 8 }, 20, false },
          { { .type = "embedding", .units = 12 },
            { .type = "position_embedding" },
            { .type = "transformer_block", .heads = 3 },
            { .type = "layer_norm", .eps = 1e-5 },
            { .type = "dense", .units = 20 },
            { .type = "softmax_cross_entropy" } },
          6,
          22,
          20,
          false },
        { { GR_F32, 1, { 5 }, 0, false },
          { { .type = "dense", .units = 1 }, { .type = "sigmoid_cross_entropy" } },
          2,
          2,
          1,
          false },
        { { GR_F32, 1, { 5 }, 0, true },
          { { .type = "dense", .units = 3 },
            { .type = "tanh" },
            { .type = "dense", .units = 1 },
            { .type = "squared_error" } },
          4,
          4,
          1,
          false },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct model m;
        struct vb_err err = { 0 };
        uint32_t bad = 0;

        cr_assert_eq(model_build(cases[i].l, cases[i].n, &cases[i].in, &m, &bad, &err), VB_OK,
                     "case %zu: layer %u: %s", i, bad, err.text);
        cr_assert(m.nvars == cases[i].nvars && m.outputs == cases[i].outputs, "case %zu: %u", i,
                  m.nvars);
        cr_assert_eq(m.eval_logits != m.logits, cases[i].differs);
        cr_assert(gr_shape_eq(m.eval_logits->shape, m.logits->shape));
        model_fini(&m);
    }
}

Test(model, first_values_depend_on_seed_and_name_alone)
{
    static const struct model_layer l[] = { { "dense", 16 }, { "softmax_cross_entropy", 0 } };
    static float a[784 * 16], b[784 * 16];
    struct model m;
    struct vb_err err;
    uint32_t bad = 0;
    double sum = 0;

    cr_assert_eq(build(l, 2, &m, &bad, &err), VB_OK);
    model_init(m.var[0], 1, a);
    model_init(m.var[0], 1, b);
    cr_assert_eq(memcmp(a, b, sizeof(a)), 0);
    model_init(m.var[0], 2, b);
    cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
    for (size_t i = 0; i < VB_ARRAY_LEN(a); i++) {
        cr_assert(fabsf(a[i]) <= (float)sqrt(6.0 / 800));
        sum += (double)a[i];
    }
    cr_assert(fabs(sum / VB_ARRAY_LEN(a)) < 0.005);
    model_init(m.var[1], 1, a);
    for (size_t i = 0; i < 16; i++)
        cr_assert(a[i] == 0.0f);
    model_fini(&m);
}

/* CRC32C by its definition (polynomial 0x1edc6f41, reflected), bit by bit. */
static uint32_t crc_ref(uint32_t crc, const void *p, size_t n)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < n; i++) {
        crc ^= b[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return crc;
}

Test(model, the_checksum_is_crc32c_over_variables_by_name)
{
    static const struct model_layer l[] = { { "dense", 3 }, { "softmax_cross_entropy", 0 } };
    static float w[784 * 3];
    float bias[3] = { 1, 2, 3 };
    const float *const value[] = { w, bias };
    struct model m;
    struct vb_err err;
    uint32_t bad = 0, crc = ~0u;

    cr_assert_eq(~crc_ref(~0u, "123456789", 9), 0xe3069283u);
    cr_assert_eq(build(l, 2, &m, &bad, &err), VB_OK);
    model_init(m.var[0], 5, w);
    crc = crc_ref(crc, bias, sizeof(bias)); /* "dense1/bias" < "dense1/weight" */
    crc = crc_ref(crc, w, sizeof(w));
    cr_assert_eq(model_crc32c(&m, value), ~crc);
    model_fini(&m);
}

Test(feed, micro_batches_cover_a_batch_exactly_once)
{
    for (uint64_t rows = 1; rows <= 103; rows += 3)
        for (uint64_t nv = 1; nv <= 12; nv++) {
            uint64_t at = 0;

            for (uint64_t v = 0; v < nv; v++) {
                uint64_t from = 0;
                const uint64_t n = feed_micro_batch(rows, v, nv, &from);

                cr_assert_eq(from, at);
                at += n;
            }
            cr_assert_eq(at, rows);
        }
}
