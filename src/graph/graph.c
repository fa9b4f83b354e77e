#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct graph {
    uint32_t n, room;
    struct gr_node **node;
};

const struct gr_type gr_placeholder = { .name = "placeholder", .inplace_of = -1 };
const struct gr_type gr_variable = { .name = "variable", .inplace_of = -1 };
const struct gr_type gr_constant = { .name = "constant", .inplace_of = -1 };

static void node_free(struct gr_node *n)
{
    free(n->data);
    free(n->ctl);
    free(n);
}

enum vb_st gr_new(struct graph **g_out)
{
    struct graph *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return VB_NOMEM;
    *g_out = g;
    return VB_OK;
}

void gr_free(struct graph *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->n; i++) {
        node_free(g->node[i]);
    }
    free(g->node);
    free(g);
}

uint32_t gr_count(const struct graph *g)
{
    return g->n;
}

struct gr_node *gr_at(const struct graph *g, uint32_t id)
{
    return g->node[id];
}

struct gr_node *gr_find(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (strcmp(g->node[i]->name, name) == 0)
            return g->node[i];
    return NULL;
}

static enum vb_st no_memory(struct vb_err *err)
{
    vb_err_set(err, "out of memory for a node of the graph");
    return VB_NOMEM;
}

/* Makes room for one more node, so that the push that follows cannot fail. */
static enum vb_st reserve(struct graph *g, struct vb_err *err)
{
    if (g->n < g->room)
        return VB_OK;
    const uint32_t room = g->room == 0 ? 64 : g->room * 2;
    struct gr_node **node = realloc(g->node, (size_t)room * sizeof(struct gr_node *));

    if (node == NULL)
        return no_memory(err);
    g->node = node;
    g->room = room;
    return VB_OK;
}

static enum vb_st name_given(const struct graph *g, struct gr_node *n, const char *name,
                             struct vb_err *err)
{
    const size_t bytes = strlen(name);

    if (bytes == 0 || bytes >= GR_NAME_MAX) {
        vb_err_set(err, "%s '%s': a name has 1 to %d bytes", n->type->name, name, GR_NAME_MAX - 1);
        return VB_INVAL;
    }
    if (gr_find(g, name) != NULL) {
        vb_err_set(err, "%s '%s': the graph has a %s of this name already", n->type->name, name,
                   gr_find(g, name)->type->name);
        return VB_INVAL;
    }
    memcpy(n->name, name, bytes + 1);
    return VB_OK;
}

static void name_made(const struct graph *g, struct gr_node *n)
{
    snprintf(n->name, sizeof(n->name), "%.32s_%" PRIu32, n->type->name, n->id);
    for (uint32_t i = 1; gr_find(g, n->name) != NULL; i++)
        snprintf(n->name, sizeof(n->name), "%.32s_%" PRIu32 "_%" PRIu32, n->type->name, n->id, i);
}

/* A node with its name, not yet in the graph; gives: free. */
static enum vb_st node_new(struct graph *g, const struct gr_type *type, const char *name,
                           struct gr_node **out, struct vb_err *err)
{
    enum vb_st st = reserve(g, err);
    struct gr_node *n = NULL;

    if (st != VB_OK)
        return st;
    n = calloc(1, sizeof(*n));
    if (n == NULL)
        return no_memory(err);
    n->id = g->n;
    n->type = type;
    if (name == NULL)
        name_made(g, n);
    else
        st = name_given(g, n, name, err);
    if (st != VB_OK) {
        free(n);
        return st;
    }
    *out = n;
    return VB_OK;
}

static void push(struct graph *g, struct gr_node *n, struct gr_node **out)
{
    g->node[g->n++] = n;
    *out = n;
}

/* Bytes of a tensor are counted in 64 bits, and signed in places; a run has the batch on top. */
static enum vb_st check_elems(const struct gr_node *n, struct vb_err *err)
{
    char shape[GR_SHAPE_TEXT];

    if (gr_elems(n->shape, 1) <= INT64_MAX / 8)
        return VB_OK;
    gr_shape_str(n->shape, shape, sizeof(shape));
    vb_err_set(err, "%s '%s': %s has more elements than can be counted", n->type->name, n->name,
               shape);
    return VB_INVAL;
}

static enum vb_st check_leaf(const struct gr_node *n, struct vb_err *err)
{
    char shape[GR_SHAPE_TEXT];

    if (n->shape.rank > GR_RANK_MAX) {
        vb_err_set(err, "%s '%s': rank %" PRIu32 ", at most %d", n->type->name, n->name,
                   n->shape.rank, GR_RANK_MAX);
        return VB_INVAL;
    }
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        const bool batch = n->shape.dim[i] == GR_BATCH;

        if (n->shape.dim[i] == 0 || (batch && (i > 0 || n->type != &gr_placeholder))) {
            gr_shape_str(n->shape, shape, sizeof(shape));
            vb_err_set(err, "%s '%s': dimension %" PRIu32 " of %s must be a number from 1",
                       n->type->name, n->name, i, shape);
            return VB_INVAL;
        }
    }
    return check_elems(n, err);
}

static enum vb_st add_leaf(struct graph *g, const struct gr_type *type, const char *name,
                           enum gr_dtype dtype, struct gr_shape shape, struct gr_node **out,
                           struct vb_err *err)
{
    struct gr_node *n = NULL;
    enum vb_st st = node_new(g, type, name, &n, err);

    if (st != VB_OK)
        return st;
    n->dtype = dtype;
    n->shape = shape;
    st = check_leaf(n, err);
    if (st != VB_OK) {
        free(n);
        return st;
    }
    push(g, n, out);
    return VB_OK;
}

enum vb_st gr_add_placeholder(struct graph *g, const char *name, enum gr_dtype dtype,
                              struct gr_shape shape, struct gr_node **out, struct vb_err *err)
{
    return add_leaf(g, &gr_placeholder, name, dtype, shape, out, err);
}

enum vb_st gr_add_variable(struct graph *g, const char *name, struct gr_shape shape,
                           struct gr_node **out, struct vb_err *err)
{
    return add_leaf(g, &gr_variable, name, GR_F32, shape, out, err);
}

enum vb_st gr_add_constant(struct graph *g, const char *name, enum gr_dtype dtype,
                           struct gr_shape shape, const void *data, struct gr_node **out,
                           struct vb_err *err)
{
    struct gr_node *n = NULL;
    enum vb_st st = add_leaf(g, &gr_constant, name, dtype, shape, &n, err);
    uint64_t bytes = 0;

    if (st != VB_OK)
        return st;
    bytes = gr_elems(shape, 0) * gr_dtype_bytes(dtype);
    n->data = calloc(1, bytes + 1);
    if (n->data == NULL) {
        gr_drop_last(g);
        return no_memory(err);
    }
    if (data != NULL)
        memcpy(n->data, data, bytes);
    *out = n;
    return VB_OK;
}

enum vb_st gr_set_data(struct gr_node *n, const void *data, struct vb_err *err)
{
    const uint64_t bytes = gr_elems(n->shape, 0) * gr_dtype_bytes(n->dtype);

    if (data == NULL)
        return VB_OK;
    n->data = malloc(bytes + 1);
    if (n->data == NULL)
        return no_memory(err);
    memcpy(n->data, data, bytes);
    return VB_OK;
}

/* A job, a task and what it runs on, each with a number, in this order; each may be left out. */
static bool is_device(const char *d)
{
    static const char *const part[] = { "/job:", "/task:", "/cpu:", "/gpu:" };

    for (size_t i = 0; i < VB_ARRAY_LEN(part); i++) {
        const size_t n = strlen(part[i]);

        if (strncmp(d, part[i], n) != 0)
            continue;
        const size_t word = i == 0 ? strcspn(d + n, "/") : strspn(d + n, "0123456789");

        if (word == 0)
            return false;
        d += n + word;
        i += i == 2; /* not both */
    }
    return *d == '\0';
}

enum vb_st gr_place(struct gr_node *n, const char *device, struct vb_err *err)
{
    if (strlen(device) >= sizeof(n->device) || !is_device(device)) {
        vb_err_set(
            err,
            "'%s': '%.80s' is no device; it looks like /job:ps/task:0 or /job:worker/task:1/cpu:0",
            n->name, device);
        return VB_INVAL;
    }
    memcpy(n->device, device, strlen(device) + 1);
    return VB_OK;
}

enum vb_st gr_copy(struct graph *g, const struct gr_node *old, struct gr_node *const *in,
                   struct gr_node **out, struct vb_err *err)
{
    struct gr_node *n = NULL;
    enum vb_st st = node_new(g, old->type, old->name, &n, err);

    if (st != VB_OK)
        return st;
    n->nin = old->nin;
    memcpy(n->in, in, old->nin * sizeof(n->in[0]));
    n->dtype = old->dtype;
    n->shape = old->shape;
    n->attr = old->attr;
    memcpy(n->device, old->device, sizeof(n->device));
    if (old->data != NULL) {
        const uint64_t bytes = gr_elems(old->shape, 0) * gr_dtype_bytes(old->dtype);

        n->data = malloc(bytes + 1);
        if (n->data == NULL) {
            node_free(n);
            return no_memory(err);
        }
        memcpy(n->data, old->data, bytes);
    }
    push(g, n, out);
    return VB_OK;
}

void gr_become_constant(struct gr_node *n, void *data)
{
    n->type = &gr_constant;
    n->nin = 0;
    n->attr = (struct gr_attr){ 0 };
    n->data = data;
}

void gr_drop_last(struct graph *g)
{
    node_free(g->node[--g->n]);
}

enum vb_st gr_add(struct graph *g, const struct gr_type *type, const char *name,
                  struct gr_node *const *in, const struct gr_attr *attr, struct gr_node **out,
                  struct vb_err *err)
{
    return gr_add_n(g, type, name, in, type->nin, attr, out, err);
}

static enum vb_st check_nin(const struct gr_type *type, uint32_t nin, struct vb_err *err)
{
    const uint32_t most = VB_MIN(VB_MAX(type->nin, type->nin_max), (uint32_t)GR_IN_MAX);

    if (nin >= type->nin && nin <= most)
        return VB_OK;
    vb_err_set(err, "%s takes %u to %u inputs, not %u", type->name, type->nin, most, nin);
    return VB_INVAL;
}

enum vb_st gr_add_n(struct graph *g, const struct gr_type *type, const char *name,
                    struct gr_node *const *in, uint32_t nin, const struct gr_attr *attr,
                    struct gr_node **out, struct vb_err *err)
{
    struct gr_node *n = NULL;
    enum vb_st st = check_nin(type, nin, err);

    if (st == VB_OK)
        st = node_new(g, type, name, &n, err);
    if (st != VB_OK)
        return st;
    n->nin = nin;
    for (uint32_t i = 0; i < nin; i++)
        n->in[i] = in[i];
    if (attr != NULL)
        n->attr = *attr;
    st = type->infer(n, err);
    if (st == VB_OK)
        st = check_elems(n, err);
    if (st != VB_OK) {
        node_free(n);
        return st;
    }
    push(g, n, out);
    return VB_OK;
}

void gr_prune(const struct graph *g, struct gr_node *const *fetch, uint32_t nfetch, bool *need)
{
    memset(need, 0, g->n * sizeof(*need));
    for (uint32_t i = 0; i < nfetch; i++)
        need[fetch[i]->id] = true;
    for (uint32_t id = g->n; id-- > 0;) {
        const struct gr_node *n = g->node[id];

        for (uint32_t i = 0; need[id] && i < n->nin; i++)
            need[n->in[i]->id] = true;
        for (uint32_t i = 0; need[id] && i < n->nctl; i++)
            need[n->ctl[i]->id] = true;
    }
}

enum vb_st gr_after(struct gr_node *n, struct gr_node *before, struct vb_err *err)
{
    struct gr_node **ctl = realloc(n->ctl, (n->nctl + 1) * sizeof(struct gr_node *));

    if (ctl == NULL)
        return no_memory(err);
    n->ctl = ctl;
    if (before->id >= n->id) {
        vb_err_set(err,
                   "'%s' cannot run after '%s', which was made later: the graph would have a cycle",
                   n->name, before->name);
        return VB_INVAL;
    }
    n->ctl[n->nctl++] = before;
    return VB_OK;
}
