/*
 * exchange.h - a worker's end of the exchange with all ps: the gradient line that it pushes from, and
 * the parameter window that it reads.
 *
 * The window is one address range laid out as the chunk table's line: ranges of ps on this host are
 * their own memory mapped read-only (in sync the parameters themselves, else this worker's copy of them),
 * others are filled by messages, so every variable is contiguous however many ps there are. A chunk for
 * clock c may be read from the moment it has landed until this worker pushes its gradient of clock c, and
 * may be overwritten any time after that push, which is answered once.
 *
 * Thread: the worker's, but for open/connect/close (set-up) and place (the transport's thread).
 */
#ifndef WORKER_EXCHANGE_H
#define WORKER_EXCHANGE_H

#include "ps/class.h"
#include "transport/tp.h"

struct exchange;

struct exchange_params {
    const struct ps_table *table; /* borrowed until close */
    const struct ps_class *cls;   /* the same: table->nclasses of them */
    uint32_t worker, nworkers;    /* index of this worker, and how many there are */
    struct tp_node *node;         /* port 0 is the worker's */
};

/* Makes the gradient region (the node's first) and the window, sets the callbacks of port 0. Before
 * any link. */
VB_MUST_CHECK enum vb_st exchange_open(const struct exchange_params *p, struct exchange **x_out);
/* All links are ready: link[ps]. Maps what is on this host. */
VB_MUST_CHECK enum vb_st exchange_connect(struct exchange *x, struct tp_link *const *link);
void exchange_close(
    struct exchange *x); /* takes NULL; after the node has closed: it receives here */

const float *exchange_param(const struct exchange *x, uint32_t var);
float *exchange_grad(const struct exchange *x, uint32_t var); /* in the gradient region */

/* How many of this worker's pushes of the variable have been answered: it can be read for the next step;
 * UINT64_MAX: it has no value yet. */
uint64_t exchange_round(const struct exchange *x, uint32_t var);
/* The clock that all variables can be read for: rounds, but with backup workers it may have been left behind. */
uint64_t exchange_clock(const struct exchange *x);

/* Pushes the gradient of a chunk; it must not be written until the chunk's next epoch has landed. What
 * finds no room waits in order. Never blocks. samples: of this gradient; of: of all workers' in its step. */
void exchange_push(struct exchange *x, uint32_t chunk, uint64_t clock, uint32_t samples,
                   uint32_t of);
/* Worker 0 only: the chunk's first value, from the gradient region. */
void exchange_init(struct exchange *x, uint32_t chunk);
/* With backup workers, after the last push of a clock: told to every lane of every ps. */
void exchange_tick(struct exchange *x, uint64_t clock);
/* Asks for all parameters once more, as they are now, for the same clock. After exchange_idle, with nothing
 * on its way. Those in sync are left out: nothing has changed. */
void exchange_refresh(struct exchange *x);
/* After exchange_idle. No pushes will come any more after those of this clock - 1; told to every lane of every ps. */
void exchange_finish(struct exchange *x, uint64_t clock);

/* Handles what has arrived; never sleeps. */
void exchange_poll(struct exchange *x);
/* Sleeps until something arrived or the deadline. VB_TIMEOUT; VB_PROTO: a ps broke the protocol;
 * VB_UNREACHABLE: a link is dead;
 * VB_INVAL: the run shall end, exchange_why says why. */
VB_MUST_CHECK enum vb_st exchange_wait(struct exchange *x, uint64_t deadline_ns);
const char *exchange_why(const struct exchange *x);
/* Every push has left (finish included). */
bool exchange_idle(const struct exchange *x);
/* The ps whose chunk is furthest behind `clock`; false: all chunks are there. */
bool exchange_missing(const struct exchange *x, uint64_t clock, uint32_t *ps_out);

/* A ps whose link has failed; false: none. */
bool exchange_dead(const struct exchange *x, uint32_t *ps_out);

/* Chunks of a class that were read, by how many steps they were behind (PS_STALENESS_BUCKETS). */
const uint64_t *exchange_staleness(const struct exchange *x, uint32_t cls);
/* How long this worker has slept in exchange_wait until the push of each worker (nworkers of them). */
const uint64_t *exchange_waited_ns(const struct exchange *x);

/* How many bytes of gradients a byte that is pushed stands for, and of parameters one that is pulled. */
double exchange_push_ratio(const struct exchange *x);
double exchange_pull_ratio(const struct exchange *x);
uint64_t exchange_pushed_bytes(const struct exchange *x);
uint64_t
exchange_pulled_bytes(const struct exchange *x); /* of chunks made readable, mapped or not */

#endif
