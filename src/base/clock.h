/*
 * clock.h - one clock: monotonic nanoseconds; and deadlines made of it.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define VB_MS UINT64_C(1000000)
#define VB_SEC UINT64_C(1000000000)
#define VB_NEVER                                                                                   \
    UINT64_MAX /* a deadline that does not come; only for waits that have another end */

static inline uint64_t vb_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * VB_SEC + (uint64_t)t.tv_nsec;
}

/* Milliseconds from now until at_ns for poll(2), rounded up; -1 for VB_NEVER. */
static inline int vb_poll_ms(uint64_t at_ns)
{
    if (at_ns == VB_NEVER)
        return -1;
    const uint64_t now = vb_now_ns();
    const uint64_t ms = at_ns > now ? (at_ns - now + VB_MS - 1) / VB_MS : 0;
    return ms > 86400000 ? 86400000 : (int)ms;
}

#endif
