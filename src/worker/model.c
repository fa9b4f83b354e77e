#include "worker/model_priv.h"

#include "base/random.h"
#include "ops/ops.h"

#include <isa-l/crc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum vb_st build_op(struct build *b, const char *type, struct gr_node *x, struct gr_node *y,
                    const struct gr_attr *attr, struct gr_node **out)
{
    struct gr_node *const in[] = { x, y };

    return gr_add(b->m->graph, op_find(type), NULL, in, attr, out, b->err);
}

enum vb_st build_var(struct build *b, const char *name, struct gr_shape shape,
                     enum model_begin begin, double bound, struct gr_node **out)
{
    enum vb_st st = VB_OK;

    if (b->evaluating) {
        *out = gr_find(b->m->graph, name);
        return VB_OK;
    }
    st = gr_add_variable(b->m->graph, name, shape, out, b->err);
    if (st != VB_OK)
        return st;
    (*out)->attr.i[0] = begin;
    (*out)->attr.f[0] = bound;
    b->m->var[b->m->nvars++] = *out;
    return VB_OK;
}

void build_int(struct gr_attr *a, const char *type, const char *name, int64_t value)
{
    const struct gr_type *t = op_find(type);

    for (unsigned k = 0; t->ints[k] != NULL; k++)
        if (strcmp(t->ints[k], name) == 0)
            a->i[k] = value;
}

void build_real(struct gr_attr *a, const char *type, const char *name, double value)
{
    const struct gr_type *t = op_find(type);

    for (unsigned k = 0; t->reals[k] != NULL; k++)
        if (strcmp(t->reals[k], name) == 0)
            a->f[k] = value;
}

const struct model_layer_type *model_layer_type(size_t i)
{
    return i < layer_ntypes ? &layer_types[i].about : NULL;
}

static const struct layer_type *find_layer(const char *name)
{
    for (size_t i = 0; i < layer_ntypes; i++)
        if (strcmp(layer_types[i].about.name, name) == 0)
            return &layer_types[i];
    return NULL;
}

static enum vb_st add_layers(struct build *b, const struct model_layer *layer, uint32_t n,
                             uint32_t *bad_out)
{
    b->at = b->m->x;
    for (uint32_t i = 0; i < n; i++) {
        const struct layer_type *t = find_layer(layer[i].type);

        *bad_out = i;
        if (b->loss != NULL) {
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
    if (b->loss == NULL || b->m->nvars == 0) {
        vb_err_set(b->err, b->loss == NULL
                               ? "the last layer must be a loss, add softmax_cross_entropy"
                               : "there is nothing to learn, add a dense layer");
        return VB_INVAL;
    }
    return VB_OK;
}

uint64_t model_input_elems(const struct model_input *in)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < in->rank; i++)
        n *= in->dim[i];
    return n;
}

/* Once more without what only training does, where there is any. */
static enum vb_st add_evaluation(struct model *m, const struct model_layer *layer, uint32_t nlayers,
                                 struct vb_err *err)
{
    struct build b = { .m = m, .err = err, .evaluating = true };
    bool differs = false;
    uint32_t bad = 0;

    for (uint32_t i = 0; i < nlayers; i++)
        differs |= find_layer(layer[i].type)->trains_otherwise;
    m->eval_logits = m->logits;
    m->eval_loss = m->loss;
    if (!differs)
        return VB_OK;
    const enum vb_st st = add_layers(&b, layer, nlayers, &bad);

    m->eval_logits = b.logits;
    m->eval_loss = b.loss;
    return st;
}

static enum vb_st add_all(struct model *m, const struct model_layer *layer, uint32_t nlayers,
                          uint32_t *bad_out, struct vb_err *err)
{
    const struct gr_shape x = { .rank = 2, .dim = { GR_BATCH, model_input_elems(&m->input) } };
    struct build b = { .m = m, .err = err };
    enum vb_st st = gr_add_placeholder(m->graph, "x", m->input.dtype, x, &m->x, err);

    if (st == VB_OK)
        st = add_layers(&b, layer, nlayers, bad_out);
    if (st != VB_OK)
        return st;
    m->logits = b.logits;
    m->loss = b.loss;
    m->loss_type = find_layer(layer[nlayers - 1].type)->about.name;
    m->outputs = b.logits->shape.dim[b.logits->shape.rank - 1];
    m->classes = VB_MAX(m->outputs, 2u);
    st = gr_gradients(m->graph, op_find("add"), m->loss, m->var, m->nvars, m->grad, err);
    return st == VB_OK ? add_evaluation(m, layer, nlayers, err) : st;
}

enum vb_st model_build(const struct model_layer *layer, uint32_t nlayers,
                       const struct model_input *input, struct model *out, uint32_t *bad_out,
                       struct vb_err *err)
{
    struct model m = { .nlayers = nlayers, .input = *input };
    const size_t most = MODEL_LAYER_VARS * (size_t)nlayers + 1;
    enum vb_st st = gr_new(&m.graph);

    *bad_out = nlayers;
    if (st != VB_OK)
        return st;
    m.var = calloc(most, sizeof(struct gr_node *));
    m.grad = calloc(most, sizeof(struct gr_node *));
    m.cls = calloc(most, sizeof(*m.cls));
    st = m.var == NULL || m.grad == NULL || m.cls == NULL ? VB_NOMEM : VB_OK;
    if (st == VB_OK)
        st = add_all(&m, layer, nlayers, bad_out, err);
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

static double glorot(const struct gr_shape *s)
{
    double n = 1;

    for (uint32_t i = 0; i + 2 < s->rank; i++)
        n *= (double)s->dim[i];
    return sqrt(6.0 / (n * (double)s->dim[s->rank - 2] + n * (double)s->dim[s->rank - 1]));
}

void model_init(const struct gr_node *var, uint64_t seed, float *w)
{
    const uint64_t n = gr_elems(var->shape, 0), stream = vb_hash_str(var->name);

    if (var->attr.i[0] == MODEL_ONES || (var->attr.i[0] == MODEL_BY_RANK && var->shape.rank < 2)) {
        for (uint64_t i = 0; i < n; i++)
            w[i] = var->attr.i[0] == MODEL_ONES ? 1 : 0;
        return;
    }
    const float bound =
        (float)(var->attr.i[0] == MODEL_UNIFORM ? var->attr.f[0] : glorot(&var->shape));

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
