/*
 * way.h - what two tasks say to each other about the way of their data link, and whether it may be
 * believed. Pure functions; what comes from a peer is hostile.
 */
#ifndef CLUSTER_WAY_H
#define CLUSTER_WAY_H

#include "cluster/wire.h"
#include "transport/net_dev.h"

/* Texts end, numbers make sense. VB_PROTO: not; else odd bytes have become '?'. */
VB_MUST_CHECK enum vb_st way_can_check(struct wire_can *can);
VB_MUST_CHECK enum vb_st way_ask_check(struct wire_ask *m);
/* As above for all of an offer but blob and descriptors. from_ps: over rdma and tcp it names hosts. */
VB_MUST_CHECK enum vb_st way_offer_check(struct wire_offer *m, bool from_ps);

/* NULL, or why data cannot go to this address of a peer's offer. control: the other end of its control
 * connection, numeric; if that is this host, so is the peer. */
const char *way_host_check(const char *host, const char *control, const struct net_devs *own);

/* How many bytes of a reason to show where there is room for so many: all, else what stands before its
 * advice ("; ..." or ", fix: ..."), else what fits. For "%.*s". */
int way_fit(const char *why, size_t room);

/* An address without the scope that only its sender knows: if it is the one at the other end of the
 * control connection, that text, which has ours. */
const char *way_scoped(const char *host, const char *control);

#endif
