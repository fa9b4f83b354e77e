#include "transport/ucx.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOG_MOD "ucx"
#include "base/log.h"

#define CMD_NS (20 * VB_SEC)  /* no command takes longer, unless UCX hangs */
#define STOP_NS (10 * VB_SEC) /* nor does the thread's end */

/* ---- the communication thread ---- */

static void cmd_run(struct ucx_node *un, struct ucx_link *l)
{
    if (l->cmd.what == UCX_CMD_CLOSE) {
        un->closing = l;
        return;
    }
    ucx_cmd_end(l, l->cmd.what == UCX_CMD_LISTEN ? ucx_listen(l) : ucx_connect(l));
}

static struct ucx_link *cmds_take(struct ucx_node *un)
{
    pthread_mutex_lock(&un->lock);
    struct ucx_link *l = un->cmds;
    un->cmds = NULL;
    pthread_mutex_unlock(&un->lock);
    return l;
}

static void cmds_run(struct ucx_node *un)
{
    struct ucx_link *next;

    for (struct ucx_link *l = cmds_take(un); l != NULL; l = next) {
        next = l->cmd.next;
        cmd_run(un, l);
    }
}

void ucx_cmds_refuse(struct ucx_node *un)
{
    struct ucx_link *next, *closing = un->closing;

    un->closing = NULL;
    if (closing != NULL)
        ucx_cmd_end(closing, VB_OK);
    for (struct ucx_link *l = cmds_take(un); l != NULL; l = next) {
        next = l->cmd.next;
        ucx_cmd_end(l, l->cmd.what == UCX_CMD_CLOSE ? VB_OK : VB_UNREACHABLE);
    }
}

static void fails_take(struct ucx_node *un)
{
    for (unsigned i = 0; i < un->nlinks; i++) {
        struct ucx_link *l = un->link[i];

        if (l != NULL && atomic_load_explicit(&l->fail_asked, memory_order_relaxed))
            ucx_link_down(l);
    }
}

bool ucx_control(struct ucx_node *un)
{
    /* pairs with the release in ucx_attend: what the flag is about is visible */
    const bool due = atomic_load_explicit(&un->attention, memory_order_relaxed) &&
                     atomic_exchange_explicit(&un->attention, false, memory_order_acquire);

    if (due) {
        cmds_run(un);
        fails_take(un);
    }
    if (due || (un->next_ns != VB_NEVER && vb_now_ns() >= un->next_ns))
        un->next_ns = ucx_conns_tend(un, vb_now_ns());
    if (un->closing != NULL) {
        ucx_link_tend(un->closing, vb_now_ns());
        un->next_ns = VB_MIN(un->next_ns, vb_now_ns() + VB_MS);
    }
    return due;
}

static bool stopping(const struct ucx_node *un)
{
    return atomic_load_explicit(&un->stop, memory_order_acquire);
}

/* While no port waits, this thread does the work. It never spins: whoever waits for something is a port,
 * and a port that computes needs the core more. */
static void loop(struct ucx_node *un)
{
    struct pollfd at = { .events = POLLIN };
    uint64_t posts, until_ns;

    while (!stopping(un)) {
        if (ucx_turn_comm(un))
            continue;
        wake_arm(&un->wake);
        /* armed: look at everything once more, the end included */
        if (!stopping(un) && !ucx_turn_comm(un) && ucx_may_rest(un, &at.fd, &until_ns))
            poll(&at, 1, vb_poll_ms(until_ns));
        wake_disarm(&un->wake);
        if (read(un->wake.efd, &posts, sizeof(posts)) < 0) {
            /* nobody has posted */
        }
    }
}

static void end(struct ucx_node *un)
{
    for (unsigned i = 0; i < un->nconns; i++)
        if (un->conn[i].state != UCX_CONN_FREE)
            ucx_conn_close(&un->conn[i]);
    ucx_close(un);
}

static void *comm_main(void *arg)
{
    struct ucx_node *un = arg;
    const enum vb_st st = ucx_open(un, un->ipv6);

    if (st == VB_OK)
        ucx_turn_first(un);
    pthread_mutex_lock(&un->lock);
    un->open_st = st;
    un->opened = true;
    pthread_cond_broadcast(&un->cond);
    pthread_mutex_unlock(&un->lock);
    if (st == VB_OK) {
        loop(un);
        ucx_turn_last(un);
    }
    if (!atomic_load_explicit(&un->broken, memory_order_relaxed))
        end(un);
    pthread_mutex_lock(&un->lock);
    un->ended = true;
    pthread_cond_broadcast(&un->cond);
    pthread_mutex_unlock(&un->lock);
    return NULL;
}

/* ---- other threads ---- */

static struct timespec deadline_in(uint64_t in_ns)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(in_ns / VB_SEC);
    return t;
}

void ucx_cmd_end(struct ucx_link *l, enum vb_st st)
{
    struct ucx_node *un = l->un;

    pthread_mutex_lock(&un->lock);
    l->cmd.st = st;
    l->cmd.done = true;
    pthread_cond_broadcast(&un->cond);
    pthread_mutex_unlock(&un->lock);
}

/* The thread takes no signals: they are the program's. */
static enum vb_st thread_start(struct ucx_node *un)
{
    const struct timespec deadline = deadline_in(CMD_NS);
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&un->thread, NULL, comm_main, un);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return VB_NOMEM;
    un->started = true;
    pthread_setname_np(un->thread, "vb-ucx");
    pthread_mutex_lock(&un->lock);
    for (rc = 0; !un->opened && rc != ETIMEDOUT;)
        rc = pthread_cond_timedwait(&un->cond, &un->lock, &deadline);
    const enum vb_st st = un->opened ? un->open_st : VB_TIMEOUT;
    pthread_mutex_unlock(&un->lock);
    return st;
}

enum vb_st ucx_cmd(struct ucx_link *l, enum ucx_cmd_what what)
{
    struct ucx_node *un = l->un;
    const struct timespec deadline = deadline_in(CMD_NS);
    int rc = 0;

    if (!un->started) {
        un->ipv6 = strchr(l->rail[0].host, ':') != NULL;
        un->open_st = thread_start(un);
    }
    if (un->open_st != VB_OK)
        return un->open_st;
    pthread_mutex_lock(&un->lock);
    l->cmd = (struct ucx_cmd){ .what = what, .next = un->cmds };
    un->cmds = l;
    ucx_attend(un);
    while (!l->cmd.done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&un->cond, &un->lock, &deadline);
    const enum vb_st st = l->cmd.done ? l->cmd.st : VB_TIMEOUT;
    pthread_mutex_unlock(&un->lock);
    if (st == VB_TIMEOUT)
        log_warn("%s: ucx has not answered within 20 s, given up", l->base.peer);
    return st;
}

static enum vb_st port_open(struct ucx_node *un, unsigned i)
{
    struct ucx_port *up = &un->port[i];

    up->un = un;
    up->port = &un->node->port[i];
    up->tx = calloc(UCX_PORT_OPS, sizeof(*up->tx));
    return up->tx != NULL && vb_ring_init(&up->sends, UCX_PORT_OPS) &&
                   vb_ring_init(&up->finished, UCX_PORT_OPS) &&
                   vb_ring_init(&up->credits, UCX_PORT_CHANS) &&
                   vb_ring_init(&up->arrived, UCX_PORT_CHANS)
               ? VB_OK
               : VB_NOMEM;
}

enum vb_st ucx_node_open(struct tp_node *n, enum tp_way way, void **be_out)
{
    const size_t bytes =
        vb_round_up(sizeof(struct ucx_node) + n->nports * sizeof(struct ucx_port), 64);
    struct ucx_node *un = aligned_alloc(64, bytes);
    struct epoll_event posted = { .events = EPOLLIN };
    pthread_condattr_t attr;
    enum vb_st st = VB_NOMEM;

    if (un == NULL)
        return st;
    memset(un, 0, bytes);
    un->node = n;
    un->way = way;
    un->turn = true; /* the communication thread's, to open UCX */
    un->next_ns = VB_NEVER;
    un->nports = n->nports;
    pthread_mutex_init(&un->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&un->cond, &attr);
    pthread_condattr_destroy(&attr);
    un->wake = (struct wake){ .word = &un->word, .efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    un->gate_fd = epoll_create1(EPOLL_CLOEXEC);
    if (un->wake.efd < 0 || un->gate_fd < 0 ||
        epoll_ctl(un->gate_fd, EPOLL_CTL_ADD, un->wake.efd, &posted) != 0) {
        log_error("no eventfd: %m");
        goto fail;
    }
    for (unsigned i = 0; i < n->nports; i++) {
        st = port_open(un, i);
        if (st != VB_OK)
            goto fail;
    }
    *be_out = un;
    return VB_OK;

fail:
    (void)ucx_node_close(un);
    return st;
}

/* false: the thread hangs in UCX. */
static bool thread_stop(struct ucx_node *un)
{
    const struct timespec deadline = deadline_in(STOP_NS);
    int rc = 0;

    atomic_store_explicit(&un->stop, true, memory_order_release);
    wake_post(&un->wake);
    pthread_mutex_lock(&un->lock);
    while (!un->ended && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&un->cond, &un->lock, &deadline);
    const bool ended = un->ended;
    pthread_mutex_unlock(&un->lock);
    return ended && pthread_join(un->thread, NULL) == 0;
}

bool ucx_node_close(void *be)
{
    struct ucx_node *un = be;

    if (un == NULL)
        return true;
    if (un->started && !thread_stop(un)) {
        log_warn("ucx does not end within 10 s, left behind");
        return false; /* its thread still uses all of this */
    }
    if (atomic_load_explicit(&un->broken, memory_order_relaxed))
        return false; /* it still has requests in all of this */
    for (unsigned i = 0; i < un->nports; i++) {
        struct ucx_port *up = &un->port[i];

        vb_ring_fini(&up->sends);
        vb_ring_fini(&up->finished);
        vb_ring_fini(&up->credits);
        vb_ring_fini(&up->arrived);
        free(up->tx);
    }
    if (un->wake.efd >= 0)
        close(un->wake.efd);
    if (un->gate_fd >= 0)
        close(un->gate_fd);
    pthread_cond_destroy(&un->cond);
    pthread_mutex_destroy(&un->lock);
    free(un);
    return true;
}
