#include "cmd/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct sig_watch {
    void (*fn)(void *arg, enum vb_exit code, const char *text);
    void *arg;
    int signal_fd, stop_fd;
    bool started;
    pthread_t thread;
};

static sigset_t both(void)
{
    sigset_t s;

    sigemptyset(&s);
    sigaddset(&s, SIGINT);
    sigaddset(&s, SIGTERM);
    return s;
}

void sig_block(void)
{
    const sigset_t s = both();

    pthread_sigmask(SIG_BLOCK, &s, NULL);
    signal(SIGINT, SIG_DFL); /* a shell ignores it for what it starts with &: it would never come */
    signal(SIGPIPE, SIG_IGN);
}

static void *watch(void *arg)
{
    struct sig_watch *w = arg;
    bool called = false;

    for (;;) {
        struct pollfd p[2] = { { .fd = w->stop_fd, .events = POLLIN },
                               { .fd = w->signal_fd, .events = POLLIN } };
        struct signalfd_siginfo s;

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (p[0].revents != 0)
            return NULL;
        if (p[1].revents == 0 || read(w->signal_fd, &s, sizeof(s)) != (ssize_t)sizeof(s))
            continue;
        const bool is_int = s.ssi_signo == SIGINT;
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
    const sigset_t s = both();
    struct sig_watch *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return VB_NOMEM;
    w->fn = fn;
    w->arg = arg;
    w->signal_fd = signalfd(-1, &s, SFD_CLOEXEC | SFD_NONBLOCK);
    w->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (w->signal_fd < 0 || w->stop_fd < 0)
        goto fail;
    w->started = pthread_create(&w->thread, NULL, watch, w) == 0;
    if (!w->started)
        goto fail;
    *out = w;
    return VB_OK;

fail:
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
    if (w->signal_fd >= 0)
        close(w->signal_fd);
    if (w->stop_fd >= 0)
        close(w->stop_fd);
    free(w);
}
