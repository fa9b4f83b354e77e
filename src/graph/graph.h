/*
 * graph.h - a dataflow graph: nodes are ops, edges are tensors, variables are named state. Pure: no
 * I/O, no kernels. Thread: one at a time.
 *
 * A node has one output. Shapes are known when a node is made; dimension 0 may be GR_BATCH, which a
 * run fills in. Nodes are numbered in order of creation, and inputs come before users, so the
 * numbers are a topological order.
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { GR_RANK_MAX = 6, GR_IN_MAX = 8, GR_NAME_MAX = 64, GR_SHAPE_TEXT = 144 };
enum { GR_INTS_MAX = 16, GR_REALS_MAX = 12, GR_DEVICE_MAX = 64 };
#define GR_BATCH UINT64_MAX /* a dimension known only in a run */

enum gr_dtype { GR_F32, GR_I32, GR_I64, GR_BOOL, GR_DTYPES }; /* bool: a byte, 0 or 1 */

struct gr_shape {
    uint32_t rank;
    uint64_t dim[GR_RANK_MAX];
};

/* A view while a node runs: dense, row-major; every dimension known. */
struct gr_tensor {
    void *data;
    enum gr_dtype dtype;
    struct gr_shape shape;
};

/* What a node is besides its inputs; what each number means is the type's. */
struct gr_attr {
    int64_t i[GR_INTS_MAX];
    double f[GR_REALS_MAX];
};

/* What a run gives to its ops, and what they may say. */
struct gr_run {
    void *scratch;      /* as many bytes as type->scratch asked for, aligned to 64 */
    uint64_t seed;      /* of the run: other numbers in each */
    struct vb_err *err; /* of an op that failed: `failed` is set and the run ends with VB_INVAL */
    bool failed;
};

struct gr_node;
struct graph;

/* One kind of op; a file of src/ops gives one, and src/ops/ops.c lists them all. */
struct gr_type {
    const char *name; /* "matmul" */
    uint32_t nin;     /* inputs */
    uint32_t nin_max; /* more of them may follow, up to so many; 0: none */
    const char *const *ints,
        *const *reals; /* what attr.i and attr.f are called, NULL ends; NULL: none */
    bool stateful;     /* reads or writes what outlives a run, or shows something: kept as it is */
    /* The output may take the place of this input, when no other input and no later node reads it;
     * -1: never. */
    int inplace_of;
    /* The first so many inputs are variables that are written; the output is the memory of the first. */
    uint32_t writes;

    /* From n->type, n->in, n->attr: fills n->dtype and n->shape. VB_INVAL: they do not fit; err
     * says why in one line with the shapes. */
    enum vb_st (*infer)(struct gr_node *n, struct vb_err *err);

    /* Optional (NULL: not differentiable). Adds the nodes that give d(loss)/d(input i) from dout,
     * the gradient of n's output, into din_out[i], where need[i]; the others, and those that have
     * none, stay NULL as they come. An element may be dout itself. Sums over samples, no means. */
    enum vb_st (*grad)(struct graph *g, struct gr_node *n, struct gr_node *dout, const bool *need,
                       struct gr_node **din_out, struct vb_err *err);

    /* Bytes of r->scratch that a run with so many rows needs; NULL: none. */
    uint64_t (*scratch)(const struct gr_node *n, uint64_t batch);

    /* Computes out from in. Rows may be 0. Never allocates. NULL: placeholder and variable. What in
     * holds is the op's to check where it would lead out of memory (an index). */
    void (*run)(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                struct gr_run *r);
};

struct gr_node {
    uint32_t id;
    const struct gr_type *type;
    char name[GR_NAME_MAX];
    uint32_t nin;
    struct gr_node *in[GR_IN_MAX];
    enum gr_dtype dtype;
    struct gr_shape shape;
    struct gr_attr attr;
    void *data;    /* a constant's value, or what a variable begins with; the node's */
    uint32_t nctl; /* runs after these, whatever it reads */
    struct gr_node **ctl;
    char device[GR_DEVICE_MAX]; /* "/job:ps/task:0"; parts or all may be left out */
};

extern const struct gr_type gr_placeholder, gr_variable, gr_constant; /* leaves: no run */

VB_MUST_CHECK enum vb_st gr_new(struct graph **g_out);
void gr_free(struct graph *g); /* takes NULL; nodes stay the graph's */

uint32_t gr_count(const struct graph *g);
struct gr_node *gr_at(const struct graph *g, uint32_t id);
struct gr_node *gr_find(const struct graph *g, const char *name); /* NULL: none */

/* Leaves. A name must be unique in the graph and shorter than GR_NAME_MAX, no dimension is 0, only
 * the first dimension of a placeholder may be GR_BATCH (VB_INVAL). The result stays the graph's. */
VB_MUST_CHECK enum vb_st gr_add_placeholder(struct graph *g, const char *name, enum gr_dtype dtype,
                                            struct gr_shape shape, struct gr_node **out,
                                            struct vb_err *err);
VB_MUST_CHECK enum vb_st gr_add_variable(struct graph *g, const char *name, struct gr_shape shape,
                                         struct gr_node **out, struct vb_err *err);

/* data: elements in order, copied; NULL: zeros. name NULL: made. */
VB_MUST_CHECK enum vb_st gr_add_constant(struct graph *g, const char *name, enum gr_dtype dtype,
                                         struct gr_shape shape, const void *data,
                                         struct gr_node **out, struct vb_err *err);

/* An op on `in[0..type->nin)`; attr NULL: zero. name NULL: made from type and id.
 * Runs shape inference: VB_INVAL and err when inputs do not fit. */
VB_MUST_CHECK enum vb_st gr_add(struct graph *g, const struct gr_type *type, const char *name,
                                struct gr_node *const *in, const struct gr_attr *attr,
                                struct gr_node **out, struct vb_err *err);
/* The same on `nin` inputs, for a type that takes more than type->nin. */
VB_MUST_CHECK enum vb_st gr_add_n(struct graph *g, const struct gr_type *type, const char *name,
                                  struct gr_node *const *in, uint32_t nin,
                                  const struct gr_attr *attr, struct gr_node **out,
                                  struct vb_err *err);

/* What a variable is before its first run; copied, NULL: zeros. VB_NOMEM. */
VB_MUST_CHECK enum vb_st gr_set_data(struct gr_node *n, const void *data, struct vb_err *err);

/* n runs after `before`, an older node. VB_INVAL: it is not older. */
VB_MUST_CHECK enum vb_st gr_after(struct gr_node *n, struct gr_node *before, struct vb_err *err);
/* Where n is to run. VB_INVAL: not a device. */
VB_MUST_CHECK enum vb_st gr_place(struct gr_node *n, const char *device, struct vb_err *err);

/*
 * Reverse-mode differentiation: adds nodes for d(loss)/d(var[i]) into grad_out[i]. loss is a scalar
 * (rank 0). Contributions to one tensor are added in order of the users' numbers, last user first.
 * The graph knows no ops, so it is told one: `add` (two inputs of one shape, their sum).
 * VB_INVAL: loss does not depend on a variable, or an op on the way has no gradient (err names it).
 * After a failure the nodes added so far stay, with no users.
 */
VB_MUST_CHECK enum vb_st gr_gradients(struct graph *g, const struct gr_type *add,
                                      struct gr_node *loss, struct gr_node *const *var,
                                      uint32_t nvars, struct gr_node **grad_out,
                                      struct vb_err *err);

/* Marks what the fetches need: sets need[id] for all ids, gr_count of them. */
void gr_prune(const struct graph *g, struct gr_node *const *fetch, uint32_t nfetch, bool *need);

/*
 * A graph of what the fetches need, in which no two nodes compute the same and nothing is computed that is
 * known: what is fed becomes a placeholder, and nodes whose inputs are all constants become constants of at most
 * 1 MiB. map[id of g]: the new node, NULL: none.
 * gives: gr_free. VB_INVAL: a fetch depends on a placeholder that is not fed (err names both).
 */
struct gr_simplify {
    struct gr_node *const *fetch, *const *feed;
    uint32_t nfetch, nfeed;
};
VB_MUST_CHECK enum vb_st gr_simplify(const struct graph *g, const struct gr_simplify *p,
                                     struct graph **out, struct gr_node **map, struct vb_err *err);

/* For what makes graphs of graphs. A node like `old`, of another graph, on these inputs; after nothing. */
VB_MUST_CHECK enum vb_st gr_copy(struct graph *g, const struct gr_node *old,
                                 struct gr_node *const *in, struct gr_node **out,
                                 struct vb_err *err);
void gr_become_constant(struct gr_node *n, void *data); /* takes data */
void gr_drop_last(struct graph *g);                     /* the last node, which nobody uses */

size_t gr_dtype_bytes(enum gr_dtype t);
const char *gr_dtype_name(enum gr_dtype t); /* "f32" */

/* GR_BATCH counted as batch; rank 0: 1; UINT64_MAX: more than 64 bits hold. */
uint64_t gr_elems(struct gr_shape s, uint64_t batch);
bool gr_shape_eq(struct gr_shape a, struct gr_shape b);
/* "[batch, 784]"; GR_SHAPE_TEXT bytes hold any shape. */
void gr_shape_str(struct gr_shape s, char *buf, size_t buf_bytes);

#endif
