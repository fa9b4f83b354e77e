/*
 * link_parts.h - what `perf link-*` and `wake` compare: n of one thing, by the active side, in seconds; below 0:
 * it failed. The passive side's half of each is in link_serve. Each takes a round trip's half where it has
 * an answer to every message.
 */
#ifndef PERF_LINK_PARTS_H
#define PERF_LINK_PARTS_H

#include "perf/pair.h"

#define LINK_DEEP 512

typedef double link_part(struct pair *s, uint64_t n);

/* What the case of the moment is; both sides inherit it. */
extern struct link_now {
    uint64_t bytes;
    unsigned window; /* streams: messages under way, at most LINK_DEEP */
    int bell[2];     /* eventfds, made before the fork */
} link_now;

/* A message there and back: of ours, of two cache lines, of UCX. */
link_part link_ping, link_lines, link_ucx_ping;
/* A stream, until the last is answered: of ours, of a socket, of UCX, a copy in this process. */
link_part link_stream, link_sockets, link_ucx_stream, link_copy;
/* The better of UCX's two ways to have bytes land where they shall: messages and puts. */
link_part link_ucx_best;
/* Verbs themselves: a message there and back, a stream of RDMA writes. */
link_part link_verbs_ping, link_verbs_write;
/* A peer that sleeps, woken by us and by an eventfd. */
link_part link_sleepy_ping, link_bells;

void link_serve(struct pair *s, const struct pair_order *o);

#endif
