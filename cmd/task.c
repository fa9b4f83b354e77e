#include "cmd/task.h"

#include "transport/tp.h"

/* The variables in the order of their classes; those that have one get numbers from 0. */
static enum vb_st sort_classes(const struct job *job, struct task_shape *s)
{
    uint32_t *cls = calloc(s->model.nvars, sizeof(*cls)), n = 0;

    if (cls == NULL)
        return VB_NOMEM;
    for (unsigned k = 0; k <= job->nclasses; k++) {
        bool any = false;

        for (uint32_t v = 0; v < s->model.nvars; v++)
            if (job_class_of(job, s->model.var[v]->name) == k) {
                cls[v] = n;
                any = true;
            }
        if (any)
            s->cls[n++] = job_ps_class(job_class(job, k));
    }
    const enum vb_st st = model_sort(&s->model, cls);

    free(cls);
    return st;
}

enum vb_st task_shape_make(const struct job *job, struct task_shape *out, struct vb_err *err)
{
    struct task_shape s = { 0 };
    struct ps_var *var = NULL;
    enum vb_st st;

    st = model_build(job->model->layer, job->model->nlayers, &job->found.input, &s.model,
                     &s.bad_layer, err);
    if (st == VB_OK)
        st = sort_classes(job, &s);
    if (st == VB_OK) {
        var = model_vars(&s.model);
        st = var == NULL ? VB_NOMEM
                         : ps_table_make(
                               &(struct ps_table_params){
                                   .var = var,
                                   .nvars = s.model.nvars,
                                   .nps = (uint32_t)job->ps,
                                   .nlanes = (uint32_t)VB_MIN(job->threads, (uint64_t)TP_PORTS_MAX),
                                   .chunk_bytes = job->chunk_kib << 10 },
                               &s.table, err);
    }
    free(var);
    *out = s;
    return st;
}

void task_shape_fini(struct task_shape *s)
{
    ps_table_fini(&s->table);
    model_fini(&s->model);
}
