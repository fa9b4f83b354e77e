/*
 * model.h - from a list of layers to a graph: variables in the order in which the forward pass needs
 * them, the loss (a sum over samples), logits, and one gradient per variable. Also the variables' first
 * values. Pure; any thread.
 */
#ifndef WORKER_MODEL_H
#define WORKER_MODEL_H

#include "graph/graph.h"
#include "ps/table.h"

struct model_layer {
    const char *type; /* "dense", "relu", "softmax_cross_entropy" */
    uint64_t units;   /* dense: outputs */
};

struct model {
    struct graph *graph;
    struct gr_node *x, *labels, *logits, *loss;
    uint32_t nvars, nlayers;
    struct gr_node **var, **grad;
    uint32_t *cls; /* of each variable, 0 until model_sort */
    uint64_t nparams, classes;
};

/*
 * gives: model_fini. VB_INVAL: err says what does not fit, *bad_out is the layer's index (nlayers: the
 * list as a whole). `features` inputs a sample.
 */
VB_MUST_CHECK enum vb_st model_build(const struct model_layer *layer, uint32_t nlayers,
                                     uint64_t features, struct model *out, uint32_t *bad_out,
                                     struct vb_err *err);
void model_fini(struct model *m); /* takes zeroed */

/* The kinds of layers, by index from 0; NULL: no more. */
struct model_layer_type {
    const char *name;
    bool has_units;
};
const struct model_layer_type *model_layer_type(size_t i);

/* Orders the variables by class, cls[v] of variable v, and within one as they were. VB_NOMEM. */
VB_MUST_CHECK enum vb_st model_sort(struct model *m, const uint32_t *cls);

/* The variables as the chunk table wants them; gives: free. Names stay the model's. NULL: no memory. */
struct ps_var *model_vars(const struct model *m);

/*
 * The first value of a variable into w: zeros for biases; weights [in, out] uniform in +-sqrt(6 / (in +
 * out)) (Glorot & Bengio, AISTATS 2010), element i from (seed, name, i) alone.
 */
void model_init(const struct gr_node *var, uint64_t seed, float *w);

/* CRC32C over all variables by name in strcmp order: value[i] is variable i's elements. */
uint32_t model_crc32c(const struct model *m, const float *const *value);

#endif
