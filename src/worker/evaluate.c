#include "kernels/kn.h"
#include "worker/task.h"

static bool always_ready(void *arg, uint32_t var)
{
    return true;
}

static void no_poll(void *arg) {}

static enum vb_st make_eval(struct task *t)
{
    const struct model *m = t->p->model;
    struct exec_var *var = calloc(m->nvars, sizeof(*var));
    struct vb_err err = { 0 };
    enum vb_st st = VB_NOMEM;

    if (var == NULL)
        return st;
    for (uint32_t v = 0; v < m->nvars; v++)
        var[v] = (struct exec_var){ .node = m->var[v], .value = task_param(t, v) };
    st = exec_open(&(struct exec_params){ .graph = m->graph,
                                          .fetch = &m->eval_logits,
                                          .nfetch = 1,
                                          .var = var,
                                          .nvars = m->nvars,
                                          .max_rows = EVAL_ROWS,
                                          .var_ready = always_ready,
                                          .poll = no_poll },
                   &t->eval, &err);
    free(var);
    if (st == VB_OK)
        exec_feed(t->eval, m->x, t->test.x);
    return st;
}

/* Every sample of the test set counts once, whatever the size of the last piece. */
enum vb_st task_evaluate(struct task *t, double *accuracy_out)
{
    uint64_t correct = 0;

    if (t->eval == NULL && make_eval(t) != VB_OK)
        return VB_NOMEM;
    for (uint64_t at = 0; at < t->test.n; at += EVAL_ROWS) {
        const struct exec_run r = { .rows = VB_MIN((uint64_t)EVAL_ROWS, t->test.n - at) };

        if (ctl_ended(t->ctl, NULL))
            return VB_STOPPED;
        feed_rows(&t->test, NULL, at, r.rows);
        const enum vb_st st = exec_run(t->eval, &r);

        if (st != VB_OK)
            return st;
        correct += kn_count_correct(exec_output(t->eval, t->p->model->eval_logits), t->test.y,
                                    r.rows, t->p->model->classes);
    }
    *accuracy_out = (double)correct / (double)t->test.n;
    return VB_OK;
}
