/*
 * model.h - from a list of layers to a graph: variables in the order in which the forward pass needs
 * them, the loss (a sum over samples), logits, and one gradient per variable. Also the variables' first
 * values. Pure; any thread.
 */
#ifndef WORKER_MODEL_H
#define WORKER_MODEL_H

#include "base/opt.h"
#include "graph/graph.h"
#include "ps/table.h"

/* A layer with the settings of its kind; the others are zero. */
struct model_layer {
    const char *type;        /* "dense" */
    uint64_t units;          /* dense, embedding: outputs; conv2d: channels */
    uint64_t kernel, stride; /* conv2d, pools: height and width of the window, steps of it */
    unsigned padding;        /* conv2d: enum model_padding */
    uint64_t heads, hidden;  /* transformer_block; hidden 0: 4 times the width */
    double rate, eps;        /* dropout; layer_norm */
};
enum model_padding { MODEL_VALID, MODEL_SAME };

/* What one sample is. */
struct model_input {
    enum gr_dtype
        dtype; /* GR_F32: numbers; GR_I32: symbols, [positions] of them, with a label each */
    uint32_t rank;
    uint64_t dim[3];  /* [features], [height, width] or [height, width, channels] */
    uint64_t symbols; /* GR_I32: they are below */
    bool real_labels; /* labels are floats, for squared_error; else numbers of classes */
};
uint64_t model_input_elems(const struct model_input *in);

struct model {
    struct graph *graph;
    struct model_input input;
    struct gr_node *x, *labels, *logits, *loss;
    struct gr_node *eval_logits,
        *eval_loss;        /* without dropout; where there is none the same nodes */
    const char *loss_type; /* the last layer's */
    uint32_t nvars, nlayers;
    struct gr_node **var, **grad;
    uint32_t *cls; /* of each variable, 0 until model_sort */
    uint64_t nparams;
    uint64_t classes; /* labels are below; of one output 2 */
    uint64_t outputs; /* last dimension of the logits */
};

/*
 * gives: model_fini. VB_INVAL: err says what does not fit, *bad_out is the layer's index (nlayers: the
 * list as a whole).
 */
VB_MUST_CHECK enum vb_st model_build(const struct model_layer *layer, uint32_t nlayers,
                                     const struct model_input *input, struct model *out,
                                     uint32_t *bad_out, struct vb_err *err);
void model_fini(struct model *m); /* takes zeroed */

/* The kinds of layers, by index from 0; NULL: no more. Settings are of struct model_layer; the first can be given
 * alone, as in {dense: 256}. */
struct model_layer_type {
    const char *name;
    const struct opt *setting;
    size_t nsettings;
};
const struct model_layer_type *model_layer_type(size_t i);

/* Orders the variables by class, cls[v] of variable v, and within one as they were. VB_NOMEM. */
VB_MUST_CHECK enum vb_st model_sort(struct model *m, const uint32_t *cls);

/* The variables as the chunk table wants them; gives: free. Names stay the model's. NULL: no memory. */
struct ps_var *model_vars(const struct model *m);

/*
 * The first value of a variable into w: zeros for biases, ones for gains; weights [.., in, out] uniform in +-sqrt(6 /
 * (n in + n out)), n the product of what stands before (Glorot & Bengio, AISTATS 2010); embeddings uniform with the
 * variance 0.02^2. Element i from (seed, name, i) alone.
 */
void model_init(const struct gr_node *var, uint64_t seed, float *w);

/* CRC32C over all variables by name in strcmp order: value[i] is variable i's elements. */
uint32_t model_crc32c(const struct model *m, const float *const *value);

#endif
