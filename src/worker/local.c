/*
 * local.c - optimizers that run here and not at the ps: the window then has mean gradients, and the parameters are
 * this worker's own. Every worker takes the same step, so all have the same bits, those that the ps would have.
 */
#include "kernels/kn.h"
#include "worker/task.h"

#include <string.h>

static const struct kn_opt *optimizer_of(const struct task *t, uint32_t v)
{
    return t->p->cls[t->p->table->var[v].cls].local;
}

enum vb_st task_local_init(struct task *t)
{
    const struct ps_table *table = t->p->table;
    const size_t n = table->line_bytes / sizeof(float);
    bool any = false;

    for (uint32_t v = 0; v < table->nvars; v++)
        any |= optimizer_of(t, v) != NULL;
    if (!any)
        return VB_OK;
    t->local.w = calloc(3 * n, sizeof(float)); /* then m and v */
    t->local.rounds = calloc(table->nvars, sizeof(*t->local.rounds));
    return t->local.w != NULL && t->local.rounds != NULL ? VB_OK : VB_NOMEM;
}

void task_local_fini(struct task *t)
{
    free(t->local.w);
    free(t->local.rounds);
}

const float *task_param(const struct task *t, uint32_t v)
{
    return optimizer_of(t, v) == NULL ? exchange_param(t->x, v)
                                      : t->local.w + t->p->table->var[v].offset / sizeof(float);
}

void task_local_step(struct task *t, uint32_t v)
{
    const struct ps_var *var = &t->p->table->var[v];
    const struct kn_opt *o = optimizer_of(t, v);
    const size_t line = t->p->table->line_bytes / sizeof(float),
                 per = o != NULL ? kn_opt_state(o->kind) : 0;

    if (o == NULL || t->local.rounds[v] > t->round)
        return;
    float *w = t->local.w + var->offset / sizeof(float);
    const float *landed = exchange_param(t->x, v);

    if (t->round == 0) {
        memcpy(w, landed, var->elems * sizeof(float)); /* the first value */
    } else {
        const struct kn_step s = kn_opt_step(o, t->round, 1); /* it is a mean already */

        (void)kn_best()->apply(w, per > 0 ? w + line : NULL, per > 1 ? w + 2 * line : NULL, &landed,
                               1, o, &s, var->elems);
    }
    t->local.rounds[v] = t->round + 1;
}
