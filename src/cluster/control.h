/*
 * control.h - the control thread of one task: listening, hello, links, membership, heartbeats, the
 * coordinator (in ps task 0), small reductions, the end of the run.
 *
 * Control connections: every worker to every ps, every ps to ps 0; the higher rank connects. Where
 * the transport allows it (auto, map), an abstract unix socket named by the job (hash of secret and
 * address) is tried first: reached, the link's way is map, else TCP to the ClusterSpec's address and
 * the way is rdma if both ends can, else tcp. Each connection says hello (mutual, HMAC-SHA256) before
 * anything else; then the two tasks exchange offers and the data link between a worker and a ps comes
 * up.
 *
 * Death of a peer is the end of its control connection, or silence for silence_ns. The coordinator
 * announces every loss; whoever ends first for a loss tells its peers the cause before it closes, so
 * all name the same lost task.
 *
 * Thread: functions here may be called by any thread of the task unless said.
 */
#ifndef CLUSTER_CONTROL_H
#define CLUSTER_CONTROL_H

#include "cluster/spec.h"
#include "transport/net_dev.h"
#include "transport/tp.h"

enum cl_transport { CL_AUTO, CL_MAP, CL_TCP, CL_RDMA };

struct ctl;

/* Sums over all parameters, for each step (norms): `count` numbers of CTL_NORM_WORDS words, each merged over
 * the lanes of a ps and then over ps. */
enum { CTL_NORM_WORDS = 21, CTL_NORM_MAX = 640 };
struct ctl_norms {
    uint32_t count;      /* 0: none are made */
    uint32_t nps, lanes; /* that give parts: the first ps, and lanes of this one */
    void (*merge)(uint32_t *sum, const uint32_t *other); /* exact: in any order */
};

struct ctl_params {
    const struct cl_spec *spec; /* borrowed until ctl_stop */
    uint32_t rank;
    bool no_auth; /* explicit: hello runs with an all-zero secret */
    unsigned char secret[32];
    unsigned char config[32]; /* hash of effective configuration and chunk table */
    int listen_fd;            /* bound and listening for this task's address; takes; -1: bind it */
    enum cl_transport transport;
    bool require_rdma;           /* a link to another host by less ends the run, code 6 */
    const struct net_pick *pick; /* devices that data may use; NULL: all; borrowed like the next */
    const struct net_devs *devs; /* the devices there are; NULL: read from the host */
    const struct rdma_ports *ports;
    struct tp_node *node; /* regions are made; links are added by the control thread */
    unsigned channels;    /* per link; at a ps: lanes */
    uint32_t set_size; /* this many workers make a step, the first ones; 0: all, nobody is named */
    struct ctl_norms norms; /* a ps */
    uint64_t start_ns;      /* how long start-up may take; 0: 60 s */
    uint64_t silence_ns;    /* a peer silent for so long is lost; 0: 15 s */
};

/* How the run ended for this task. */
struct ctl_end {
    enum vb_exit code; /* VB_EXIT_OK: in order */
    char text[256];    /* one line naming the cause: "lost /job:ps/task:1 (connection closed)" */
};

/* Starts the thread. VB_INVAL/VB_IO: cannot listen (logged). gives: ctl_stop. */
VB_MUST_CHECK enum vb_st ctl_start(const struct ctl_params *p, struct ctl **ctl_out);

/* Blocks until every task is in and all links of this task are ready, or the run ended (VB_STOPPED:
 * ask ctl_ended; missing tasks were named every 10 s as a warning and at the end, code 4; refused by
 * a peer: code 5). */
VB_MUST_CHECK enum vb_st ctl_wait_start(struct ctl *c);

/* The data link with that rank, NULL: none is planned. After ctl_wait_start. Stays the node's. Its
 * user pointer (tp_link_user) is the rank as a number. */
struct tp_link *ctl_link(struct ctl *c, uint32_t rank);

/* Has the run ended (loss, failure, or in order)? out may be NULL. Cheap: one atomic load. Data
 * threads ask in every wait; the control thread fails links and wakes all ports when it becomes so. */
bool ctl_ended(struct ctl *c, struct ctl_end *out);

/* The exit code of a task whose work ended with st, its cause said once (not after a signal, whose
 * sender knows). Where nothing else has ended the run, st does. */
enum vb_exit ctl_exit_code(struct ctl *c, enum vb_st st);

/* This task cannot go on: peers are told, the run ends everywhere. Only the first end counts. */
void ctl_fail(struct ctl *c, enum vb_exit code, const char *text);

/*
 * Sum over workers, by the coordinator, in rank order: each worker gives n (<= 8) doubles under one
 * tag; ctl_reduced waits for the sum. Tags count up from 0 and at most 64 may be open. A worker need
 * not fetch every result (128 are kept). A worker that has finished counts no more. VB_STOPPED: the
 * run ended; VB_TIMEOUT; VB_INVAL: not the next tag, another n, or a result no longer kept; VB_AGAIN:
 * 64 tags are open, fetch a result first.
 */
VB_MUST_CHECK enum vb_st ctl_reduce(struct ctl *c, uint32_t tag, const double *v, unsigned n);
VB_MUST_CHECK enum vb_st ctl_reduced(struct ctl *c, uint32_t tag, double *v, unsigned n,
                                     uint64_t deadline_ns);

/* ps, where set_size is given. A lane has all pushes of this worker for that step. */
void ctl_counted(struct ctl *c, uint32_t worker, uint64_t clock);
/* Who makes that step, the next one of a lane? Bit w % 64 of word w / 64: worker w. false: not named yet; the
 * lanes' ports are woken when it is. */
enum { CTL_SET_WORDS = 16 };
bool ctl_set(struct ctl *c, uint64_t clock, uint64_t bits[CTL_SET_WORDS]);

/* ps, where norms are given. A lane's part of the next step's sums, once all its chunks are in. */
void ctl_norm(struct ctl *c, const uint32_t *sum); /* one after the other */
/* The sums over all parameters for that step, which this lane has given its part of. false: not there yet;
 * the lanes' ports are woken when they are. */
bool ctl_normed(struct ctl *c, uint64_t clock, uint32_t (*sum)[CTL_NORM_WORDS]);

/* Worker: nothing more to send; it may leave (its closing is no loss from then on). */
void ctl_finish(struct ctl *c);
/* ps: until all workers have finished (VB_OK) or the run ended otherwise (VB_STOPPED). */
VB_MUST_CHECK enum vb_st ctl_wait_finish(struct ctl *c, uint64_t deadline_ns);

/* Ends the thread and closes connections (after telling peers the cause, if there is one). Takes
 * NULL. Links stay until the node closes. */
void ctl_stop(struct ctl *c);

#endif
