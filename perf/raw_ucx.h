/*
 * raw_ucx.h - UCX used directly, in one polling thread per process and with its own settings: what verbena's
 * rdma and tcp are built on and compared with.
 */
#ifndef PERF_RAW_UCX_H
#define PERF_RAW_UCX_H

#include "transport/tp.h"

struct raw_ucx;

/* Both sides; fd is a socket between them, host the passive side's numeric address. The buffers are the
 * caller's, and registered. gives: raw_ucx_close. */
bool raw_ucx_open(int fd, bool active, enum tp_way way, const char *host, void *src, void *dst,
                  uint64_t bytes, struct raw_ucx **out);
void raw_ucx_close(struct raw_ucx *r); /* takes NULL */

/* n active messages of so many bytes, at most `window` of them under way; until all may be sent again. */
bool raw_ucx_send(struct raw_ucx *r, uint64_t bytes, uint64_t n, unsigned window);
/* Polls until so many messages in all have landed in dst. */
bool raw_ucx_await(struct raw_ucx *r, uint64_t received);
uint64_t raw_ucx_received(const struct raw_ucx *r);
/* The other end's dst, written by puts, at most `window` under way, and flushed. false: no puts here. */
bool raw_ucx_put(struct raw_ucx *r, uint64_t bytes, uint64_t n, unsigned window);

#endif
