/* model_priv.h - a model under construction, shared by model.c (the whole) and model_layers.c (each kind). */
#ifndef WORKER_MODEL_PRIV_H
#define WORKER_MODEL_PRIV_H

#include "worker/model.h"

enum { MODEL_LAYER_VARS = 16 }; /* of one layer, at most */

struct build {
    struct model *m;
    struct gr_node *at; /* output of the layers so far */
    struct gr_node *logits, *loss;
    bool evaluating; /* the second time, on the variables of the first */
    unsigned ndense, nconv, nnorm, nembed, nblock; /* for names */
    unsigned ndrop;
    struct vb_err *err;
};

/* How a variable begins, in its attr: what i[0] says, with f[0]. */
enum model_begin { MODEL_BY_RANK, MODEL_ONES, MODEL_UNIFORM };

struct layer_type {
    struct model_layer_type about;
    enum vb_st (*add)(struct build *b, const struct model_layer *l);
    bool trains_otherwise; /* than it evaluates */
};
extern const struct layer_type layer_types[];
extern const size_t layer_ntypes;

/* A variable, or in evaluation the one that is there. */
VB_MUST_CHECK enum vb_st build_var(struct build *b, const char *name, struct gr_shape shape,
                                   enum model_begin begin, double bound, struct gr_node **out);
/* An op with up to three inputs (NULL ends). */
VB_MUST_CHECK enum vb_st build_op(struct build *b, const char *type, struct gr_node *x,
                                  struct gr_node *y, const struct gr_attr *attr,
                                  struct gr_node **out);
/* Sets an op's whole number by name. */
void build_int(struct gr_attr *a, const char *type, const char *name, int64_t value);
void build_real(struct gr_attr *a, const char *type, const char *name, double value);

/* model_block.c */
VB_MUST_CHECK enum vb_st build_norm(struct build *b, const char *prefix, double eps,
                                    struct gr_node *x, struct gr_node **out);
VB_MUST_CHECK enum vb_st build_dense(struct build *b, const char *prefix, uint64_t units,
                                     struct gr_node *x, struct gr_node **out);
VB_MUST_CHECK enum vb_st build_transformer_block(struct build *b, const struct model_layer *l);

#endif
