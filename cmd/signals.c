/*
 * How: a handler writes the signal's number into a pipe, and the watch's thread reads it. Only that thread
 * lets the signals in, and those that libraries start before main, whose masks are not ours: on any of
 * them the handler does the same.
 */
#include "cmd/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct sig_watch {
    void (*fn)(void *arg, enum vb_exit code, const char *text);
    void *arg;
    int stop_fd;
    bool started;
    pthread_t thread;
};

static int came[2] = { -1, -1 }; /* a handler has nothing else to go by */

static sigset_t both(void)
{
    sigset_t s;

    sigemptyset(&s);
    sigaddset(&s, SIGINT);
    sigaddset(&s, SIGTERM);
    return s;
}

static void on_signal(int sig)
{
    const int saved = errno;
    const unsigned char byte = (unsigned char)sig;

    if (write(came[1], &byte, 1) < 0) {
        /* full: more have come than anybody can want */
    }
    errno = saved;
}

enum vb_st sig_catch(void)
{
    const struct sigaction catch = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    const sigset_t s = both();

    if (came[0] < 0 && pipe2(came, O_CLOEXEC | O_NONBLOCK) != 0)
        return VB_IO;
    pthread_sigmask(SIG_BLOCK, &s, NULL);
    sigaction(SIGINT, &catch, NULL);
    sigaction(SIGTERM, &catch, NULL);
    signal(SIGPIPE, SIG_IGN);
    return VB_OK;
}

static void *watch(void *arg)
{
    const sigset_t s = both();
    struct sig_watch *w = arg;
    bool called = false;

    pthread_sigmask(SIG_UNBLOCK, &s, NULL);
    for (;;) {
        struct pollfd p[2] = { { .fd = w->stop_fd, .events = POLLIN },
                               { .fd = came[0], .events = POLLIN } };
        unsigned char sig;

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (p[0].revents != 0)
            return NULL;
        if (read(came[0], &sig, 1) != 1)
            continue;
        const bool is_int = sig == SIGINT;
        if (called)
            _exit(is_int ? VB_EXIT_SIGINT : VB_EXIT_SIGTERM);
        called = true;
        w->fn(w->arg, is_int ? VB_EXIT_SIGINT : VB_EXIT_SIGTERM,
              is_int ? "ended by SIGINT" : "ended by SIGTERM");
    }
}

enum vb_st sig_watch_start(void (*fn)(void *arg, enum vb_exit code, const char *text), void *arg,
                           struct sig_watch **out)
{
    struct sig_watch *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return VB_NOMEM;
    w->fn = fn;
    w->arg = arg;
    w->stop_fd = eventfd(0, EFD_CLOEXEC);
    w->started = w->stop_fd >= 0 && pthread_create(&w->thread, NULL, watch, w) == 0;
    if (w->started) {
        *out = w;
        return VB_OK;
    }
    sig_watch_stop(w);
    return VB_IO;
}

void sig_watch_stop(struct sig_watch *w)
{
    const uint64_t one = 1;

    if (w == NULL)
        return;
    if (w->started && write(w->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
        pthread_join(w->thread, NULL);
    if (w->stop_fd >= 0)
        close(w->stop_fd);
    free(w);
}
