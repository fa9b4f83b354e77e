/* model_layers.c - the kinds of layers. A new one is a line at the end and a function. */
#include "worker/model_priv.h"

#include "ops/ops.h"

#include <stdio.h>

static enum vb_st refuse(struct build *b, const char *text)
{
    vb_err_set(b->err, "%s", text);
    return VB_INVAL;
}

static enum vb_st dense(struct build *b, const struct model_layer *l)
{
    char prefix[32];

    if (b->at->dtype != GR_F32 || b->at->shape.rank < 2 || b->at->shape.rank > 3)
        return refuse(b,
                      "dense needs one row per sample; put flatten before it, or embedding where "
                      "the data are symbols");
    snprintf(prefix, sizeof(prefix), "dense%u", ++b->ndense);
    return build_dense(b, prefix, l->units, b->at, &b->at);
}

#define UNARY(name)                                                                                \
    static enum vb_st name##_layer(struct build *b, const struct model_layer *l)                   \
    {                                                                                              \
        return build_op(b, #name, b->at, NULL, NULL, &b->at);                                      \
    }
UNARY(relu)
UNARY(gelu)
UNARY(tanh)
UNARY(sigmoid)

static enum vb_st reshape(struct build *b, uint32_t rank, const uint64_t *dim)
{
    struct gr_attr a = { 0 };
    char name[8];

    build_int(&a, "reshape", "rank", rank);
    build_int(&a, "reshape", "dim0", -1);
    for (uint32_t i = 1; i < rank; i++) {
        snprintf(name, sizeof(name), "dim%u", i % 10);
        build_int(&a, "reshape", name, (int64_t)dim[i]);
    }
    return build_op(b, "reshape", b->at, NULL, &a, &b->at);
}

static enum vb_st flatten(struct build *b, const struct model_layer *l)
{
    const uint64_t dim[] = { 0, gr_elems(b->at->shape, 1) };

    return b->at->shape.rank == 2 ? VB_OK : reshape(b, 2, dim);
}

/* The data as images, where they are. */
static enum vb_st as_images(struct build *b)
{
    const struct model_input *in = &b->m->input;
    const uint64_t dim[] = { 0, in->dim[0], in->dim[1], in->rank > 2 ? in->dim[2] : 1 };

    if (b->at->shape.rank == 4)
        return VB_OK;
    if (b->at == b->m->x && in->rank >= 2)
        return reshape(b, 4, dim);
    return refuse(b, "this layer needs images, of height and width");
}

static void window(struct gr_attr *a, const char *type, const struct model_layer *l)
{
    build_int(a, type, "stride_h", (int64_t)l->stride);
    build_int(a, type, "stride_w", (int64_t)l->stride);
    build_int(a, type, "same", l->padding == MODEL_SAME);
}

static enum vb_st conv2d(struct build *b, const struct model_layer *l)
{
    struct gr_node *w = NULL, *bias = NULL, *y = NULL;
    struct gr_attr a = { 0 };
    char name[GR_NAME_MAX];
    enum vb_st st = as_images(b);

    if (st != VB_OK)
        return st;
    window(&a, "conv2d", l);
    const struct gr_shape shape = {
        .rank = 4, .dim = { l->kernel, l->kernel, b->at->shape.dim[3], l->units }
    };

    snprintf(name, sizeof(name), "conv%u/weight", ++b->nconv);
    st = build_var(b, name, shape, MODEL_BY_RANK, 0, &w);
    snprintf(name, sizeof(name), "conv%u/bias", b->nconv);
    if (st == VB_OK)
        st = build_var(b, name, (struct gr_shape){ .rank = 1, .dim = { l->units } }, MODEL_BY_RANK,
                       0, &bias);
    if (st == VB_OK)
        st = build_op(b, "conv2d", b->at, w, &a, &y);
    return st == VB_OK ? build_op(b, "bias_add", y, bias, NULL, &b->at) : st;
}

static enum vb_st pool(struct build *b, const char *type, const struct model_layer *l)
{
    struct gr_attr a = { 0 };
    const enum vb_st st = as_images(b);

    if (st != VB_OK)
        return st;
    window(&a, type, l);
    build_int(&a, type, "size_h", (int64_t)l->kernel);
    build_int(&a, type, "size_w", (int64_t)l->kernel);
    return build_op(b, type, b->at, NULL, &a, &b->at);
}

static enum vb_st max_pool(struct build *b, const struct model_layer *l)
{
    return pool(b, "max_pool2d", l);
}

static enum vb_st avg_pool(struct build *b, const struct model_layer *l)
{
    return pool(b, "avg_pool2d", l);
}

static enum vb_st dropout(struct build *b, const struct model_layer *l)
{
    struct gr_attr a = { 0 };

    if (b->evaluating)
        return VB_OK;
    build_real(&a, "dropout", "rate", l->rate);
    build_int(&a, "dropout", "seed", (int64_t)++b->ndrop);
    return build_op(b, "dropout", b->at, NULL, &a, &b->at);
}

static enum vb_st layer_norm(struct build *b, const struct model_layer *l)
{
    char prefix[32];

    snprintf(prefix, sizeof(prefix), "norm%u", ++b->nnorm);
    return build_norm(b, prefix, l->eps, b->at, &b->at);
}

static const double embedding_bound = 0.0346; /* a uniform one with the variance 0.02^2 */

static enum vb_st embedding(struct build *b, const struct model_layer *l)
{
    struct gr_node *table = NULL;
    char name[GR_NAME_MAX];

    if (b->at->dtype != GR_I32)
        return refuse(b, "embedding must be the first layer, on data that are symbols (text)");
    snprintf(name, sizeof(name), "embedding%u/table", ++b->nembed);
    const enum vb_st st =
        build_var(b, name, (struct gr_shape){ .rank = 2, .dim = { b->m->input.symbols, l->units } },
                  MODEL_UNIFORM, embedding_bound, &table);

    return st == VB_OK ? build_op(b, "gather", table, b->at, NULL, &b->at) : st;
}

static enum vb_st position_embedding(struct build *b, const struct model_layer *l)
{
    struct gr_node *table = NULL;
    char name[GR_NAME_MAX];

    if (b->at->dtype != GR_F32 || b->at->shape.rank != 3)
        return refuse(b,
                      "position_embedding needs a row for each position; put embedding before it");
    snprintf(name, sizeof(name), "embedding%u/table", ++b->nembed);
    const enum vb_st st = build_var(
        b, name,
        (struct gr_shape){ .rank = 2, .dim = { b->at->shape.dim[1], b->at->shape.dim[2] } },
        MODEL_UNIFORM, embedding_bound, &table);

    return st == VB_OK ? build_op(b, "add", b->at, table, NULL, &b->at) : st;
}

/* ---- losses ---- */

/* The placeholder, or in evaluation the one that is there. */
static enum vb_st labels(struct build *b, struct gr_shape shape)
{
    const enum gr_dtype type = b->m->input.real_labels ? GR_F32 : GR_I32;

    b->logits = b->at;
    return b->evaluating
               ? VB_OK
               : gr_add_placeholder(b->m->graph, "labels", type, shape, &b->m->labels, b->err);
}

static enum vb_st named_loss(struct build *b, const char *type, struct gr_node *logits,
                             struct gr_node *target)
{
    struct gr_node *const in[] = { logits, target };

    return gr_add(b->m->graph, op_find(type), b->evaluating ? NULL : "loss", in, NULL, &b->loss,
                  b->err);
}

static enum vb_st softmax_cross_entropy(struct build *b, const struct model_layer *l)
{
    struct gr_shape shape = b->at->shape;
    struct gr_attr a = { 0 };

    if (b->m->input.real_labels)
        return refuse(b, "softmax_cross_entropy is for classes, the labels are numbers; use "
                         "squared_error");
    if (shape.rank != (b->m->input.dtype == GR_I32 ? 3u : 2u))
        return refuse(b, "softmax_cross_entropy needs one row per label");
    shape.rank--;
    enum vb_st st = labels(b, shape);

    if (shape.rank == 1)
        return st == VB_OK ? named_loss(b, "softmax_cross_entropy", b->at, b->m->labels) : st;
    /* per position, so that a sample counts as one */
    struct gr_node *sum = NULL;

    build_real(&a, "scale", "factor", 1.0 / (double)shape.dim[1]);
    if (st == VB_OK)
        st = build_op(b, "softmax_cross_entropy", b->at, b->m->labels, NULL, &sum);
    return st == VB_OK ? build_op(b, "scale", sum, NULL, &a, &b->loss) : st;
}

/* Labels as the floats that one output (0 or 1, or a number) or several (one for each class) should be. */
static enum vb_st targets(struct build *b, const char *name, struct gr_node **out)
{
    const uint64_t n = b->at->shape.dim[b->at->shape.rank - 1];
    struct gr_node *const outputs = b->at;
    struct gr_attr depth = { 0 };

    if (b->at->shape.rank != 2 || b->m->input.dtype == GR_I32) {
        vb_err_set(b->err, "%s needs one row per sample", name);
        return VB_INVAL;
    }
    enum vb_st st = labels(b, (struct gr_shape){ .rank = 1, .dim = { GR_BATCH } });

    build_int(&depth, "one_hot", "depth", (int64_t)n);
    if (st == VB_OK && n > 1)
        return build_op(b, "one_hot", b->m->labels, NULL, &depth, out);
    b->at = b->m->labels;
    if (st == VB_OK && !b->m->input.real_labels)
        st = build_op(b, "cast", b->at, NULL, NULL, &b->at); /* 0: GR_F32 */
    if (st == VB_OK)
        st = reshape(b, 2, (uint64_t[]){ 0, 1 });
    *out = b->at;
    b->at = outputs;
    return st;
}

static enum vb_st sigmoid_cross_entropy(struct build *b, const struct model_layer *l)
{
    struct gr_node *target = NULL;

    if (b->m->input.real_labels)
        return refuse(b, "sigmoid_cross_entropy is for classes, the labels are numbers; use "
                         "squared_error");
    const enum vb_st st = targets(b, l->type, &target);

    return st == VB_OK ? named_loss(b, "sigmoid_cross_entropy", b->at, target) : st;
}

static enum vb_st squared_error(struct build *b, const struct model_layer *l)
{
    struct gr_node *target = NULL;

    if (b->m->input.real_labels && b->at->shape.dim[b->at->shape.rank - 1] != 1)
        return refuse(b, "the label is one number, so there must be one output: dense: 1");
    const enum vb_st st = targets(b, l->type, &target);

    return st == VB_OK ? named_loss(b, "squared_error", b->at, target) : st;
}

/* ---- the table ---- */

#define AT(member) .offset = offsetof(struct model_layer, member)
static const char *const paddings[] = { [MODEL_VALID] = "valid", [MODEL_SAME] = "same", NULL };

static const struct opt units_opts[] = {
    { "units", OPT_U64, NULL, "N", "outputs", 1, 1 << 24, AT(units), .required = true },
};
static const struct opt conv_opts[] = {
    { "channels", OPT_U64, NULL, "N", "of the result", 1, 1 << 16, AT(units), .required = true },
    { "kernel", OPT_U64, "3", "N", "height and width of the window", 1, 1 << 10, AT(kernel) },
    { "stride", OPT_U64, "1", "N", "of the window", 1, 1 << 10, AT(stride) },
    { "padding", OPT_ENUM, "valid", "KIND", "same: zeros around, so that the size stays",
      AT(padding), .names = paddings },
};
static const struct opt pool_opts[] = {
    { "size", OPT_U64, "2", "N", "height and width of the window", 1, 1 << 10, AT(kernel) },
    { "stride", OPT_U64, "0", "N", "of the window; 0: its size", 0, 1 << 10, AT(stride) },
};
static const struct opt dropout_opts[] = {
    { "rate", OPT_F64, NULL, "X", "how likely an element becomes 0 in training", 0, 0.999, AT(rate),
      .required = true },
};
static const struct opt norm_opts[] = {
    { "eps", OPT_F64, "1e-5", "X", "keeps the divisor from zero", 1e-12, 1, AT(eps) },
};
static const struct opt block_opts[] = {
    { "heads", OPT_U64, NULL, "N", "of the attention", 1, 1 << 10, AT(heads), .required = true },
    { "hidden", OPT_U64, "0", "N", "width of the layer inside; 0: 4 times that outside", 0, 1 << 20,
      AT(hidden) },
};

/* clang-format off */
#define KIND(name, opts, otherwise) { { #name, opts, VB_ARRAY_LEN(opts) }, name, otherwise }
#define ELEMENT(name) { { #name, NULL, 0 }, name##_layer, false }
#define PLAIN(name) { { #name, NULL, 0 }, name, false }
const struct layer_type layer_types[] = {
    KIND(dense, units_opts, false),
    ELEMENT(relu),
    ELEMENT(gelu),
    ELEMENT(tanh),
    ELEMENT(sigmoid),
    PLAIN(flatten),
    KIND(conv2d, conv_opts, false),
    KIND(max_pool, pool_opts, false),
    KIND(avg_pool, pool_opts, false),
    KIND(dropout, dropout_opts, true),
    KIND(layer_norm, norm_opts, false),
    KIND(embedding, units_opts, false),
    PLAIN(position_embedding),
    { { "transformer_block", block_opts, VB_ARRAY_LEN(block_opts) }, build_transformer_block, false },
    PLAIN(softmax_cross_entropy),
    PLAIN(sigmoid_cross_entropy),
    PLAIN(squared_error),
};
/* clang-format on */
const size_t layer_ntypes = VB_ARRAY_LEN(layer_types);
