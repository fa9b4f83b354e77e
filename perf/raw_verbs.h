/*
 * raw_verbs.h - libibverbs and librdmacm used directly, in one polling thread per process: what RDMA itself
 * gives, the baseline under UCX.
 */
#ifndef PERF_RAW_VERBS_H
#define PERF_RAW_VERBS_H

#include <stdbool.h>
#include <stdint.h>

struct raw_verbs;

/* Both sides; fd is a socket between them, host the passive side's numeric address, which belongs to an RDMA
 * device. The buffers are the caller's, and registered. gives: raw_verbs_close. */
bool raw_verbs_open(int fd, bool active, const char *host, void *src, void *dst, uint64_t bytes,
                    struct raw_verbs **out);
void raw_verbs_close(struct raw_verbs *r); /* takes NULL */

/* One message of at most 4 KiB to the other side; waits until the device has it. */
bool raw_verbs_send(struct raw_verbs *r, uint64_t bytes);
bool raw_verbs_recv(struct raw_verbs *r); /* polls for one */
/* n RDMA writes of so many bytes into the other side's dst, at most `window` requests under way, until the other
 * device has acknowledged the last. Longer ones are cut at what the device can take. */
bool raw_verbs_write(struct raw_verbs *r, uint64_t bytes, uint64_t n, unsigned window);

/* The length of the piece that begins at `at` when messages of at most `limit` bytes (not 0) make up `bytes`. */
static inline uint64_t raw_verbs_cut(uint64_t bytes, uint64_t limit, uint64_t at)
{
    return bytes - at < limit ? bytes - at : limit;
}

#endif
