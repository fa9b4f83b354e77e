/*
 * random_uniform(; rank, dim0..5, seed) -> [0, 1) and random_normal -> mean 0, variance 1 (Box & Muller 1958); dropout(x; rate, seed)
 * -> each element 0 with the probability rate, else x / (1 - rate) (Srivastava et al. 2014); its gradient drops the same.
 * Number i depends on seed, the run and i alone, so it is the same on any machine and another one in each run.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include "base/random.h"

#include <math.h>

enum { RANK, DIM, SEED = DIM + GR_RANK_MAX };
static const char *const shape_ints[] = { "rank", "dim0", "dim1", "dim2", "dim3",
                                          "dim4", "dim5", "seed", NULL };
enum { DROP_SEED };
static const char *const drop_ints[] = { "seed", NULL };
enum { RATE };
static const char *const drop_reals[] = { "rate", NULL };

static enum vb_st random_infer(struct gr_node *n, struct vb_err *err)
{
    const int64_t rank = n->attr.i[RANK];

    if (rank < 0 || rank > GR_RANK_MAX)
        return op_misfit(n, "the rank is not 0 to 6", err);
    n->dtype = GR_F32;
    n->shape.rank = (uint32_t)rank;
    for (int64_t i = 0; i < rank; i++) {
        if (n->attr.i[DIM + i] <= 0)
            return op_misfit(n, "a dimension is not positive", err);
        n->shape.dim[i] = (uint64_t)n->attr.i[DIM + i];
    }
    return VB_OK;
}

static void uniform_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                        struct gr_run *r)
{
    float *y = out->data;

    for (uint64_t i = 0, k = gr_elems(out->shape, 0); i < k; i++)
        y[i] = vb_random_f32((uint64_t)n->attr.i[SEED], r->seed, i);
}

static void normal_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const uint64_t seed = (uint64_t)n->attr.i[SEED];
    float *y = out->data;

    for (uint64_t i = 0, k = gr_elems(out->shape, 0); i < k; i++) {
        const double u = 1 - (double)vb_random_f32(seed, r->seed, 2 * i); /* above 0 */
        const double v = (double)vb_random_f32(seed, r->seed, 2 * i + 1);

        y[i] = (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
    }
}

#define RANDOM(op, run_fn)                                                                         \
    const struct gr_type op_##op = { .name = #op,                                                  \
                                     .stateful = true,                                             \
                                     .ints = shape_ints,                                           \
                                     .inplace_of = -1,                                             \
                                     .infer = random_infer,                                        \
                                     .run = run_fn }
RANDOM(random_uniform, uniform_run);
RANDOM(random_normal, normal_run);

static enum vb_st drop_infer(struct gr_node *n, struct vb_err *err)
{
    if (!(n->attr.f[RATE] >= 0 && n->attr.f[RATE] < 1))
        return op_misfit(n, "the rate is not in [0, 1)", err);
    n->dtype = GR_F32;
    n->shape = n->in[0]->shape;
    return op_want(n, 0, GR_F32, n->shape.rank, err);
}

static void drop_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                     struct gr_run *r)
{
    const float rate = (float)n->attr.f[RATE], keep = 1 / (1 - rate);
    const uint64_t seed = (uint64_t)n->attr.i[DROP_SEED];
    const float *x = in[0].data;
    float *y = out->data;

    for (uint64_t i = 0, k = gr_elems(out->shape, 0); i < k; i++)
        y[i] = vb_random_f32(seed, r->seed, i) < rate ? 0 : x[i] * keep;
}

static enum vb_st drop_grad(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    return gr_add(g, &op_dropout, NULL, &dout, &n->attr, &din_out[0], err);
}

const struct gr_type op_dropout = { .name = "dropout",
                                    .nin = 1,
                                    .stateful = true,
                                    .ints = drop_ints,
                                    .reals = drop_reals,
                                    .inplace_of = -1,
                                    .infer = drop_infer,
                                    .grad = drop_grad,
                                    .run = drop_run };
