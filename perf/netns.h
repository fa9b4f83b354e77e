/* netns.h - two network namespaces joined by a cable (veth), as two hosts on one machine. Needs root. */
#ifndef PERF_NETNS_H
#define PERF_NETNS_H

#include <stdbool.h>

#define NETNS_ACTIVE "10.99.0.1"
#define NETNS_PASSIVE "10.99.0.2"

struct netns {
    int fd[2]; /* active, passive */
};

/* false: it cannot be done here (logged). gives: netns_drop. */
bool netns_make(struct netns *n);
/* This process moves into one, with a /sys that shows its devices. false: logged. */
bool netns_enter(int fd);
/* Runs shell commands in one. */
bool netns_run(int fd, const char *commands);
void netns_drop(struct netns *n); /* takes zeroed; what is in them ends with their last process */

#endif
