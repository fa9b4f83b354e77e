/*
 * crew.h - the tasks of a small run as processes of this host, for tests of the control thread.
 */
#ifndef TESTS_CLUSTER_CREW_H
#define TESTS_CLUSTER_CREW_H

#include "cluster/control.h"

#include <sys/types.h>

enum { CREW_MAX = 260, CREW_WAIT_S = 20 };

struct crew;

/* What a task does once it has started; its exit code is that of the end, or what this returns. */
typedef int (*crew_body)(struct crew *w, struct ctl *c, uint32_t rank);

/* How a task ended, from its process. */
struct crew_result {
    int code;
    char text[256];
};

struct crew {
    struct cl_spec spec;
    uint32_t ntasks;
    int listen_fd[CREW_MAX]; /* bound to port 0 of loopback before the spec is written */
    enum cl_transport transport;
    uint64_t start_ns, silence_ns;
    bool no_auth, require_rdma;
    const struct rdma_ports *ports; /* what a host is said to have; NULL: what it has */
    int started_fd[2];              /* a byte for every task that started */
    int go_fd[2];                   /* tasks wait for the parent to close it */
    struct {
        pid_t pid;
        int fd; /* its result */
    } proc[CREW_MAX];
    unsigned nprocs;
};

struct crew_odd { /* what is different about one task */
    unsigned char secret, config;
    bool own_socket; /* listens elsewhere: a second task of the same rank */
    enum cl_transport transport;
};

void crew_open(struct crew *w, uint32_t nps, uint32_t nworkers);
/* Starts a process; returns its number for crew_kill and crew_wait. odd may be NULL. */
unsigned crew_start(struct crew *w, uint32_t rank, crew_body body, const struct crew_odd *odd);
/* All tasks but `without` (UINT32_MAX: none) with the bodies below; numbers equal ranks then. */
void crew_start_all(struct crew *w, crew_body ps, crew_body worker, uint32_t without);
void crew_let_go(struct crew *w); /* the parent's copies of the listening sockets */
void crew_wait_started(struct crew *w, unsigned n);
void crew_go(struct crew *w);
void crew_kill(struct crew *w, unsigned number, int sig);
struct crew_result crew_wait(struct crew *w, unsigned number);
void crew_close(struct crew *w); /* kills who is left */

/* A connection to a task's TCP port. */
int crew_connect(const struct crew *w, uint32_t rank);

int body_ps(struct crew *w, struct ctl *c, uint32_t rank);     /* until all have finished */
int body_worker(struct crew *w, struct ctl *c, uint32_t rank); /* go, 50 sums, finish */
int body_idle(struct crew *w, struct ctl *c, uint32_t rank);   /* until the run ends */

#endif
