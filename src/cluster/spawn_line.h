/*
 * spawn_line.h - one pipe of a child, cut into lines. Inside spawn.c only.
 */
#ifndef CLUSTER_SPAWN_LINE_H
#define CLUSTER_SPAWN_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct spawn_line {
    int fd; /* -1: closed; owned */
    char *buf;
    size_t n; /* bytes of an unfinished line */
};

typedef void (*spawn_line_fn)(void *arg, unsigned task, bool is_err, const char *text, size_t n);

bool spawn_line_init(struct spawn_line *l);
void spawn_line_fini(struct spawn_line *l); /* takes zeroed and closed ones */

/* Reads what is there (the pipe does not block), hands on whole lines, closes at the end of file. */
void spawn_line_read(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task, bool is_err);
/* Nothing more comes: hands on the unfinished line and closes. */
void spawn_line_end(struct spawn_line *l, spawn_line_fn fn, void *arg, unsigned task, bool is_err);

#endif
