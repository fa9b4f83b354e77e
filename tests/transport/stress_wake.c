/* A waiter that sleeps after every item, and a poster that hands over the next as soon as it can: no
 * wake-up may get lost. VB_LONG: a hundred times as many. */
#include "transport/wake.h"

#include "far.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct wake_word word;
static struct wake wake;
static atomic_uint posted, taken;
static unsigned total;
static uint64_t deadline_ns;

static void *waiter(void *arg)
{
    unsigned *slept = arg;

    for (unsigned i = 1; i <= total && vb_now_ns() < deadline_ns; i++) {
        while (atomic_load_explicit(&posted, memory_order_acquire) < i &&
               vb_now_ns() < deadline_ns) {
            wake_arm(&wake);
            if (atomic_load_explicit(&posted, memory_order_acquire) < i) {
                ++*slept;
                wake_sleep(&wake, NULL, 0, deadline_ns);
            } else {
                wake_disarm(&wake);
            }
        }
        atomic_store_explicit(&taken, i, memory_order_release);
    }
    return NULL;
}

/* Half of the items come when the waiter is surely armed, half at any moment. */
static void post_all(void)
{
    for (unsigned i = 1; i <= total; i++) {
        while (atomic_load_explicit(&taken, memory_order_acquire) < i - 1 ||
               (i % 2 == 0 && atomic_load_explicit(&word.armed, memory_order_relaxed) == 0)) {
            if (vb_now_ns() >= deadline_ns)
                return;
            sched_yield();
        }
        atomic_store_explicit(&posted, i, memory_order_release);
        wake_post(&wake);
    }
}

int main(void)
{
    unsigned slept = 0;
    pthread_t thread;

    total = far_rounds(100000, 10000000);
    deadline_ns = vb_now_ns() + far_rounds(100, 1500) * VB_SEC;
    wake = (struct wake){ .word = &word, .efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    if (wake.efd < 0 || pthread_create(&thread, NULL, waiter, &slept) != 0)
        return 1;
    post_all();
    pthread_join(thread, NULL);
    close(wake.efd);
    printf("%u of %u items, %u sleeps, spin budget %llu ns\n", atomic_load(&taken), total, slept,
           (unsigned long long)wake_spin_ns(1, 1));
    return atomic_load(&taken) == total && wake_spin_ns(1000000, 1) == 0 ? 0 : 1;
}
