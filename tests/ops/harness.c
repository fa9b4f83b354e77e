#include "harness.h"

#include "base/random.h"
#include "ops/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench *bench_new(uint64_t batch)
{
    struct bench *b = calloc(1, sizeof(*b));

    cr_assert_not_null(b);
    b->batch = batch;
    cr_assert_eq(gr_new(&b->g), VB_OK);
    return b;
}

void bench_free(struct bench *b)
{
    gr_free(b->g);
    free(b);
}

uint64_t bench_elems(const struct bench *b, const struct gr_node *n)
{
    return gr_elems(n->shape, b->batch);
}

static struct gr_node *fill(struct bench *b, struct gr_node *n)
{
    cr_assert(n->id < H_NODES && bench_elems(b, n) <= H_ELEMS);
    for (uint64_t i = 0; i < bench_elems(b, n); i++) {
        const float x = vb_random_f32(11, vb_hash_str(n->name), i) * 2.0f - 1.0f;

        b->f[n->id][i] = x < 0.0f ? x - 0.01f : x + 0.01f;
        b->d[n->id][i] = (double)b->f[n->id][i];
    }
    return n;
}

struct gr_node *bench_var(struct bench *b, const char *name, struct gr_shape shape)
{
    struct gr_node *n = NULL;

    cr_assert_eq(gr_add_variable(b->g, name, shape, &n, &b->err), VB_OK, "%s", b->err.text);
    return fill(b, n);
}

struct gr_node *bench_input(struct bench *b, const char *name, struct gr_shape shape)
{
    struct gr_node *n = NULL;

    cr_assert_eq(gr_add_placeholder(b->g, name, GR_F32, shape, &n, &b->err), VB_OK, "%s",
                 b->err.text);
    return fill(b, n);
}

struct gr_node *bench_labels(struct bench *b, const char *name, uint64_t rows, uint64_t classes)
{
    struct gr_node *n = NULL;

    cr_assert_eq(
        gr_add_placeholder(b->g, name, GR_I32, (struct gr_shape){ 1, { rows } }, &n, &b->err),
        VB_OK, "%s", b->err.text);
    for (uint64_t i = 0; i < bench_elems(b, n); i++)
        b->label[n->id][i] = (int32_t)(vb_random_u64(12, 1, i) % classes);
    return n;
}

struct gr_node *bench_op(struct bench *b, const struct gr_type *type, struct gr_node *in0,
                         struct gr_node *in1)
{
    struct gr_node *n = NULL;

    cr_assert_eq(gr_add(b->g, type, NULL, (struct gr_node *[]){ in0, in1 }, NULL, &n, &b->err),
                 VB_OK, "%s", b->err.text);
    return n;
}

struct gr_node *bench_matmul(struct bench *b, struct gr_node *a, struct gr_node *c, bool ta,
                             bool tb)
{
    const struct gr_attr attr = { .i = { ta, tb } };
    struct gr_node *n = NULL;

    cr_assert_eq(gr_add(b->g, &op_matmul, NULL, (struct gr_node *[]){ a, c }, &attr, &n, &b->err),
                 VB_OK, "%s", b->err.text);
    return n;
}

struct gr_tensor bench_tensor(struct bench *b, const struct gr_node *n)
{
    struct gr_tensor t = { .dtype = n->dtype, .shape = n->shape };

    t.data = n->data != NULL      ? n->data
             : n->dtype == GR_I32 ? (void *)b->label[n->id]
                                  : (void *)b->f[n->id];
    if (t.shape.rank > 0 && t.shape.dim[0] == GR_BATCH)
        t.shape.dim[0] = b->batch;
    return t;
}

void bench_run(struct bench *b)
{
    for (uint32_t id = 0; id < gr_count(b->g); id++) {
        const struct gr_node *n = gr_at(b->g, id);
        struct gr_tensor in[GR_IN_MAX], out = bench_tensor(b, n);
        struct gr_run r = { .err = &b->err };

        cr_assert(id < H_NODES && bench_elems(b, n) <= H_ELEMS);
        for (uint32_t i = 0; i < n->nin; i++)
            in[i] = bench_tensor(b, n->in[i]);
        if (n->type->run != NULL)
            n->type->run(n, in, &out, &r);
    }
}

static void eval_matmul(struct bench *b, const struct gr_node *n, uint64_t rows, uint64_t cols)
{
    const bool ta = n->attr.i[0] != 0, tb = n->attr.i[1] != 0;
    const double *x = b->d[n->in[0]->id], *y = b->d[n->in[1]->id];
    const uint64_t inner = bench_elems(b, n->in[0]) / rows;

    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) {
            double sum = 0.0;

            for (uint64_t k = 0; k < inner; k++)
                sum += (ta ? x[k * rows + r] : x[r * inner + k]) *
                       (tb ? y[c * inner + k] : y[k * cols + c]);
            b->d[n->id][r * cols + c] = sum;
        }
}

static double eval_loss(const struct bench *b, const struct gr_node *n, uint64_t rows,
                        uint64_t cols)
{
    const double *x = b->d[n->in[0]->id];
    double total = 0.0;

    for (uint64_t r = 0; r < rows; r++, x += cols) {
        double sum = 0.0;

        for (uint64_t c = 0; c < cols; c++)
            sum += exp(x[c]);
        total += log(sum) - x[b->label[n->in[1]->id][r]];
    }
    return total;
}

static void eval_node(struct bench *b, const struct gr_node *n)
{
    const double *x = n->nin > 0 ? b->d[n->in[0]->id] : NULL;
    const double *y = n->nin > 1 ? b->d[n->in[1]->id] : NULL;
    const struct gr_shape s = bench_tensor(b, n->nin > 0 ? n->in[0] : n).shape;
    const uint64_t elems = bench_elems(b, n), cols = s.rank == 2 ? s.dim[1] : 1;
    double *out = b->d[n->id];

    for (uint64_t i = 0; n->type == &gr_constant && i < elems; i++)
        out[i] = (double)((const float *)n->data)[i];
    if (n->type == &op_matmul)
        eval_matmul(b, n, bench_tensor(b, n).shape.dim[0], n->shape.dim[1]);
    else if (n->type == &op_softmax_cross_entropy)
        out[0] = eval_loss(b, n, s.dim[0], cols);
    else if (n->type == &op_bias_add)
        for (uint64_t i = 0; i < elems; i++)
            out[i] = x[i] + y[i % cols];
    else if (n->type == &op_add)
        for (uint64_t i = 0; i < elems; i++)
            out[i] = x[i] + y[i];
    else if (n->type == &op_relu)
        for (uint64_t i = 0; i < elems; i++)
            out[i] = fmax(x[i], 0.0);
    else
        cr_assert_null(n->type->run, "the interpreter does not know %s", n->type->name);
}

double bench_eval(struct bench *b, const struct gr_node *loss)
{
    for (uint32_t id = 0; id <= loss->id; id++)
        eval_node(b, gr_at(b->g, id));
    return b->d[loss->id][0];
}

static void check_one(struct bench *b, struct gr_node *loss, const struct gr_node *var,
                      const struct gr_node *grad)
{
    const double h = 1e-5;
    double diff[H_ELEMS], largest = 0.0;

    cr_assert(gr_shape_eq(var->shape, grad->shape), "gradient of %s", var->name);
    for (uint64_t i = 0; i < bench_elems(b, var); i++) {
        double *x = &b->d[var->id][i];
        const double keep = *x;

        *x = keep + h;
        diff[i] = bench_eval(b, loss);
        *x = keep - h;
        diff[i] = (diff[i] - bench_eval(b, loss)) / (2.0 * h);
        *x = keep;
        largest = fmax(largest, fabs(diff[i]));
    }
    cr_assert_gt(largest, 1e-3, "%s has no gradient worth a test", var->name);
    for (uint64_t i = 0; i < bench_elems(b, var); i++)
        cr_assert_float_eq(b->f[grad->id][i], diff[i], 1e-5 * largest,
                           "d loss / d %s[%llu]: %g, not %g", var->name, (unsigned long long)i,
                           (double)b->f[grad->id][i], diff[i]);
}

void bench_check_gradients(struct bench *b, struct gr_node *loss, struct gr_node *const *var,
                           uint32_t nvars)
{
    struct gr_node *grad[H_NODES];
    double want;

    cr_assert_eq(gr_gradients(b->g, &op_add, loss, var, nvars, grad, &b->err), VB_OK, "%s",
                 b->err.text);
    bench_run(b);
    want = bench_eval(b, loss);
    cr_assert_float_eq(b->f[loss->id][0], want, 1e-5 * (1.0 + fabs(want)), "loss %g, not %g",
                       (double)b->f[loss->id][0], want);
    for (uint32_t i = 0; i < nvars; i++)
        check_one(b, loss, var[i], grad[i]);
}
