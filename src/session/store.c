#include "session/session_priv.h"

#include <string.h>

static struct store_var *find(const struct store *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->var[i].name, name) == 0)
            return &s->var[i];
    return NULL;
}

static struct store_var *add(struct store *s, const struct gr_node *n)
{
    const uint64_t bytes = gr_elems(n->shape, 0) * sizeof(float);

    if (s->n == s->room) {
        struct store_var *more = realloc(s->var, (2 * s->room + 16) * sizeof(*more));

        if (more == NULL)
            return NULL;
        s->var = more;
        s->room = 2 * s->room + 16;
    }
    struct store_var *v = &s->var[s->n];

    *v = (struct store_var){ .shape = n->shape };
    memcpy(v->name, n->name, sizeof(v->name));
    if (posix_memalign((void **)&v->data, 64, vb_round_up(bytes, 64)) != 0)
        return NULL;
    if (n->data != NULL)
        memcpy(v->data, n->data, bytes);
    else
        memset(v->data, 0, bytes);
    s->n++;
    return v;
}

float *store_get(struct store *s, const struct gr_node *variable, struct vb_err *err)
{
    struct store_var *v = find(s, variable->name);

    if (v == NULL)
        v = add(s, variable);
    if (v == NULL) {
        vb_err_set(err, "no memory for variable '%s'", variable->name);
        return NULL;
    }
    if (!gr_shape_eq(v->shape, variable->shape)) {
        char is[GR_SHAPE_TEXT], was[GR_SHAPE_TEXT];

        gr_shape_str(variable->shape, is, sizeof(is));
        gr_shape_str(v->shape, was, sizeof(was));
        vb_err_set(err, "variable '%s' is %s here and %s elsewhere", variable->name, is, was);
        return NULL;
    }
    return v->data;
}

void store_fini(struct store *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        free(s->var[i].data);
    free(s->var);
    *s = (struct store){ 0 };
}
