/*
 * conn.h - a non-blocking socket that carries frames, TCP or unix; the latter also descriptors.
 * Buffers are bounded: a peer that does not read is an error, not growth. thread: one.
 */
#ifndef CLUSTER_CONN_H
#define CLUSTER_CONN_H

#include "cluster/wire.h"

#include <stdbool.h>

enum { CONN_OUT_MAX = 65536 };

struct conn {
    int fd; /* -1: closed */
    bool is_unix;
    bool takes_fds; /* hello is through: descriptors may come */
    unsigned char in[2 * WIRE_FRAME_MAX];
    size_t in_bytes;
    unsigned char *out; /* WIRE_FRAME_MAX, after conn_open CONN_OUT_MAX */
    size_t out_bytes, out_cap;
    size_t fds_at; /* where in out the descriptors to send belong */
    int fds_out[TP_OFFER_FDS], fds_in[TP_OFFER_FDS];
    uint32_t nfds_out, nfds_in;
};

/* Takes fd, which becomes non-blocking. gives: conn_close. */
VB_MUST_CHECK enum vb_st conn_init(struct conn *c, int fd, bool is_unix);
void conn_close(struct conn *c); /* takes zeroed and closed */

/* Hello is through: room for more, and descriptors. */
VB_MUST_CHECK enum vb_st conn_open(struct conn *c);

/* Queues bytes or a frame. VB_UNREACHABLE: the peer has not read for too long. */
VB_MUST_CHECK enum vb_st conn_put_raw(struct conn *c, const void *bytes, size_t nbytes);
VB_MUST_CHECK enum vb_st conn_put(struct conn *c, enum wire_kind kind, const void *body);
/* An OFFER with blob and descriptors of o; takes those (o is left empty). One at a time. The rest of
 * *m is the caller's. */
VB_MUST_CHECK enum vb_st conn_put_offer(struct conn *c, struct wire_offer *m, struct tp_offer *o);

/* Sends what the socket takes now. VB_UNREACHABLE: the connection is gone (errno says why). */
VB_MUST_CHECK enum vb_st conn_flush(struct conn *c);
/* Reads once. VB_AGAIN: nothing there. VB_UNREACHABLE: end of file (errno 0) or an error. */
VB_MUST_CHECK enum vb_st conn_fill(struct conn *c);

/* The next whole frame stays in c->in until conn_drop of its bytes. Codes of wire_cut. */
VB_MUST_CHECK enum vb_st conn_frame(const struct conn *c, struct wire_hdr *hdr_out);
void conn_drop(struct conn *c, size_t bytes);

/* The frame at the front is an OFFER: checks blob and descriptors, moves them into *o_out; the rest, in
 * *m_out, is as it came. */
VB_MUST_CHECK enum vb_st conn_get_offer(struct conn *c, struct wire_offer *m_out,
                                        struct tp_offer *o_out);

#endif
