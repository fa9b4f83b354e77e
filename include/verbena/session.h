/*
 * session.h - running a graph. A session keeps the values of the graph's variables from run to run, and for each set of
 * feeds and fetches that it has seen a plan: what is needed, in which order, in which memory.
 *
 *     struct vb_session *s;
 *     vb_session_open(NULL, g, &s, &err);
 *     vb_run(s, &(struct vb_feed){ x, images }, 1, &loss, 1, &value, &err);
 *
 * Thread: one at a time for each session.
 */
#ifndef VERBENA_SESSION_H
#define VERBENA_SESSION_H

#include "verbena/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vb_session;

/* Why something failed: one line that names the node. */
struct vb_error {
    char text[512];
};

struct vb_tensor {
    enum vb_dtype dtype;
    struct vb_shape shape; /* every dimension known */
    void *data;            /* row-major, dense */
};

struct vb_feed {
    struct vb_node *node;   /* a placeholder, or any node whose value is known */
    struct vb_tensor value; /* borrowed until vb_run returns */
};

/* target NULL: this process. The graph may grow while the session is open. gives: vb_session_close.
 * VB_INVAL: err says. err may be NULL here and below. */
VB_EXPORT VB_MUST_CHECK enum vb_st vb_session_open(const char *target, struct vb_graph *g,
                                                   struct vb_session **s_out, struct vb_error *err);
VB_EXPORT void vb_session_close(struct vb_session *s); /* takes NULL */

/*
 * One run: computes what the fetches need and no more. out[i] is the value of fetch[i]; its data is the session's and stays as
 * it is until the next run. VB_INVAL: a feed is missing or does not fit, or an op failed; the session can be used on.
 */
VB_EXPORT VB_MUST_CHECK enum vb_st vb_run(struct vb_session *s, const struct vb_feed *feed,
                                          unsigned nfeed, struct vb_node *const *fetch,
                                          unsigned nfetch, struct vb_tensor *out,
                                          struct vb_error *err);

/* The present value of a variable; stays the session's, and may be written between runs. NULL: not a variable. */
VB_EXPORT float *vb_session_variable(struct vb_session *s, const struct vb_node *variable);

#ifdef __cplusplus
}
#endif

#endif
