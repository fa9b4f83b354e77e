/* session.c - include/verbena/session.h in one process. */
#include "session/session_priv.h"

#include <inttypes.h>
#include <string.h>

static enum vb_st say(enum vb_st st, const struct vb_err *why, struct vb_error *err)
{
    if (st != VB_OK && err != NULL)
        memcpy(err->text, why->text, sizeof(err->text));
    return st;
}

enum vb_st vb_session_open(const char *target, struct vb_graph *g, struct vb_session **s_out,
                           struct vb_error *err)
{
    struct vb_session *s = NULL;
    struct vb_err why;

    if (target != NULL) {
        vb_err_set(&why, "'%.200s' is no target: sessions are of this process (NULL)", target);
        return say(VB_INVAL, &why, err);
    }
    s = calloc(1, sizeof(*s));
    vb_err_set(&why, "out of memory for a session");
    if (s == NULL)
        return say(VB_NOMEM, &why, err);
    s->graph = g;
    *s_out = s;
    return VB_OK;
}

void vb_session_close(struct vb_session *s)
{
    if (s == NULL)
        return;
    for (struct plan *p = s->plan, *next; p != NULL; p = next) {
        next = p->next;
        plan_free(p);
    }
    store_fini(&s->store);
    free(s);
}

/* Does the value fit the node? *rows: the batch, UINT64_MAX as long as none is known. */
static enum vb_st check_feed(const struct vb_feed *f, uint64_t *rows, struct vb_err *err)
{
    const struct gr_node *n = (const struct gr_node *)f->node;
    const struct gr_shape is = session_shape(f->value.shape);
    char want[GR_SHAPE_TEXT], got[GR_SHAPE_TEXT];
    bool fits = is.rank == n->shape.rank && (enum gr_dtype)f->value.dtype == n->dtype;

    for (uint32_t i = 0; fits && i < is.rank; i++)
        if (n->shape.dim[i] != GR_BATCH)
            fits = is.dim[i] == n->shape.dim[i];
        else if (*rows == UINT64_MAX)
            *rows = is.dim[i];
        else if (*rows != is.dim[i]) {
            vb_err_set(err, "feed '%s' has a batch of %" PRIu64 ", another one of %" PRIu64,
                       n->name, is.dim[i], *rows);
            return VB_INVAL;
        }
    if (fits)
        return VB_OK;
    gr_shape_str(n->shape, want, sizeof(want));
    gr_shape_str(is, got, sizeof(got));
    vb_err_set(err, "feed '%s' is %s %s, not %s %s", n->name,
               f->value.dtype < VB_BOOL + 1 ? gr_dtype_name((enum gr_dtype)f->value.dtype) : "?",
               got, gr_dtype_name(n->dtype), want);
    return VB_INVAL;
}

static bool is_for(const struct plan *p, const struct vb_feed *feed, uint32_t nfeed,
                   struct vb_node *const *fetch, uint32_t nfetch)
{
    if (p->nfeed != nfeed || p->nfetch != nfetch)
        return false;
    for (uint32_t i = 0; i < nfeed; i++)
        if (p->feed[i] != ((const struct gr_node *)feed[i].node)->id)
            return false;
    for (uint32_t i = 0; i < nfetch; i++)
        if (p->fetch[i] != ((const struct gr_node *)fetch[i])->id)
            return false;
    return true;
}

/* The plan for these, moved to the front. */
static enum vb_st find_plan(struct vb_session *s, const struct vb_feed *feed, uint32_t nfeed,
                            struct vb_node *const *fetch, uint32_t nfetch, uint64_t rows,
                            struct vb_err *err)
{
    AUTO_FREE struct gr_node **from = calloc(nfeed + 1, sizeof(struct gr_node *));
    struct plan *p = NULL;

    for (struct plan **at = &s->plan; *at != NULL; at = &(*at)->next) {
        if (!is_for(*at, feed, nfeed, fetch, nfetch))
            continue;
        p = *at;
        *at = p->next;
        if (rows <= p->max_rows)
            break;
        plan_free(p); /* its memory is for a smaller batch */
        p = NULL;
        break;
    }
    if (p == NULL) {
        if (from == NULL)
            return VB_NOMEM;
        for (uint32_t i = 0; i < nfeed; i++)
            from[i] = (struct gr_node *)feed[i].node;
        const enum vb_st st =
            plan_make(s->graph->g, &s->store, from, nfeed,
                      (struct gr_node *const *)(const void *)fetch, nfetch, rows, &p, err);
        if (st != VB_OK)
            return st;
    }
    p->next = s->plan;
    s->plan = p;
    return VB_OK;
}

static void give(const struct plan *p, uint32_t i, struct vb_node *fetch, uint64_t rows,
                 struct vb_tensor *out)
{
    *out = (struct vb_tensor){ .dtype = vb_node_dtype(fetch),
                               .shape = vb_node_shape(fetch),
                               .data = (void *)(uintptr_t)exec_output(p->exec, p->to[i]) };
    for (uint32_t k = 0; k < out->shape.rank; k++)
        if (out->shape.dim[k] == VB_BATCH)
            out->shape.dim[k] = rows;
}

static enum vb_st run(struct vb_session *s, const struct vb_feed *feed, unsigned nfeed,
                      struct vb_node *const *fetch, unsigned nfetch, struct vb_tensor *out,
                      struct vb_err *err)
{
    uint64_t rows = UINT64_MAX;
    enum vb_st st = VB_OK;

    for (unsigned i = 0; i < nfetch; i++)
        if (fetch[i] == NULL) {
            vb_err_set(err, "fetch %u is no node", i);
            return VB_INVAL;
        }
    for (unsigned i = 0; st == VB_OK && i < nfeed; i++) {
        if (feed[i].node == NULL || feed[i].value.data == NULL) {
            vb_err_set(err, "feed %u has no node or no data", i);
            return VB_INVAL;
        }
        st = check_feed(&feed[i], &rows, err);
    }
    if (rows == UINT64_MAX)
        rows = 0;
    if (st == VB_OK)
        st = find_plan(s, feed, nfeed, fetch, nfetch, rows, err);
    if (st != VB_OK)
        return st;
    struct plan *p = s->plan;

    for (unsigned i = 0; i < nfeed; i++)
        if (p->from[i] != NULL)
            exec_feed(p->exec, p->from[i], feed[i].value.data);
    st = exec_run(p->exec, &(struct exec_run){ .rows = rows, .seed = s->runs++ });
    if (st != VB_OK) {
        vb_err_set(err, "%s", exec_why(p->exec));
        return st;
    }
    for (unsigned i = 0; i < nfetch; i++)
        give(p, i, fetch[i], rows, &out[i]);
    return VB_OK;
}

enum vb_st vb_run(struct vb_session *s, const struct vb_feed *feed, unsigned nfeed,
                  struct vb_node *const *fetch, unsigned nfetch, struct vb_tensor *out,
                  struct vb_error *err)
{
    struct vb_err why = { "" };

    if (s->graph->st != VB_OK) {
        vb_err_set(&why, "the graph is not whole: %.400s", s->graph->why.text);
        return say(VB_INVAL, &why, err);
    }
    return say(run(s, feed, nfeed, fetch, nfetch, out, &why), &why, err);
}

float *vb_session_variable(struct vb_session *s, const struct vb_node *variable)
{
    const struct gr_node *n = (const struct gr_node *)variable;
    struct vb_err why;

    return n != NULL && n->type == &gr_variable ? store_get(&s->store, n, &why) : NULL;
}
