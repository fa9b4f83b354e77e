/* graph_api.c - include/verbena/graph.h over src/graph and src/ops. */
#include "session/session_priv.h"

#include "ops/ops.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert((int)VB_F32 == GR_F32 && (int)VB_I32 == GR_I32 && (int)VB_I64 == GR_I64 &&
                  (int)VB_BOOL == GR_BOOL,
              "types have one number");
static_assert((int)VB_RANK_MAX == (int)GR_RANK_MAX && VB_BATCH == GR_BATCH &&
                  (int)VB_IN_MAX == (int)GR_IN_MAX,
              "limits are the same");

struct vb_graph *vb_graph_new(void)
{
    struct vb_graph *g = calloc(1, sizeof(*g));

    if (g != NULL && gr_new(&g->g) == VB_OK)
        return g;
    free(g);
    return NULL;
}

void vb_graph_free(struct vb_graph *g)
{
    if (g == NULL)
        return;
    gr_free(g->g);
    free(g);
}

enum vb_st vb_graph_status(const struct vb_graph *g, const char **why_out)
{
    if (why_out != NULL)
        *why_out = g->why.text;
    return g->st;
}

/* The first reason is kept: what follows is mostly its consequence. */
static struct vb_node *made(struct vb_graph *g, enum vb_st st, struct gr_node *n,
                            const struct vb_err *why)
{
    if (st == VB_OK)
        st = gr_place(n, g->device, &g->last);
    if (st == VB_OK)
        return (struct vb_node *)n;
    if (g->st == VB_OK) {
        g->st = st;
        g->why = *why;
    }
    return NULL;
}

static struct vb_node *refuse(struct vb_graph *g, const char *text)
{
    vb_err_set(&g->last, "%s", text);
    return made(g, VB_INVAL, NULL, &g->last);
}

void vb_graph_device(struct vb_graph *g, const char *device)
{
    if (device == NULL)
        device = "";
    if (strlen(device) < sizeof(g->device))
        memcpy(g->device, device, strlen(device) + 1);
    else
        (void)refuse(g, "the name of a device is too long");
}

struct gr_shape session_shape(struct vb_shape s)
{
    struct gr_shape out = { .rank = s.rank };

    memcpy(out.dim, s.dim, sizeof(out.dim));
    return out;
}

struct vb_node *vb_placeholder(struct vb_graph *g, const char *name, enum vb_dtype type,
                               struct vb_shape shape)
{
    struct gr_node *n = NULL;
    const enum vb_st st =
        gr_add_placeholder(g->g, name, (enum gr_dtype)type, session_shape(shape), &n, &g->last);

    return made(g, st, n, &g->last);
}

struct vb_node *vb_variable(struct vb_graph *g, const char *name, struct vb_shape shape,
                            const float *initial)
{
    struct gr_node *n = NULL;
    enum vb_st st = gr_add_variable(g->g, name, session_shape(shape), &n, &g->last);

    if (st == VB_OK)
        st = gr_set_data(n, initial, &g->last);
    return made(g, st, n, &g->last);
}

struct vb_node *vb_constant(struct vb_graph *g, enum vb_dtype type, struct vb_shape shape,
                            const void *data)
{
    struct gr_node *n = NULL;
    const enum vb_st st =
        gr_add_constant(g->g, NULL, (enum gr_dtype)type, session_shape(shape), data, &n, &g->last);

    return made(g, st, n, &g->last);
}

static bool put_attr(const struct gr_type *t, const struct vb_attr *a, struct gr_attr *out)
{
    for (unsigned k = 0; t->ints != NULL && t->ints[k] != NULL; k++)
        if (strcmp(t->ints[k], a->name) == 0) {
            out->i[k] = a->i;
            return true;
        }
    for (unsigned k = 0; t->reals != NULL && t->reals[k] != NULL; k++)
        if (strcmp(t->reals[k], a->name) == 0) {
            out->f[k] = a->f;
            return true;
        }
    return false;
}

struct vb_node *vb_op(struct vb_graph *g, const char *op, const char *node_name,
                      struct vb_node *const *in, unsigned nin, const struct vb_attr *attr,
                      unsigned nattr)
{
    const struct gr_type *t = op_find(op);
    struct gr_attr a = { 0 };
    struct gr_node *n = NULL;
    char text[160];

    if (t == NULL) {
        snprintf(text, sizeof(text), "there is no op '%.60s'", op);
        return refuse(g, text);
    }
    for (unsigned i = 0; i < nin; i++)
        if (in[i] == NULL) {
            snprintf(text, sizeof(text), "%s '%.60s': input %u is no node", op,
                     node_name != NULL ? node_name : "", i);
            return refuse(g, text);
        }
    for (unsigned i = 0; i < nattr; i++)
        if (!put_attr(t, &attr[i], &a)) {
            snprintf(text, sizeof(text), "%s has no setting '%.60s'", op, attr[i].name);
            return refuse(g, text);
        }
    const enum vb_st st = gr_add_n(g->g, t, node_name, (struct gr_node *const *)(const void *)in,
                                   nin, &a, &n, &g->last);
    return made(g, st, n, &g->last);
}

void vb_after(struct vb_graph *g, struct vb_node *n, struct vb_node *before)
{
    if (n == NULL || before == NULL)
        return;
    if (gr_after((struct gr_node *)n, (struct gr_node *)before, &g->last) != VB_OK)
        (void)made(g, VB_INVAL, NULL, &g->last);
}

bool vb_gradients(struct vb_graph *g, struct vb_node *loss, struct vb_node *const *x, unsigned nx,
                  struct vb_node **grad_out)
{
    enum vb_st st = VB_INVAL;

    if (loss == NULL)
        return false;
    for (unsigned i = 0; i < nx; i++)
        if (x[i] == NULL)
            return false;
    st = gr_gradients(g->g, op_find("add"), (struct gr_node *)loss,
                      (struct gr_node *const *)(const void *)x, nx, (struct gr_node **)grad_out,
                      &g->last);
    if (st != VB_OK)
        (void)made(g, st, NULL, &g->last);
    return st == VB_OK;
}

struct vb_node *vb_find(const struct vb_graph *g, const char *name)
{
    return (struct vb_node *)gr_find(g->g, name);
}

const char *vb_node_name(const struct vb_node *n)
{
    return ((const struct gr_node *)n)->name;
}

enum vb_dtype vb_node_dtype(const struct vb_node *n)
{
    return (enum vb_dtype)((const struct gr_node *)n)->dtype;
}

struct vb_shape vb_node_shape(const struct vb_node *n)
{
    const struct gr_shape s = ((const struct gr_node *)n)->shape;
    struct vb_shape out = { .rank = s.rank };

    memcpy(out.dim, s.dim, sizeof(out.dim));
    return out;
}
