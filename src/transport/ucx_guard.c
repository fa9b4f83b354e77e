/*
 * A broken assertion of UCX ends the process, and Debian builds UCX with assertions: 1.13 has one that
 * breaks now and then when a peer dies in the middle of a rendezvous over TCP (tcp_ep.c, an
 * acknowledgement that is read after a failed send). A library's trouble with one peer is no reason to lose a
 * task, so the function that says the last words is replaced by one that leaves UCX for good: nobody goes
 * in again, its memory stays, and all its links fail as if their peers were lost.
 */
#include "transport/ucx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#define LOG_MOD "ucx"
#include "base/log.h"

/* As in ucs/debug/assert.h, which is not installed. */
void ucs_fatal_error_format(const char *file, unsigned line, const char *function,
                            const char *format, ...) __attribute__((noreturn));
void ucs_fatal_error_message(const char *file, unsigned line, const char *function, char *text)
    __attribute__((noreturn));

static _Thread_local struct escape {
    jmp_buf to;
    char why[256];
} * escape; /* NULL: this thread is not inside on our behalf */

/* UCX's libraries find this one first. */
__attribute__((visibility("default"))) void ucs_fatal_error_format(const char *file, unsigned line,
                                                                   const char *function,
                                                                   const char *format, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (escape == NULL)
        ucs_fatal_error_message(file, line, function, text);
    snprintf(escape->why, sizeof(escape->why), "%s:%u: %s", file, line, text);
    longjmp(escape->to, 1);
}

static void give_up(struct ucx_node *un, const char *why)
{
    log_error("ucx has stopped, its links are lost: %s", why);
    atomic_store_explicit(&un->broken, true, memory_order_relaxed);
    for (unsigned i = 0; i < un->nports; i++)
        un->port[i].parked_head = un->port[i].parked_tail = NULL;
    for (unsigned i = 0; i < un->nlinks; i++) {
        struct ucx_link *l = un->link[i];

        if (l == NULL)
            continue;
        atomic_store_explicit(&l->state, UCX_LINK_DOWN, memory_order_release);
        ucx_sends_give_up(l, false);
        tp_link_fail(&l->base);
    }
    ucx_attend(un);
}

bool ucx_inside(struct ucx_node *un, bool (*what)(struct ucx_node *un), bool otherwise)
{
    struct escape e;
    bool done;

    if (atomic_load_explicit(&un->broken, memory_order_relaxed))
        return otherwise;
    escape = &e;
    if (setjmp(e.to) == 0) {
        done = what(un);
        escape = NULL;
        return done;
    }
    escape = NULL;
    give_up(un, e.why);
    return otherwise;
}
