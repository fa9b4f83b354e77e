/* session_priv.h - the inside of graphs and sessions of the public interface. */
#ifndef SESSION_SESSION_PRIV_H
#define SESSION_SESSION_PRIV_H

#include "graph/graph.h"
#include "verbena/session.h"
#include "worker/exec.h"

struct vb_graph {
    struct graph *g;
    enum vb_st st;
    struct vb_err why, last;
    char device[GR_DEVICE_MAX];
};

/* Values of variables, by name. Addresses stay. */
struct store {
    uint32_t n, room;
    struct store_var {
        char name[GR_NAME_MAX];
        struct gr_shape shape;
        float *data;
    } * var;
};

/* That of a variable's node, made from what it begins with where there is none. NULL: no memory, or another shape
 * (err). */
float *store_get(struct store *s, const struct gr_node *variable, struct vb_err *err);
void store_fini(struct store *s);

/* How one set of feeds and fetches runs. */
struct plan {
    struct plan *next;
    uint32_t nfeed, nfetch;
    uint32_t *feed, *fetch; /* ids in the session's graph, as given */
    uint64_t max_rows;
    struct graph *g;             /* simplified */
    struct gr_node **from, **to; /* there: the feeds (NULL: not needed) and fetches */
    struct exec *exec;
};

/* gives: plan_free. VB_INVAL: err names the node. */
VB_MUST_CHECK enum vb_st plan_make(const struct graph *g, struct store *store,
                                   struct gr_node *const *feed, uint32_t nfeed,
                                   struct gr_node *const *fetch, uint32_t nfetch, uint64_t max_rows,
                                   struct plan **out, struct vb_err *err);
void plan_free(struct plan *p); /* takes NULL */

struct vb_session {
    const struct vb_graph *graph;
    struct store store;
    struct plan *plan; /* the last used first */
    uint64_t runs;
};

struct gr_shape session_shape(struct vb_shape s);

#endif
