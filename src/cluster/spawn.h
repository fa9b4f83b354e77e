/*
 * spawn.h - the tasks of a run as child processes of this one: started together, their lines collected,
 * ended together. Nothing survives the caller: a child is killed when this process dies, however.
 *
 * Thread: one, the same for everything, and it must live as long as the children (their death signal
 * is tied to it). No other thread may wait for children.
 */
#ifndef CLUSTER_SPAWN_H
#define CLUSTER_SPAWN_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdint.h>

enum { SPAWN_LINE_MAX = 16384 }; /* longer lines are cut into several */

struct spawn_task {
    const char *name;  /* "worker 0", for messages */
    const char *path;  /* program */
    char *const *argv; /* NULL-terminated */
    char *const *envp; /* NULL-terminated, all of the environment */
    int keep_fd;       /* stays open in the child under the same number, -1: none */
};

struct spawn_params {
    const struct spawn_task *task;
    unsigned ntasks;
    /* A line of a child, without its end; n <= SPAWN_LINE_MAX, text[n] is zero. */
    void (*on_line)(void *arg, unsigned task, bool is_err, const char *text, size_t n);
    void *arg;
    uint64_t fail_ns; /* after a task failed, the others may end by themselves; 0: 5 s */
    uint64_t stop_ns; /* after SIGTERM they may end; 0: 3 s */
};

/*
 * Runs all tasks to their end. VB_EXIT_OK: all ended with 0. Else the code of the first that failed
 * (killed by a signal: VB_EXIT_LOST), or VB_EXIT_SIGINT/VB_EXIT_SIGTERM when that came to this
 * process, which is handed on as SIGTERM; err says in one line which and how. Children are in process
 * groups of their own, so a terminal's Ctrl-C reaches this process alone. SIGINT, SIGTERM and SIGCHLD
 * are blocked while it runs.
 */
enum vb_exit spawn_run(const struct spawn_params *p, struct vb_err *err);

/* A TCP socket that listens on a free port of 127.0.0.1; -1 and errno. Close-on-exec. */
int spawn_listen(uint16_t *port_out);

#endif
