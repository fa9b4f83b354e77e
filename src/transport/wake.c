/*
 * The waiter stores "armed" and then looks for work; the poster stores work and then looks at
 * "armed". With a full fence between the two on both sides, at least one sees what the other stored,
 * so either the waiter finds the work or the poster writes the eventfd. Nobody but the waiter writes
 * the word: a poster in another process has it mapped read-only, and some posts too many do no harm.
 */
#include "transport/wake.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

enum { SPIN_MIN_NS = 2000, SPIN_MAX_NS = 100000, ROUNDS = 31, REST_NS = 100000 };
enum { SPIN_UNKNOWN_NS = 30000 }; /* a slow but common wake-up of another core */

/* Every access here is atomic, so thread checkers need no model of the fence; the builtin keeps them
 * from warning that they have none. */
static void full_fence(void)
{
    __sync_synchronize();
}

void wake_post(const struct wake *w)
{
    const uint64_t one = 1;

    full_fence(); /* pairs with wake_arm */
    if (atomic_load_explicit(&w->word->armed, memory_order_relaxed) == 0)
        return;
    if (write(w->efd, &one, sizeof(one)) < 0) {
        /* full: it is readable already */
    }
}

void wake_arm(const struct wake *w)
{
    atomic_store_explicit(&w->word->armed, 1, memory_order_relaxed);
    full_fence(); /* pairs with wake_post */
}

void wake_disarm(const struct wake *w)
{
    atomic_store_explicit(&w->word->armed, 0, memory_order_relaxed);
}

void wake_sleep(const struct wake *w, const int *other, unsigned n, uint64_t deadline_ns)
{
    struct pollfd pfd[1 + WAKE_OTHERS_MAX] = { { .fd = w->efd, .events = POLLIN } };
    uint64_t posts;
    int ready;

    for (unsigned i = 0; i < n; i++)
        pfd[1 + i] = (struct pollfd){ .fd = other[i], .events = POLLIN };

    do {
        const uint64_t now = vb_now_ns();
        const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        const struct timespec t = { .tv_sec = (time_t)(left / VB_SEC),
                                    .tv_nsec = (long)(left % VB_SEC) };

        ready = ppoll(pfd, 1 + n, deadline_ns == VB_NEVER ? NULL : &t, NULL);
    } while (ready < 0 && errno == EINTR);
    wake_disarm(w);
    if (ready > 0 && pfd[0].revents != 0 && read(w->efd, &posts, sizeof(posts)) < 0) {
        /* emptied meanwhile by nobody we know: as good as read */
    }
}

struct echo {
    struct wake_word word[2];
    struct wake there, back;
    atomic_uint sent, answered;
};

/* Waits until *counter reaches want; false at the deadline. */
static bool await_count(const struct wake *w, atomic_uint *counter, unsigned want,
                        uint64_t deadline_ns)
{
    while (atomic_load_explicit(counter, memory_order_acquire) < want) {
        if (vb_now_ns() >= deadline_ns)
            return false;
        wake_arm(w);
        if (atomic_load_explicit(counter, memory_order_acquire) < want)
            wake_sleep(w, NULL, 0, deadline_ns);
        else
            wake_disarm(w);
    }
    return true;
}

static void *echo_main(void *arg)
{
    struct echo *e = arg;
    const uint64_t deadline_ns = vb_now_ns() + VB_SEC;

    for (unsigned i = 1; i <= ROUNDS && await_count(&e->there, &e->sent, i, deadline_ns); i++) {
        atomic_store_explicit(&e->answered, i, memory_order_release);
        wake_post(&e->back);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Keeps the thread off this core: waking a thread on the waker's own core is another, cheaper thing. */
static void leave_to_me(pthread_t thread)
{
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return;
    CPU_CLR(sched_getcpu(), &cpus);
    pthread_setaffinity_np(thread, sizeof(cpus), &cpus);
}

/* Half the median round trip between two threads that sleep; 0: could not be measured. */
static uint64_t echo_ns(struct echo *e)
{
    const uint64_t deadline_ns = vb_now_ns() + VB_SEC;
    uint64_t took_ns[ROUNDS];
    unsigned n = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, echo_main, e) != 0)
        return 0;
    leave_to_me(thread);
    for (; n < ROUNDS; n++) {
        nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL); /* so that the core is idle */

        const uint64_t start = vb_now_ns();

        atomic_store_explicit(&e->sent, n + 1, memory_order_release);
        wake_post(&e->there);
        if (!await_count(&e->back, &e->answered, n + 1, deadline_ns))
            break;
        took_ns[n] = vb_now_ns() - start;
    }
    pthread_join(thread, NULL);
    if (n < ROUNDS)
        return 0;
    qsort(took_ns, ROUNDS, sizeof(took_ns[0]), by_value);
    return took_ns[ROUNDS / 2] / 2;
}

static uint64_t measured_ns;

/* A process on one core cannot measure what waking another one costs. */
static void measure(void)
{
    static struct echo e;
    uint64_t ns = 0;
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2) {
        measured_ns = SPIN_UNKNOWN_NS;
        return;
    }
    e.there = (struct wake){ .word = &e.word[0], .efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    e.back = (struct wake){ .word = &e.word[1], .efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    if (e.there.efd >= 0 && e.back.efd >= 0)
        ns = echo_ns(&e);
    if (e.there.efd >= 0)
        close(e.there.efd);
    if (e.back.efd >= 0)
        close(e.back.efd);
    measured_ns = VB_MIN(VB_MAX(ns, (uint64_t)SPIN_MIN_NS), (uint64_t)SPIN_MAX_NS);
}

uint64_t wake_spin_ns(unsigned busy_on_host, unsigned busy_here)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    cpu_set_t cpus;

    if (busy_on_host > (unsigned long)sysconf(_SC_NPROCESSORS_ONLN) ||
        (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && busy_here > (unsigned)CPU_COUNT(&cpus)))
        return 0;
    pthread_once(&once, measure);
    return measured_ns;
}
