#include "cluster/spawn_line.h"

#include "cluster/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READS_MAX = 256 }; /* more than a full pipe needs */

bool spawn_line_init(struct spawn_line *l)
{
    *l = (struct spawn_line){ .fd = -1, .buf = malloc(SPAWN_LINE_MAX + 1) };
    return l->buf != NULL;
}

void spawn_line_fini(struct spawn_line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    free(l->buf);
    l->buf = NULL;
}

static void flush_rest(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task,
                       bool is_err)
{
    if (l->n > 0) {
        l->buf[l->n] = '\0';
        fn(arg, task, is_err, l->buf, l->n);
    }
    l->n = 0;
}

/* Hands on the whole lines in the buffer and moves the rest to its start. */
static void cut(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task, bool is_err)
{
    char *at = l->buf, *const end = l->buf + l->n;

    for (;;) {
        char *nl = memchr(at, '\n', (size_t)(end - at));

        if (nl == NULL)
            break;
        *nl = '\0';
        fn(arg, task, is_err, at, (size_t)(nl - at));
        at = nl + 1;
    }
    l->n = (size_t)(end - at);
    memmove(l->buf, at, l->n);
}

void spawn_line_read(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task, bool is_err)
{
    /* bounded, so that one talkative child cannot keep the loop from the others */
    for (int turn = 0; l->fd >= 0 && turn < READS_MAX; turn++) {
        const ssize_t n = read(l->fd, l->buf + l->n, SPAWN_LINE_MAX - l->n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            spawn_line_end(l, fn, arg, task, is_err);
            return;
        }
        l->n += (size_t)n;
        cut(l, fn, arg, task, is_err);
        if (l->n == SPAWN_LINE_MAX)
            flush_rest(l, fn, arg, task, is_err);
    }
}

void spawn_line_end(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task, bool is_err)
{
    if (l->fd < 0)
        return;
    flush_rest(l, fn, arg, task, is_err);
    close(l->fd);
    l->fd = -1;
}
