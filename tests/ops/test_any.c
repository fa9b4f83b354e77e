/*
 * Any op on any inputs with any settings: it is refused in one line, or it runs for 0 to 3 rows, writes its whole output and
 * nothing else, and gives the same bits again; its gradients have the shapes of its inputs, and run too. Inputs hold whatever
 * fits their type. What is read beyond an input shows under the address sanitizer, for buffers are no larger than need be.
 */
#include "base/random.h"
#include "ops/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TAKEN = 300, TRIALS = 300000, NODES = 96, ELEMS_MAX = 20000, GUARD = 64 };

struct trial {
    struct graph *g;
    struct vb_err err;
    uint64_t seed, at; /* random numbers: which are used */
    uint64_t batch;
    uint32_t rank;     /* of most inputs; 0: any */
    void *data[NODES]; /* by id */
};

static uint64_t draw(struct trial *t, uint64_t below)
{
    return vb_random_u64(t->seed, 1, t->at++) % below;
}

static int64_t any_number(struct trial *t)
{
    static const int64_t wild[] = { INT64_MAX, INT64_MIN, INT64_C(1) << 40, -7, 1 << 20 };

    return draw(t, 12) == 0 ? wild[draw(t, VB_ARRAY_LEN(wild))] : (int64_t)draw(t, 6) - 1;
}

/* Small dimensions of which many are equal or 1; or those of another input, or all but the last. */
static struct gr_node *any_leaf(struct trial *t, const struct gr_node *like)
{
    static const uint64_t dims[] = { 1, 1, 2, 2, 3, 3, 4 };
    struct gr_shape s = { .rank = (uint32_t)(draw(t, 4) == 0 ? draw(t, 7) : draw(t, 4)) };
    const uint64_t kind = draw(t, 8);
    struct gr_node *n = NULL;
    char name[16];

    if (t->rank > 0 && draw(t, 8) != 0)
        s.rank = t->rank;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = dims[draw(t, VB_ARRAY_LEN(dims))];
    if (s.rank > 0 && draw(t, 3) == 0)
        s.dim[0] = GR_BATCH;
    if (like != NULL && draw(t, 2) == 0) {
        s = like->shape;
        s.rank -= s.rank > 0 && draw(t, 2) == 0;
    }
    snprintf(name, sizeof(name), "leaf%u", gr_count(t->g));
    if (kind == 0 && (s.rank == 0 || s.dim[0] != GR_BATCH))
        cr_assert_eq(gr_add_variable(t->g, name, s, &n, &t->err), VB_OK);
    else
        cr_assert_eq(gr_add_placeholder(t->g, name, kind < 5 ? GR_F32 : (enum gr_dtype)(kind - 4),
                                        s, &n, &t->err),
                     VB_OK);
    return n;
}

static struct gr_tensor tensor_of(const struct trial *t, const struct gr_node *n)
{
    struct gr_tensor x = { .data = n->data != NULL ? n->data : t->data[n->id],
                           .dtype = n->dtype,
                           .shape = n->shape };

    if (x.shape.rank > 0 && x.shape.dim[0] == GR_BATCH)
        x.shape.dim[0] = t->batch;
    return x;
}

static size_t bytes_of(const struct trial *t, const struct gr_node *n)
{
    return gr_elems(n->shape, t->batch) * gr_dtype_bytes(n->dtype);
}

static void fill(struct trial *t, const struct gr_node *n)
{
    const uint64_t k = gr_elems(n->shape, t->batch);
    void *p = malloc(bytes_of(t, n) > 0 ? bytes_of(t, n) : 1);

    t->data[n->id] = p;
    for (uint64_t i = 0; i < k; i++) {
        const int64_t v = any_number(t);

        if (n->dtype == GR_F32)
            ((float *)p)[i] = v > 6 ? INFINITY : v < -6 ? NAN : (float)v / 2;
        else if (n->dtype == GR_I32)
            ((int32_t *)p)[i] = draw(t, 30) == 0 ? (int32_t)(uint64_t)v : (int32_t)draw(t, 2);
        else if (n->dtype == GR_I64)
            ((int64_t *)p)[i] = v;
        else
            ((uint8_t *)p)[i] = v > 0;
    }
}

/* One run into a buffer of its own that is full of `before`. false: the op says that it failed. */
static bool run_into(struct trial *t, const struct gr_node *n, void **out_data, int before)
{
    const size_t bytes = bytes_of(t, n);
    const uint64_t scratch = n->type->scratch != NULL ? n->type->scratch(n, t->batch) : 0;
    struct gr_tensor in[GR_IN_MAX], out = tensor_of(t, n);
    struct gr_run r = { .seed = 5, .err = &t->err };
    unsigned char *p = malloc(bytes + GUARD);

    cr_assert_leq(scratch, 1 << 24);
    r.scratch = aligned_alloc(64, vb_round_up(scratch + 1, 64));
    memset(p, before, bytes + GUARD);
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = tensor_of(t, n->in[i]);
    out.data = n->type->writes ? in[0].data : p;
    t->err.text[0] = '\0';
    n->type->run(n, in, &out, &r);
    for (size_t i = 0; i < GUARD; i++)
        cr_assert_eq(p[bytes + i], (unsigned char)before, "%s writes beyond", n->type->name);
    cr_assert(!r.failed || strstr(t->err.text, n->name) != NULL, "%s", t->err.text);
    free(r.scratch);
    *out_data = p;
    return !r.failed;
}

/* Small inputs of ops that write variables: those, and scalars behind what they are made of. */
static struct gr_node *any_input(struct trial *t, const struct gr_type *type,
                                 struct gr_node *const *in, uint32_t i)
{
    struct gr_node *n = NULL;
    char name[16];

    snprintf(name, sizeof(name), "input%u", i);
    if (type->writes > 0 && i > 0 && in[0]->type == &gr_variable && draw(t, 8) != 0) {
        if (i < type->writes)
            cr_assert_eq(gr_add_variable(t->g, name, in[0]->shape, &n, &t->err), VB_OK);
        else
            cr_assert_eq(gr_add_placeholder(
                             t->g, name, i > type->writes ? (enum gr_dtype)draw(t, 3) : GR_F32,
                             i > type->writes ? (struct gr_shape){ 0 } : in[0]->shape, &n, &t->err),
                         VB_OK);
        return n;
    }
    return i > 0 && draw(t, 4) == 0 ? in[i - 1] : any_leaf(t, i > 0 ? in[draw(t, i)] : NULL);
}

/* false: it failed. */
static bool run_node(struct trial *t, const struct gr_node *n)
{
    void *again = NULL;
    bool ok = run_into(t, n, &t->data[n->id], 0);

    if (n->type->writes)
        return false; /* another run has other inputs */
    cr_assert_eq(run_into(t, n, &again, 0xff), ok);
    cr_assert(!ok || memcmp(again, t->data[n->id], bytes_of(t, n)) == 0,
              "%s has other bits the second time", n->type->name);
    free(again);
    return ok;
}

static void check_shape(const struct gr_node *n)
{
    cr_assert_leq(n->shape.rank, GR_RANK_MAX);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        cr_assert(n->shape.dim[i] > 0 && (i == 0 || n->shape.dim[i] != GR_BATCH), "%s",
                  n->type->name);
}

/* All nodes from `from` on, as long as they are small. */
static void run_all(struct trial *t, uint32_t from)
{
    for (uint32_t id = from; id < gr_count(t->g); id++) {
        const struct gr_node *n = gr_at(t->g, id);

        cr_assert_lt(id, NODES);
        if (n->type == &gr_placeholder)
            fill(t, n);
        if (n->type->run == NULL)
            continue;
        check_shape(n);
        if (gr_elems(n->shape, t->batch) > ELEMS_MAX || !run_node(t, n))
            return;
    }
}

static void differentiate(struct trial *t, struct gr_node *n)
{
    struct gr_node *dout = NULL, *din[GR_IN_MAX] = { NULL };
    bool need[GR_IN_MAX];

    cr_assert_eq(gr_add_placeholder(t->g, "dout", GR_F32, n->shape, &dout, &t->err), VB_OK);
    for (uint32_t i = 0; i < n->nin; i++)
        need[i] = n->in[i]->dtype == GR_F32;
    if (n->type->grad(t->g, n, dout, need, din, &t->err) != VB_OK) {
        cr_assert_neq(t->err.text[0], '\0');
        return;
    }
    for (uint32_t i = 0; i < n->nin; i++)
        cr_assert(din[i] == NULL || gr_shape_eq(din[i]->shape, n->in[i]->shape),
                  "gradient %u of %s has another shape", i, n->type->name);
}

/* Was the op taken? */
static bool try_one(const struct gr_type *type, uint64_t seed)
{
    struct trial t = { .seed = seed, .batch = seed % 4 };
    struct gr_node *in[GR_IN_MAX], *n = NULL;
    struct gr_attr a = { .i = { 0 } };
    uint32_t nin = type->nin;
    bool taken;

    if (type->ints != NULL && strcmp(type->ints[0], "stride_h") == 0)
        t.rank = 4; /* images */
    cr_assert_eq(gr_new(&t.g), VB_OK);
    if (type->nin_max > nin)
        nin += (uint32_t)draw(&t, type->nin_max - nin + 1);
    for (uint32_t i = 0; i < nin; i++)
        in[i] = any_input(&t, type, in, i);
    for (int i = 0; i < GR_INTS_MAX; i++)
        a.i[i] = draw(&t, 2) == 0                   ? 0
                 : t.rank == 0 || draw(&t, 20) == 0 ? any_number(&t)
                                                    : (int64_t)draw(&t, 5);
    for (int i = 0; i < GR_REALS_MAX; i++)
        a.f[i] = (double)draw(&t, 4) / 4;
    taken = gr_add_n(t.g, type, NULL, in, nin, &a, &n, &t.err) == VB_OK;
    cr_assert(taken || strncmp(t.err.text, type->name, strlen(type->name)) == 0, "%s: '%s'",
              type->name, t.err.text);
    for (uint32_t id = 0; id < gr_count(t.g); id++)
        if (gr_at(t.g, id)->type->run == NULL && taken)
            fill(&t, gr_at(t.g, id));
    if (taken && type->grad != NULL && n->dtype == GR_F32 && gr_elems(n->shape, 4) < ELEMS_MAX)
        differentiate(&t, n);
    if (taken)
        run_all(&t, n->id);
    for (int i = 0; i < NODES; i++)
        free(t.data[i]);
    gr_free(t.g);
    return taken;
}

Test(any, op_is_refused_or_runs)
{
    for (uint64_t k = 0; op_all[k] != NULL; k++) {
        unsigned taken = 0;

        if (op_all[k] == &op_print) /* says each of them */
            continue;
        for (uint64_t i = 0; i < TRIALS && taken < TAKEN; i++)
            taken += try_one(op_all[k], k * TRIALS + i);
        cr_expect_geq(taken, 30u, "%s was taken %u times", op_all[k]->name, taken);
    }
}
