#include "worker/model.h"

#include "base/random.h"
#include "ops/ops.h"

#include <isa-l/crc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is under construction. */
struct build {
    struct model *m;
    struct gr_node *at; /* output of the layers so far */
    unsigned nth_dense;
    struct vb_err *err;
};

static enum vb_st add_op(struct build *b, const char *type, const char *name, struct gr_node *x,
                         struct gr_node *y, struct gr_node **out)
{
    struct gr_node *const in[] = { x, y };

    return gr_add(b->m->graph, op_find(type), name, in, NULL, out, b->err);
}

static enum vb_st add_var(struct build *b, const char *name, struct gr_shape shape,
                          struct gr_node **out)
{
    const enum vb_st st = gr_add_variable(b->m->graph, name, shape, out, b->err);

    if (st == VB_OK)
        b->m->var[b->m->nvars++] = *out;
    return st;
}

static enum vb_st dense(struct build *b, const struct model_layer *l)
{
    char name[GR_NAME_MAX];
    struct gr_node *w = NULL, *bias = NULL, *y = NULL;
    enum vb_st st;

    if (b->at->shape.rank != 2) {
        vb_err_set(b->err, "dense needs one row per sample");
        return VB_INVAL;
    }
    b->nth_dense++;
    snprintf(name, sizeof(name), "dense%u/weight", b->nth_dense);
    st = add_var(b, name, (struct gr_shape){ .rank = 2, .dim = { b->at->shape.dim[1], l->units } },
                 &w);
    if (st != VB_OK)
        return st;
    snprintf(name, sizeof(name), "dense%u/bias", b->nth_dense);
    st = add_var(b, name, (struct gr_shape){ .rank = 1, .dim = { l->units } }, &bias);
    if (st != VB_OK || (st = add_op(b, "matmul", NULL, b->at, w, &y)) != VB_OK)
        return st;
    return add_op(b, "bias_add", NULL, y, bias, &b->at);
}

static enum vb_st relu(struct build *b, const struct model_layer *l)
{
    return add_op(b, "relu", NULL, b->at, NULL, &b->at);
}

static enum vb_st softmax_cross_entropy(struct build *b, const struct model_layer *l)
{
    const enum vb_st st = gr_add_placeholder(b->m->graph, "labels", GR_I32,
                                             (struct gr_shape){ .rank = 1, .dim = { GR_BATCH } },
                                             &b->m->labels, b->err);

    if (st != VB_OK)
        return st;
    b->m->logits = b->at;
    b->m->classes = b->at->shape.dim[1];
    return add_op(b, "softmax_cross_entropy", "loss", b->at, b->m->labels, &b->m->loss);
}

/* A new layer is one line here and one function above. */
static const struct layer_type {
    struct model_layer_type about;
    enum vb_st (*add)(struct build *b, const struct model_layer *l);
} layer_types[] = {
    { { "dense", true }, dense },
    { { "relu", false }, relu },
    { { "softmax_cross_entropy", false }, softmax_cross_entropy },
};

const struct model_layer_type *model_layer_type(size_t i)
{
    return i < VB_ARRAY_LEN(layer_types) ? &layer_types[i].about : NULL;
}

static const struct layer_type *find_layer(const char *name)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(layer_types); i++)
        if (strcmp(layer_types[i].about.name, name) == 0)
            return &layer_types[i];
    return NULL;
}

static enum vb_st add_layers(struct build *b, const struct model_layer *layer, uint32_t n,
                             uint32_t *bad_out)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct layer_type *t = find_layer(layer[i].type);

        *bad_out = i;
        if (b->m->loss != NULL) {
            vb_err_set(b->err, "%s comes after the loss, which must be the last layer",
                       layer[i].type);
            return VB_INVAL;
        }
        if (t == NULL) {
            vb_err_set(b->err, "unknown layer '%s'", layer[i].type);
            return VB_INVAL;
        }
        const enum vb_st st = t->add(b, &layer[i]);

        if (st != VB_OK)
            return st;
    }
    *bad_out = n;
    if (b->m->loss == NULL || b->m->nvars == 0) {
        vb_err_set(b->err, b->m->loss == NULL
                               ? "the last layer must be a loss, add softmax_cross_entropy"
                               : "there is nothing to learn, add a dense layer");
        return VB_INVAL;
    }
    return VB_OK;
}

enum vb_st model_build(const struct model_layer *layer, uint32_t nlayers, uint64_t features,
                       struct model *out, uint32_t *bad_out, struct vb_err *err)
{
    struct model m = { .nlayers = nlayers };
    struct build b = { .m = &m, .err = err };
    enum vb_st st = gr_new(&m.graph);

    *bad_out = nlayers;
    if (st != VB_OK)
        return st;
    m.var = calloc(2 * (size_t)nlayers + 1, sizeof(struct gr_node *));
    m.grad = calloc(2 * (size_t)nlayers + 1, sizeof(struct gr_node *));
    m.cls = calloc(2 * (size_t)nlayers + 1, sizeof(*m.cls));
    if (m.var == NULL || m.grad == NULL) {
        st = VB_NOMEM;
        goto fail;
    }
    st = gr_add_placeholder(m.graph, "x", GR_F32,
                            (struct gr_shape){ .rank = 2, .dim = { GR_BATCH, features } }, &m.x,
                            err);
    if (st != VB_OK)
        goto fail;
    b.at = m.x;
    st = add_layers(&b, layer, nlayers, bad_out);
    if (st == VB_OK)
        st = gr_gradients(m.graph, op_find("add"), m.loss, m.var, m.nvars, m.grad, err);
    if (st != VB_OK)
        goto fail;
    for (uint32_t i = 0; i < m.nvars; i++)
        m.nparams += gr_elems(m.var[i]->shape, 0);
    *out = m;
    return VB_OK;

fail:
    model_fini(&m);
    return st;
}

void model_fini(struct model *m)
{
    gr_free(m->graph);
    free(m->var);
    free(m->grad);
    free(m->cls);
    *m = (struct model){ 0 };
}

struct ps_var *model_vars(const struct model *m)
{
    struct ps_var *v = calloc(m->nvars, sizeof(*v));

    for (uint32_t i = 0; v != NULL && i < m->nvars; i++)
        v[i] = (struct ps_var){ .name = m->var[i]->name,
                                .elems = gr_elems(m->var[i]->shape, 0),
                                .cls = m->cls[i],
                                .need = m->var[i]->id };
    return v;
}

enum vb_st model_sort(struct model *m, const uint32_t *cls)
{
    struct gr_node **var = calloc(m->nvars, sizeof(struct gr_node *)),
                   **grad = calloc(m->nvars, sizeof(struct gr_node *));
    uint32_t n = 0;

    if (var == NULL || grad == NULL) {
        free(var);
        free(grad);
        return VB_NOMEM;
    }
    for (uint32_t k = 0; n < m->nvars; k++)
        for (uint32_t v = 0; v < m->nvars; v++)
            if (cls[v] == k) {
                var[n] = m->var[v];
                grad[n] = m->grad[v];
                m->cls[n++] = k;
            }
    free(m->var);
    free(m->grad);
    m->var = var;
    m->grad = grad;
    return VB_OK;
}

void model_init(const struct gr_node *var, uint64_t seed, float *w)
{
    const uint64_t n = gr_elems(var->shape, 0), stream = vb_hash_str(var->name);

    if (var->shape.rank != 2) {
        memset(w, 0, n * sizeof(*w));
        return;
    }
    const float bound = (float)sqrt(6.0 / ((double)var->shape.dim[0] + (double)var->shape.dim[1]));

    for (uint64_t i = 0; i < n; i++)
        w[i] = bound * (2.0f * vb_random_f32(seed, stream, i) - 1.0f);
}

static int by_name(const void *a, const void *b, void *m)
{
    const struct model *model = m;

    return strcmp(model->var[*(const uint32_t *)a]->name, model->var[*(const uint32_t *)b]->name);
}

static uint32_t crc_more(uint32_t crc, const float *p, uint64_t bytes)
{
    const uint64_t piece = UINT64_C(1) << 29; /* isa-l takes an int */
    unsigned char *at = (unsigned char *)(uintptr_t)p;

    for (; bytes > 0; at += VB_MIN(bytes, piece), bytes -= VB_MIN(bytes, piece))
        crc = crc32_iscsi(at, (int)VB_MIN(bytes, piece), crc);
    return crc;
}

uint32_t model_crc32c(const struct model *m, const float *const *value)
{
    uint32_t *order = calloc(m->nvars, sizeof(*order)), crc = ~0u;

    if (order == NULL)
        return 0;
    for (uint32_t i = 0; i < m->nvars; i++)
        order[i] = i;
    qsort_r(order, m->nvars, sizeof(*order), by_name, (void *)(uintptr_t)m);
    for (uint32_t i = 0; i < m->nvars; i++)
        crc = crc_more(crc, value[order[i]], gr_elems(m->var[order[i]]->shape, 0) * sizeof(float));
    free(order);
    return ~crc;
}
