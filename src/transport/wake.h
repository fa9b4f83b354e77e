/*
 * wake.h - waking a thread that may sleep, of this process or of another: an eventfd and one shared
 * word that says whether the eventfd is needed. An awake receiver costs the sender one fence.
 *
 * The protocol: the waiter arms (word = 1), looks once more for work, and only then sleeps; the
 * poster publishes its work, then looks at the word. Both sides put a full fence between their store
 * and their load, so at least one of them sees the other.
 */
#ifndef TRANSPORT_WAKE_H
#define TRANSPORT_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wake_word {
    _Alignas(64) atomic_uint armed; /* lives in memory that posters can reach */
};

struct wake {
    struct wake_word *word;
    int efd; /* eventfd, non-blocking, closed by whoever made it */
};

/* thread: any that holds a mapping of the word. Call after the work is published. */
void wake_post(const struct wake *w);

/* thread: the waiter. After arm, look for work again; then sleep or disarm. */
void wake_arm(const struct wake *w);
void wake_disarm(const struct wake *w);
/* Sleeps until posted, one of n other descriptors can be read (at most WAKE_OTHERS_MAX), or the deadline
 * (clock.h); disarms. Works also when a post came before. */
enum { WAKE_OTHERS_MAX = 4 };
void wake_sleep(const struct wake *w, const int *other, unsigned n, uint64_t deadline_ns);

/* The spin budget before sleeping: about one wake-up, measured once per process. 0 when cores are
 * short: busy threads of all tasks outnumber the host's processors, or this process's own threads
 * those that it may use. */
uint64_t wake_spin_ns(unsigned busy_on_host, unsigned busy_here);

#endif
