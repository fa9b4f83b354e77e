/*
 * far.h - two ends of a link in processes of their own, for plain programs. The process that starts
 * them stays free of UCX, so it may fork as often as it likes.
 */
#ifndef TESTS_TRANSPORT_FAR_H
#define TESTS_TRANSPORT_FAR_H

#include "transport/tp.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum { FAR_SKIP = 77, FAR_SRC = 0, FAR_DST = 1, FAR_PATIENCE_S = 20 };

struct far {
    const char *name; /* "a" or "b" */
    struct tp_node *node;
    struct tp_link *link;
    struct tp_port *port;
    unsigned char *src, *dst; /* two regions of `bytes` */
    uint64_t bytes;
    int fd; /* a unix socket to the other end */
};

/* A node, a or b, of one port with both regions, and the port's callbacks. */
void far_open(struct far *f, const char *name, uint64_t bytes, const struct tp_port_params *cb);
/* Makes the link and exchanges offers over fd; until the link is ready. */
void far_join(struct far *f, int fd, enum tp_way way, bool initiator, const char *host);
/* Has the other process ended? */
bool far_gone(const struct far *f);

/* The number for a usual run, or the one for a thorough run: VB_LONG is set. */
unsigned far_rounds(unsigned usual, unsigned thorough);

/* Runs body(fd, arg) in a process of its own, which ends with what it returns. */
pid_t far_start(int fd, int (*body)(int fd, void *arg), void *arg);
/* Its exit code, -signal; the caller's patience is the process's alarm. */
int far_wait(pid_t pid);

#endif
