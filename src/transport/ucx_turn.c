/*
 * Who is inside UCX. Its worker takes one thread at a time; here that is whoever has the *turn*, a flag
 * that nobody waits for. Who finds it taken has put its work where the holder looks, raises `pending`,
 * and tries once more; the holder lets go and looks at `pending` again. With a full fence between store
 * and load on both sides one of the two sees the other's, so work is never left lying.
 *
 * The *driver* is a port that waits: it takes turns itself, so that a message to it passes through no
 * other thread. While no port waits, the communication thread does the work. It sleeps at the *gate*, an
 * epoll set in which UCX's descriptor counts only while there is no driver: else every arrival would wake
 * two threads. The gate follows `driver` at the end of every turn, and whoever changes `driver` takes a
 * turn or leaves `pending` to the one who has it; so the last change always finds its way.
 */
#include "transport/ucx.h"

#include <sched.h>
#include <sys/epoll.h>

#define LOG_MOD "ucx"
#include "base/log.h"

/* Every access here is atomic; the builtin keeps thread checkers from warning about a fence. */
static void full_fence(void)
{
    __sync_synchronize();
}

static bool take(struct ucx_node *un)
{
    return !atomic_load_explicit(&un->turn, memory_order_relaxed) &&
           !atomic_exchange_explicit(&un->turn, true, memory_order_acquire);
}

static bool is_driven(const struct ucx_node *un)
{
    return atomic_load_explicit(&un->driver, memory_order_relaxed) != NULL;
}

/* RDMA raises no event unless it is armed; TCP always does. */
static bool armed(struct ucx_node *un)
{
    return un->way == TP_TCP || ucp_worker_arm(un->worker) == UCS_OK;
}

static void gate_set(struct ucx_node *un)
{
    const bool open = !is_driven(un);
    struct epoll_event ev = { .events = open ? EPOLLIN : 0 };

    if (open == un->gate_open)
        return;
    if (epoll_ctl(un->gate_fd, EPOLL_CTL_MOD, un->ucx_fd, &ev) != 0)
        log_warn("cannot watch the ucx worker: %m");
    un->gate_open = open;
    if (open && !armed(un))
        wake_post(&un->wake);
}

/* Lets go. true: somebody has left work meanwhile, and the turn is ours again. */
static bool give(struct ucx_node *un)
{
    gate_set(un);
    atomic_store_explicit(&un->turn, false, memory_order_release);
    full_fence(); /* pairs with the one in ucx_turn */
    return atomic_load_explicit(&un->pending, memory_order_relaxed) && take(un);
}

static void tell_ports(struct ucx_node *un)
{
    for (unsigned i = 0; i < un->nports; i++) {
        struct ucx_port *up = &un->port[i];

        if (up->dirty) {
            up->dirty = false;
            wake_post(&up->port->wake);
        }
    }
}

static bool work(struct ucx_node *un, bool progress)
{
    bool busy = false;

    /* pairs with the release in ucx_turn: what was left is visible */
    atomic_exchange_explicit(&un->pending, false, memory_order_acq_rel);
    if (progress)
        busy = ucp_worker_progress(un->worker) != 0;
    for (unsigned i = 0; i < un->nports; i++) {
        struct ucx_port *up = &un->port[i];

        busy |= ucx_sends_start(up);
        busy |= ucx_places_retry(up);
        busy |= ucx_credits_send(up);
    }
    tell_ports(un);
    return busy;
}

bool ucx_turn(struct ucx_node *un, bool progress)
{
    bool busy = false;

    atomic_store_explicit(&un->pending, true, memory_order_release);
    full_fence(); /* pairs with the one in give */
    if (!take(un))
        return false;
    do
        busy |= work(un, progress);
    while (give(un));
    return busy;
}

bool ucx_turn_comm(struct ucx_node *un)
{
    if (is_driven(un) && !atomic_load_explicit(&un->attention, memory_order_relaxed) &&
        (un->next_ns == VB_NEVER || vb_now_ns() < un->next_ns))
        return false;
    if (!take(un))
        return true; /* try again */

    bool busy = ucx_control(un);

    do
        busy |= work(un, !is_driven(un));
    while (give(un));
    return busy;
}

bool ucx_may_rest(struct ucx_node *un)
{
    bool may;

    if (is_driven(un))
        return true; /* it opens the gate when it leaves */
    if (!take(un))
        return false;
    may = ucp_worker_arm(un->worker) == UCS_OK;
    while (give(un))
        may &= !work(un, false);
    return may;
}

void ucx_turn_first(struct ucx_node *un)
{
    atomic_store_explicit(&un->open, true, memory_order_relaxed);
    while (give(un))
        (void)work(un, false);
}

void ucx_turn_last(struct ucx_node *un)
{
    while (!take(un))
        sched_yield();
}

void ucx_attend(struct ucx_node *un)
{
    /* pairs with the acquire in ucx_control */
    atomic_store_explicit(&un->attention, true, memory_order_release);
    wake_post(&un->wake);
}

/* ---- the port's thread ---- */

static bool drives(struct ucx_node *un, struct ucx_port *up)
{
    struct ucx_port *nobody = NULL;

    return atomic_load_explicit(&un->driver, memory_order_relaxed) == up ||
           atomic_compare_exchange_strong_explicit(&un->driver, &nobody, up, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

unsigned ucx_progress(struct tp_port *p, void *be, bool waiting)
{
    struct ucx_node *un = be;
    struct ucx_port *up = &un->port[p->index];

    if (waiting && atomic_load_explicit(&un->open, memory_order_relaxed) && drives(un, up))
        (void)ucx_turn(un, true);
    return ucx_finished_take(up) + ucx_arrived_take(up);
}

int ucx_watch(struct tp_port *p, void *be)
{
    struct ucx_node *un = be;
    bool busy;

    if (atomic_load_explicit(&un->driver, memory_order_relaxed) != &un->port[p->index])
        return TP_WATCH_NONE;
    if (!take(un))
        return TP_WATCH_BUSY;
    busy = ucp_worker_arm(un->worker) != UCS_OK;
    while (give(un))
        busy |= work(un, false);
    return busy ? TP_WATCH_BUSY : un->ucx_fd;
}

void ucx_leave(struct tp_port *p, void *be)
{
    struct ucx_node *un = be;

    if (atomic_load_explicit(&un->driver, memory_order_relaxed) != &un->port[p->index])
        return;
    atomic_store_explicit(&un->driver, NULL, memory_order_release);
    (void)ucx_turn(un, false);
}
