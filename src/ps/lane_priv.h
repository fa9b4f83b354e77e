/* lane_priv.h - the lane's inside, shared by lane.c (every message) and lane_setup.c (once). */
#ifndef PS_LANE_PRIV_H
#define PS_LANE_PRIV_H

#include "ps/bound.h"
#include "ps/engine.h"
#include "ps/landing.h"
#include "ps/lane.h"

struct param_send {
    struct tp_op op;
    struct lane *lane;
    struct param_send *next; /* in the list of those that wait for room */
    uint32_t worker, chunk;
    uint64_t epoch, behind;
    uint32_t by; /* whose push has let it go, plus 1; 0: nobody's */
    bool busy, again, waiting;
};

/* A class of variables in this lane. */
struct lane_class {
    const struct ps_class *c;
    uint32_t first, n; /* its chunks among the lane's */
    struct ps_engine *engine;
    struct landing landing;
    struct ps_bound bound;
    /* where worker 0's copy is of what begins at range_at in the ranges, and the way to the next worker's */
    uint64_t copy_at, copy_step, range_at;
    bool two_phase;
    char *decoded; /* per (chunk, worker): a gradient that came encoded; NULL: none does */
    uint64_t decoded_bytes;
};

struct lane {
    struct lane_params p;
    struct tp_port *port;
    const struct kn_ops *kn;
    struct lane_class cls[PS_CLASSES_MAX];
    uint32_t nchunks, *chunk; /* chunk k of the lane, in the table */
    uint64_t *pull_at;        /* per chunk: its first reader's place in the region of pulls */
    char *params;             /* the ranges */
    char *copies;             /* of what workers have; NULL: all is read in place */
    /* of the message that is being carried out: its sender plus 1; a push's samples over all workers */
    uint32_t by;
    uint64_t step_samples;
    uint64_t pushed;   /* its clock */
    uint64_t next;     /* the step that a set is awaited for */
    uint64_t *counted; /* PS_BACKUP, per (class, worker): clocks whose pushes are in */
    float *state;      /* optimizer state, chunk after chunk */
    uint64_t state_bytes, *state_at; /* per chunk, in floats */
    struct ps_action *actions;       /* what one step of an engine gives */
    const float **grad;              /* per (chunk, worker): the kept gradient */
    const float **gather;            /* scratch of one apply, and whose they are */
    uint32_t *gathered;
    uint64_t *read_at; /* per (chunk, worker): updates in the copy that it has; not in sync */
    float *scratch;    /* two chunks, for compensation and encoding */
    struct lane_norm {
        uint32_t n;                /* sums of a step; 0: it is applied at once */
        uint32_t trust_at;         /* the first of lamb's */
        const struct kn_opt *clip; /* who says how much is clipped; NULL: nobody */
        struct kn_exact *sum;      /* over the chunks that are in */
        uint32_t chunks, of;       /* how many are, of so many */
        bool asked;                /* all were */
        uint64_t clock;            /* of that step */
        float factor;              /* what clipping leaves of the gradient */
        float *trust;              /* lamb: per variable */
    } norm;
    struct param_send *send; /* per (worker, chunk) */
    struct param_send *wait_head, *wait_tail;
    struct tp_link **link;   /* per worker */
    atomic_uchar *has_value; /* per chunk, for place */
    enum vb_st broken;
    bool skip;        /* the gradient of the message is not to be used */
    uint64_t skipped; /* such gradients */
    char why[200];    /* the last one, or why the lane is broken */
};

static inline const struct ps_chunk *lane_chunk(const struct lane *l, uint32_t k)
{
    return &l->p.table->chunk[l->chunk[k]];
}

static inline struct lane_class *lane_class(struct lane *l, uint32_t k)
{
    return &l->cls[lane_chunk(l, k)->cls];
}

/* lane.c: what set-up puts in place. */
void lane_on_msg(void *arg, const struct tp_rx *rx);
void *lane_place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                 uint64_t payload_bytes);
void lane_param_sent(struct tp_op *op, enum vb_st st);

static inline float *lane_params(const struct lane *l, const struct ps_chunk *c)
{
    return (float *)(void *)(l->params + c->at);
}

/* Of a class that is not read in place: the offset of a worker's copy in the region of copies. */
static inline uint64_t lane_copy_at(const struct lane *l, uint32_t worker, const struct ps_chunk *c)
{
    const struct lane_class *k = &l->cls[c->cls];

    return worker * k->copy_step + k->copy_at + (c->at - k->range_at);
}

static inline float *lane_copy(const struct lane *l, uint32_t worker, const struct ps_chunk *c)
{
    return (float *)(void *)(l->copies + lane_copy_at(l, worker, c));
}

/* lane_apply.c */
void lane_apply(struct lane *l, const struct ps_action *a);
/* Whose element is there; offset: in the window. */
const char *lane_variable(const struct lane *l, const struct ps_chunk *c, uint64_t offset);
/* false: it has a NaN or infinity; l->why says where. */
bool lane_finite(struct lane *l, uint32_t worker, uint32_t chunk, uint64_t clock, const float *g);

/* lane_codec.c */
VB_MUST_CHECK enum vb_st lane_codec_init(struct lane *l, struct lane_class *k);
void lane_codec_fini(struct lane_class *k);
/* NULL: it cannot be decoded, the lane is broken. */
const float *lane_decode(struct lane *l, uint32_t chunk, uint32_t worker, const struct tp_rx *rx);
/* What the chunk has changed by since the worker's copy, encoded for it and added to the copy. */
void lane_encode(struct lane *l, uint32_t chunk, uint32_t worker, uint64_t clock);
/* Where that is, in the region of pulls. */
uint64_t lane_encoded_at(const struct lane *l, uint32_t chunk, uint32_t worker);

/* lane_norm.c */
VB_MUST_CHECK enum vb_st lane_norm_init(struct lane *l);
void lane_norm_fini(struct lane *l);
void lane_partial(struct lane *l, const struct ps_action *a);
/* The kept gradients of this step, into l->gather. */
size_t lane_gather(struct lane *l, const struct ps_action *a);
/* The lane is broken: some sum of these was infinite or a NaN. l->why says whose. */
void lane_blame(struct lane *l, const struct ps_action *a);
/* So many elements further on in what is gathered. */
void lane_shift(struct lane *l, size_t ng, size_t floats);
/* [at, *end_out) of the chunk, in floats: the part of variable v in it. */
size_t lane_var_part(const struct lane *l, const struct ps_chunk *c, uint32_t v, size_t *end_out);

/* An event of a class (its chunk too), whose actions are carried out. */
void lane_step(struct lane *l, struct lane_class *k, const struct ps_event *ev,
               const struct tp_rx *rx);

#endif
