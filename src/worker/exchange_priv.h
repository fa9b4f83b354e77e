/* exchange_priv.h - the exchange's inside, shared by exchange.c (every message) and exchange_setup.c. */
#ifndef WORKER_EXCHANGE_PRIV_H
#define WORKER_EXCHANGE_PRIV_H

#include "ps/wire.h"
#include "worker/exchange.h"

struct out_msg {
    struct tp_op op;
    struct exchange *x;
    struct out_msg *next;
    uint32_t ps, lane, cls;
    uint64_t
        again; /* clock + 1 of a push that became due while the last was still in flight; 0: none */
    uint32_t again_samples, again_of;
    bool busy;
};

struct exchange {
    struct exchange_params p;
    struct tp_port *port;
    uint32_t region;
    uint32_t staging;     /* region that encoded pushes leave from */
    uint64_t place_bytes; /* there, from one chunk's to the next's */
    float *residual;      /* line of what has not been sent yet; NULL: nothing is encoded */
    char *landing;        /* where encoded parameters land, a place for each chunk; NULL: none do */
    uint64_t landing_bytes, land_bytes; /* in all, and from one chunk's to the next's */
    float *change;                      /* a chunk that has been decoded */
    char *window;
    void *reserved; /* the window's address space, with room to align it */
    uint64_t reserved_bytes;
    struct tp_link **link; /* per ps */
    struct out_msg *push;  /* per chunk */
    uint32_t nticks;
    struct out_msg *tick; /* per (ps, lane, class) */
    struct out_msg *wait_head, *wait_tail;
    uint64_t *epoch;     /* per chunk: landed epoch + 1 */
    bool *asked;         /* per chunk: an answer is to come */
    uint32_t *behind;    /* per variable: chunks that have not landed in var_round yet */
    uint64_t *var_round; /* per variable: rounds that have landed */
    uint64_t *sent;      /* per (ps, lane, class): pushes so far */
    uint64_t pushed_bytes, pulled_bytes;
    uint64_t staleness[PS_CLASSES_MAX][PS_STALENESS_BUCKETS];
    uint64_t *waited_ns; /* per worker */
    uint32_t by;         /* whose push has let the last chunk go, plus 1; 0: nobody's */
    uint32_t nbusy;
    enum vb_st broken;
    char why[200]; /* VB_INVAL */
};

static inline const struct ps_class *exchange_class(const struct exchange *x, uint32_t chunk)
{
    return &x->p.cls[x->p.table->chunk[chunk].cls];
}

/* exchange.c: what set-up puts in place. */
void exchange_on_msg(void *arg, const struct tp_rx *rx);
void *exchange_place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                     uint64_t payload_bytes);
void exchange_sent(struct tp_op *op, enum vb_st st);

/* exchange_codec.c */
VB_MUST_CHECK enum vb_st exchange_codec_init(struct exchange *x);
void exchange_codec_fini(struct exchange *x);
/* Where the encoded chunk lands. */
static inline void *exchange_landing(const struct exchange *x, uint32_t chunk)
{
    return x->landing + chunk * x->land_bytes;
}
/* Adds what came to the window. VB_PROTO: it cannot be decoded. */
VB_MUST_CHECK enum vb_st exchange_decode(struct exchange *x, uint32_t chunk, uint64_t clock,
                                         const void *payload);
/* Into the staging region. false: the gradient has a NaN or infinity, the exchange is broken. */
bool exchange_encode(struct exchange *x, uint32_t chunk, uint64_t clock, uint64_t *offset_out);

#endif
