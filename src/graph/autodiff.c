/*
 * autodiff.c - reverse mode. Node numbers are a topological order, so one pass from the loss down
 * meets every node after all its users, when its gradient is complete. A node is worked on when the
 * loss depends on it (it has a gradient) and it depends on a wanted variable (live).
 */
#include "graph/graph.h"

#include <stdlib.h>

struct pass {
    struct graph *g;
    const struct gr_type *add;
    struct gr_node **grad; /* by id: what has come so far, NULL: nothing */
    bool *live;            /* by id */
};

static void mark_live(struct pass *p, struct gr_node *const *var, uint32_t nvars, uint32_t n)
{
    for (uint32_t i = 0; i < nvars; i++)
        p->live[var[i]->id] = true;
    for (uint32_t id = 0; id < n; id++) {
        const struct gr_node *node = gr_at(p->g, id);

        for (uint32_t i = 0; i < node->nin; i++)
            p->live[id] = p->live[id] || p->live[node->in[i]->id];
    }
}

static enum vb_st contribute(struct pass *p, const struct gr_node *to, struct gr_node *part,
                             struct vb_err *err)
{
    struct gr_node **sum = &p->grad[to->id];

    if (part == NULL)
        return VB_OK;
    if (*sum == NULL) {
        *sum = part;
        return VB_OK;
    }
    return gr_add(p->g, p->add, NULL, (struct gr_node *[]){ *sum, part }, NULL, sum, err);
}

static enum vb_st visit(struct pass *p, struct gr_node *n, struct vb_err *err)
{
    struct gr_node *din[GR_IN_MAX] = { NULL };
    bool need[GR_IN_MAX] = { false };
    enum vb_st st = VB_OK;

    if (!p->live[n->id] || p->grad[n->id] == NULL || n->nin == 0)
        return VB_OK;
    if (n->type->grad == NULL) {
        vb_err_set(err, "'%s': op %s has no gradient, keep it off the way from loss to variables",
                   n->name, n->type->name);
        return VB_INVAL;
    }
    for (uint32_t i = 0; i < n->nin; i++)
        need[i] = p->live[n->in[i]->id];
    st = n->type->grad(p->g, n, p->grad[n->id], need, din, err);
    for (uint32_t i = 0; st == VB_OK && i < n->nin; i++)
        if (need[i])
            st = contribute(p, n->in[i], din[i], err);
    return st;
}

static enum vb_st collect(const struct pass *p, struct gr_node *loss, struct gr_node *const *var,
                          uint32_t nvars, struct gr_node **grad_out, struct vb_err *err)
{
    for (uint32_t i = 0; i < nvars; i++) {
        if (p->grad[var[i]->id] == NULL) {
            vb_err_set(err, "loss '%s' does not depend on variable '%s', leave it out", loss->name,
                       var[i]->name);
            return VB_INVAL;
        }
    }
    for (uint32_t i = 0; i < nvars; i++)
        grad_out[i] = p->grad[var[i]->id];
    return VB_OK;
}

enum vb_st gr_gradients(struct graph *g, const struct gr_type *add, struct gr_node *loss,
                        struct gr_node *const *var, uint32_t nvars, struct gr_node **grad_out,
                        struct vb_err *err)
{
    const uint32_t n = gr_count(g); /* nodes from here on are gradients */
    AUTO_FREE struct gr_node **grad = calloc((size_t)n + 1, sizeof(struct gr_node *));
    AUTO_FREE bool *live = calloc((size_t)n + 1, sizeof(*live));
    struct pass p = { .g = g, .add = add, .grad = grad, .live = live };
    const float one = 1;
    enum vb_st st;

    if (grad == NULL || live == NULL) {
        vb_err_set(err, "out of memory for the gradients of a graph of %u nodes", n);
        return VB_NOMEM;
    }
    if (loss->shape.rank != 0 || loss->dtype != GR_F32) {
        char shape[GR_SHAPE_TEXT];

        gr_shape_str(loss->shape, shape, sizeof(shape));
        vb_err_set(err, "loss '%s' has shape %s, it must be a float of shape []", loss->name,
                   shape);
        return VB_INVAL;
    }
    mark_live(&p, var, nvars, n);
    st = gr_add_constant(g, NULL, GR_F32, loss->shape, &one, &grad[loss->id], err);
    for (uint32_t id = loss->id + 1; st == VB_OK && id-- > 0;)
        st = visit(&p, gr_at(g, id), err);
    return st == VB_OK ? collect(&p, loss, var, nvars, grad_out, err) : st;
}
