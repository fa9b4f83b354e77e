/*
 * The executor: what runs when, and when a chunk may be pushed. As soon as a chunk is released its
 * variables are overwritten here, as a parameter server may do: every number must still be right.
 */
#include "worker/exec.h"

#include "base/random.h"
#include "kernels/kn.h"
#include "ops/ops.h"
#include "worker/model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { ROWS = 7, FEATURES = 5, VARS_MAX = 8, ELEMS_MAX = 64, CHUNKS = VARS_MAX };

/* One chunk per variable; a stand-in for the exchange. */
struct fake {
    float value[VARS_MAX][ELEMS_MAX], grad[3][VARS_MAX][ELEMS_MAX];
    bool landed[VARS_MAX], overwrite;
    uint32_t nvars, waits, released[CHUNKS], order[CHUNKS], nreleased;
    float x[ROWS * FEATURES];
    int32_t y[ROWS];
};

static bool var_ready(void *arg, uint32_t var)
{
    return ((struct fake *)arg)->landed[var];
}

/* One more variable lands with each wait: the last one first. */
static enum vb_st wait_one(void *arg)
{
    struct fake *f = arg;

    f->waits++;
    for (uint32_t v = f->nvars; v-- > 0;)
        if (!f->landed[v]) {
            f->landed[v] = true;
            return VB_OK;
        }
    return VB_TIMEOUT;
}

static void no_poll(void *arg) {}

static void release(void *arg, uint32_t chunk)
{
    struct fake *f = arg;

    f->released[chunk]++;
    f->order[f->nreleased++] = chunk;
    for (uint32_t i = 0; f->overwrite && i < ELEMS_MAX; i++)
        f->value[chunk][i] = NAN;
}

static struct fake *fake_make(uint32_t nvars, bool overwrite)
{
    struct fake *f = calloc(1, sizeof(*f));

    cr_assert(f != NULL && nvars <= VARS_MAX);
    f->nvars = nvars;
    f->overwrite = overwrite;
    for (uint32_t v = 0; v < nvars; v++)
        for (uint32_t i = 0; i < ELEMS_MAX; i++)
            f->value[v][i] = vb_random_f32(3, v, i) - 0.5f;
    for (uint32_t i = 0; i < ROWS * FEATURES; i++)
        f->x[i] = vb_random_f32(3, 99, i);
    for (uint32_t i = 0; i < ROWS; i++)
        f->y[i] = (int32_t)(i % 3);
    return f;
}

static struct exec *exec_make(struct fake *f, const struct graph *g, struct gr_node *const *var,
                              struct gr_node *const *grad, struct gr_node *const *fetch)
{
    struct exec_var ev[VARS_MAX];
    struct exec *e = NULL;
    struct vb_err err = { 0 };

    for (uint32_t v = 0; v < f->nvars; v++) {
        ev[v] = (struct exec_var){
            .node = var[v], .grad = grad[v], .value = f->value[v], .first_chunk = v, .nchunks = 1
        };
        for (uint32_t d = 0; d < 3; d++)
            ev[v].grad_at[d] = f->grad[d][v];
    }
    const struct exec_params p = { .graph = g,
                                   .fetch = fetch,
                                   .nfetch = 1,
                                   .var = ev,
                                   .nvars = f->nvars,
                                   .nchunks = f->nvars,
                                   .max_rows = ROWS,
                                   .var_ready = var_ready,
                                   .wait = wait_one,
                                   .poll = no_poll,
                                   .release = release,
                                   .arg = f };

    cr_assert_eq(exec_open(&p, &e, &err), VB_OK, "%s", err.text);
    return e;
}

static struct model mlp(void)
{
    static const struct model_layer layers[] = {
        { "dense", 4 }, { "relu", 0 }, { "dense", 3 }, { "softmax_cross_entropy", 0 }
    };
    struct model m;
    uint32_t bad = 0;
    struct vb_err err = { 0 };

    cr_assert_eq(model_build(layers, 4, &(struct model_input){ .rank = 1, .dim = { FEATURES } }, &m,
                             &bad, &err),
                 VB_OK, "%s", err.text);
    return m;
}

/* Gradients of the model over the rows in `parts` micro-batches. */
static struct fake *run_model(const struct model *m, uint64_t parts, bool overwrite)
{
    struct fake *f = fake_make(m->nvars, overwrite);
    struct exec *e = exec_make(f, m->graph, m->var, m->grad, &m->loss);

    for (uint64_t i = 0; i < parts; i++) {
        const uint64_t from = i * ROWS / parts;
        struct exec_run r = exec_tree_place(i, parts);

        r.rows = (i + 1) * ROWS / parts - from;
        exec_feed(e, m->x, f->x + from * FEATURES);
        exec_feed(e, m->labels, f->y + from);
        cr_assert_eq(exec_run(e, &r), VB_OK);
    }
    exec_close(e);
    return f;
}

Test(exec, every_chunk_is_released_once_and_late_enough)
{
    struct model m = mlp();
    struct fake *kept = run_model(&m, 1, false), *gone = run_model(&m, 1, true);

    for (uint32_t v = 0; v < m.nvars; v++) {
        cr_assert_eq(gone->released[v], 1);
        cr_assert_eq(memcmp(kept->grad[0][v], gone->grad[0][v], sizeof(kept->grad[0][v])), 0,
                     "the gradient of %s was computed from an overwritten variable",
                     m.var[v]->name);
    }
    free(kept);
    free(gone);
    model_fini(&m);
}

Test(exec, the_last_layer_leaves_first_before_the_first_layer_is_done)
{
    struct model m = mlp();
    struct fake *f = run_model(&m, 1, true);

    cr_assert(f->order[0] >= 2, "dense2 leaves before dense1");
    cr_assert(f->order[m.nvars - 1] <= 1);
    free(f);
    model_fini(&m);
}

Test(exec, a_reader_that_runs_after_the_gradient_holds_the_chunk_back)
{
    /* w has its gradient early, but z = x w is still to run when the gradient is written. */
    struct graph *g = NULL;
    struct gr_node *x, *dy, *w, *grad, *z;
    struct vb_err err;
    const struct gr_attr transposed = { .i = { true } };
    const struct gr_shape sx = { .rank = 2, .dim = { GR_BATCH, 5 } },
                          sdy = { .rank = 2, .dim = { GR_BATCH, 3 } },
                          sw = { .rank = 2, .dim = { 5, 3 } };

    cr_assert_eq(gr_new(&g), VB_OK);
    cr_assert_eq(gr_add_placeholder(g, "x", GR_F32, sx, &x, &err), VB_OK);
    cr_assert_eq(gr_add_placeholder(g, "dy", GR_F32, sdy, &dy, &err), VB_OK);
    cr_assert_eq(gr_add_variable(g, "w", sw, &w, &err), VB_OK);
    struct gr_node *const in_grad[] = { x, dy }, *const in_z[] = { x, w };

    cr_assert_eq(gr_add(g, op_find("matmul"), "grad", in_grad, &transposed, &grad, &err), VB_OK);
    cr_assert_eq(gr_add(g, op_find("matmul"), "z", in_z, NULL, &z, &err), VB_OK);

    struct fake *f = fake_make(1, true);
    struct exec *e = exec_make(f, g, &w, &grad, &z);
    float dys[ROWS * 3] = { 1, 2, 3 };
    const struct exec_run r = { .rows = ROWS, .last = true };

    exec_feed(e, x, f->x);
    exec_feed(e, dy, dys);
    cr_assert_eq(exec_run(e, &r), VB_OK);
    cr_assert_eq(f->released[0], 1);
    for (uint32_t i = 0; i < ROWS * 3; i++)
        cr_assert(!isnan(exec_output(e, z)[i]), "z was computed from an overwritten variable");
    exec_close(e);
    free(f);
    gr_free(g);
}

Test(exec, an_op_starts_when_its_own_variable_has_landed)
{
    struct model m = mlp();
    struct fake *f = run_model(&m, 1, false);

    /* variables land last to first, one a wait: no wait may be skipped, none is in vain */
    cr_assert_eq(f->waits, m.nvars);
    free(f);
    model_fini(&m);
}

Test(exec, micro_batches_add_up_as_a_tree)
{
    struct model m = mlp();

    for (uint64_t parts = 1; parts <= ROWS; parts++) {
        struct fake *all = run_model(&m, parts, true);
        const size_t n = gr_elems(m.var[0]->shape, 0);
        float leaf[ROWS][ELEMS_MAX];
        uint64_t count = parts;

        for (uint64_t i = 0; i < parts; i++) { /* each micro-batch alone */
            struct fake *f = fake_make(m.nvars, false);
            struct exec *e = exec_make(f, m.graph, m.var, m.grad, &m.loss);
            const uint64_t from = i * ROWS / parts;

            exec_feed(e, m.x, f->x + from * FEATURES);
            exec_feed(e, m.labels, f->y + from);
            cr_assert_eq(exec_run(e, &(struct exec_run){ .rows = (i + 1) * ROWS / parts - from }),
                         VB_OK);
            memcpy(leaf[i], f->grad[0][0], sizeof(leaf[i]));
            exec_close(e);
            free(f);
        }
        for (; count > 1; count = (count + 1) / 2)
            for (uint64_t i = 0; i < count; i += 2)
                for (size_t k = 0; k < n; k++)
                    leaf[i / 2][k] = i + 1 < count ? leaf[i][k] + leaf[i + 1][k] : leaf[i][k];
        cr_assert_eq(memcmp(leaf[0], all->grad[0][0], n * sizeof(float)), 0, "%lu parts", parts);
        free(all);
    }
    model_fini(&m);
}

Test(exec, a_micro_batch_without_samples_gives_zero_gradients)
{
    struct model m = mlp();
    struct fake *f = fake_make(m.nvars, true);
    struct exec *e = exec_make(f, m.graph, m.var, m.grad, &m.loss);

    memset(f->grad, 1, sizeof(f->grad));
    exec_feed(e, m.x, f->x);
    exec_feed(e, m.labels, f->y);
    cr_assert_eq(exec_run(e, &(struct exec_run){ .rows = 0, .last = true }), VB_OK);
    for (uint32_t v = 0; v < m.nvars; v++)
        for (uint64_t i = 0; i < gr_elems(m.var[v]->shape, 0); i++)
            cr_assert(f->grad[0][v][i] == 0.0f);
    cr_assert(exec_output(e, m.loss)[0] == 0.0f);
    exec_close(e);
    free(f);
    model_fini(&m);
}
