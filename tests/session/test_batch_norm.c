/* Batch norm as it is used: moving averages of what training saw are what inference normalises with. */
#include "verbena/ops.h"
#include "verbena/session.h"

#include <criterion/criterion.h>
#include <math.h>

enum { ROWS = 64, COLS = 2, STEPS = 200 };
static const float centre[COLS] = { 3, -1 }, width[COLS] = { 2, 0.5f };

static struct vb_node *variance_of(struct vb_graph *g, struct vb_node *x, struct vb_node *mean)
{
    return vb_reduce(g, "reduce_mean", vb_square(g, vb_sub(g, x, mean)), 1, false);
}

Test(batch_norm, learns_the_averages_that_inference_uses)
{
    const float first[] = { 1, 1 };
    struct vb_graph *g = vb_graph_new();
    struct vb_node *noise = vb_random(g, "random_normal", VB_SHAPE(ROWS, COLS), 5),
                   *x = vb_add(g, vb_mul(g, noise, vb_constant(g, VB_F32, VB_SHAPE(COLS), width)),
                               vb_constant(g, VB_F32, VB_SHAPE(COLS), centre)),
                   *gain = vb_variable(g, "gain", VB_SHAPE(COLS), first),
                   *bias = vb_variable(g, "bias", VB_SHAPE(COLS), NULL),
                   *mean = vb_variable(g, "mean", VB_SHAPE(COLS), NULL),
                   *variance = vb_variable(g, "variance", VB_SHAPE(COLS), first),
                   *m = vb_reduce(g, "reduce_mean", x, 1, false),
                   *trained = vb_batch_norm(g, x, gain, bias, NULL, NULL, 1e-5),
                   *row = vb_placeholder(g, "row", VB_F32, VB_SHAPE(VB_BATCH, COLS)),
                   *used = vb_batch_norm(g, row, gain, bias, mean, variance, 1e-5);
    struct vb_node *step[] = { vb_moving(g, mean, m, 0.05),
                               vb_moving(g, variance, variance_of(g, x, m), 0.05),
                               vb_reduce(g, "reduce_mean", trained, 1, false),
                               vb_reduce(g, "reduce_mean", vb_square(g, trained), 1, false) };
    struct vb_session *s = NULL;
    struct vb_tensor out[4];
    const char *why = "";

    cr_assert_eq(vb_graph_status(g, &why), VB_OK, "%s", why);
    cr_assert_eq(vb_session_open(NULL, g, &s, NULL), VB_OK);
    for (int i = 0; i < STEPS; i++) {
        cr_assert_eq(vb_run(s, NULL, 0, step, 4, out, NULL), VB_OK);
        for (int c = 0; c < COLS; c++) {
            cr_assert_float_eq(((float *)out[2].data)[c], 0, 1e-5);
            cr_assert_float_eq(((float *)out[3].data)[c], 1, 1e-3);
        }
    }
    float at[2][COLS] = { { centre[0], centre[1] },
                          { centre[0] + width[0], centre[1] + width[1] } };
    const struct vb_feed feed = { row, { VB_F32, VB_SHAPE(2, COLS), at } };

    cr_assert_eq(vb_run(s, &feed, 1, &used, 1, out, NULL), VB_OK);
    for (int c = 0; c < COLS; c++) {
        cr_assert_float_eq(((float *)out[0].data)[c], 0, 0.1);
        cr_assert_float_eq(((float *)out[0].data)[COLS + c], 1, 0.1);
    }
    vb_session_close(s);
    vb_graph_free(g);
}
