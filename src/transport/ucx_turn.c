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
 *
 * Opening and closing the gate costs two system calls, and a wake-up for nothing when something arrives
 * in between. A port that always comes back soon stays the driver while it is *off*; meanwhile the
 * communication thread looks after it every millisecond. Is it off for longer, it is the driver no more,
 * and from then on it gives the part up when it leaves.
 */
#include "transport/ucx.h"

#include <sched.h>
#include <sys/epoll.h>

#define LOG_MOD "ucx"
#include "base/log.h"

/* driver: NOBODY, or 2 * (the port's index + 1), plus OFF */
enum { NOBODY = 0, OFF = 1 };

#define OFF_NS (VB_MS / 20) /* a port that is never off for longer stays the driver */
#define OFF_MAX_NS VB_MS    /* a longer pause is forgotten as fast as one of this length */
enum { ROUNDS_MAX = 8 };    /* turns of one progress */
enum { OFF_FORGET = 64 };   /* in how many waits a pause counts e times less */
#define WATCH_NS VB_MS      /* how often the communication thread looks */

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

bool ucx_is_driven(const struct ucx_node *un)
{
    return atomic_load_explicit(&un->driver, memory_order_relaxed) != NOBODY;
}

static bool arm(struct ucx_node *un)
{
    return ucp_worker_arm(un->worker) == UCS_OK &&
           (un->way == TP_TCP || ucp_worker_progress(un->worker) == 0);
}

/* Will UCX's descriptor tell of all that comes from now on? TCP's always does. A completion queue tells of
 * what comes after it is armed, and not of what came since it was last looked at. */
static bool armed(struct ucx_node *un)
{
    return ucx_inside(un, arm, true);
}

static void gate_set(struct ucx_node *un)
{
    const bool open =
        !ucx_is_driven(un) && !atomic_load_explicit(&un->broken, memory_order_relaxed);
    struct epoll_event ev = { .events = open ? EPOLLIN : 0 };

    if (open == atomic_load_explicit(&un->gate_open, memory_order_relaxed))
        return;
    if (epoll_ctl(un->gate_fd, EPOLL_CTL_MOD, un->ucx_fd, &ev) != 0)
        log_warn("cannot watch the ucx worker: %m");
    atomic_store_explicit(&un->gate_open, open, memory_order_relaxed);
    if (open && un->way != TP_TCP && !armed(un))
        wake_post(&un->wake);
}

/* For the communication thread, which may sleep when the turn is taken: it is woken afterwards. */
static bool take_or_want(struct ucx_node *un)
{
    if (take(un))
        return true;
    atomic_store_explicit(&un->wanted, true, memory_order_relaxed);
    full_fence(); /* pairs with the one in give */
    return take(un);
}

/* Lets go. true: somebody has left work meanwhile, and the turn is ours again. */
static bool give(struct ucx_node *un)
{
    gate_set(un);
    atomic_store_explicit(&un->turn, false, memory_order_release);
    full_fence(); /* pairs with those in ucx_turn and take_or_want */
    if (atomic_load_explicit(&un->wanted, memory_order_relaxed) &&
        atomic_exchange_explicit(&un->wanted, false, memory_order_relaxed))
        wake_post(&un->wake);
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

static bool rings(struct ucx_node *un)
{
    bool busy = false;

    for (unsigned i = 0; i < un->nports; i++) {
        struct ucx_port *up = &un->port[i];

        busy |= ucx_sends_start(up);
        busy |= ucx_places_retry(up);
        busy |= ucx_credits_send(up);
    }
    return busy;
}

static bool progress_and_rings(struct ucx_node *un)
{
    const bool busy = ucp_worker_progress(un->worker) != 0;

    return rings(un) || busy;
}

static bool work(struct ucx_node *un, bool progress)
{
    bool busy;

    /* pairs with the release in ucx_turn: what was left is visible */
    atomic_exchange_explicit(&un->pending, false, memory_order_acq_rel);
    busy = ucx_inside(un, progress ? progress_and_rings : rings, false);
    for (unsigned i = 0; i < un->nports && atomic_load_explicit(&un->broken, memory_order_relaxed);
         i++)
        ucx_sends_refuse(&un->port[i]);
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
    gate_set(un); /* before anything arrives */
    do
        busy |= work(un, progress);
    while (give(un));
    return busy;
}

/* Takes the part of driver from a port that is off for long. */
static void look_after(struct ucx_node *un)
{
    unsigned is = atomic_load_explicit(&un->driver, memory_order_acquire);

    if ((is & OFF) == 0)
        return;

    const struct ucx_port *up = &un->port[is / 2 - 1];
    const uint64_t since = atomic_load_explicit(&up->off_since_ns, memory_order_relaxed);

    if (vb_now_ns() - since >= WATCH_NS / 2)
        atomic_compare_exchange_strong_explicit(&un->driver, &is, NOBODY, memory_order_acq_rel,
                                                memory_order_relaxed);
}

bool ucx_turn_comm(struct ucx_node *un)
{
    look_after(un);
    if (ucx_is_driven(un) && !atomic_load_explicit(&un->gate_open, memory_order_relaxed) &&
        !atomic_load_explicit(&un->attention, memory_order_relaxed) &&
        (un->next_ns == VB_NEVER || vb_now_ns() < un->next_ns))
        return false;
    if (!take_or_want(un))
        return false;
    gate_set(un);

    bool busy = ucx_inside(un, ucx_control, false);

    if (atomic_load_explicit(&un->broken, memory_order_relaxed)) {
        atomic_store_explicit(&un->attention, false, memory_order_relaxed);
        ucx_cmds_refuse(un);
    }

    do
        busy |= work(un, !ucx_is_driven(un));
    while (give(un));
    return busy;
}

/* Is somebody to be looked after? A driver that goes off sees `watched` or is seen here. */
static bool watches(struct ucx_node *un)
{
    const unsigned offs = atomic_load_explicit(&un->offs, memory_order_relaxed);
    const bool active = offs != un->offs_seen;

    un->offs_seen = offs;
    atomic_store_explicit(&un->watched, active, memory_order_relaxed);
    full_fence(); /* pairs with the one in ucx_leave */
    if (active || (atomic_load_explicit(&un->driver, memory_order_relaxed) & OFF) == 0)
        return active;
    atomic_store_explicit(&un->watched, true, memory_order_relaxed);
    return true;
}

bool ucx_may_rest(struct ucx_node *un, int *fd, uint64_t *until_ns)
{
    bool may;

    *fd = un->gate_fd;
    *until_ns = watches(un) ? VB_MIN(un->next_ns, vb_now_ns() + WATCH_NS) : un->next_ns;
    if (!atomic_load_explicit(&un->gate_open, memory_order_relaxed))
        return true; /* whoever opens it arms UCX */
    if (!take_or_want(un)) {
        *fd = un->wake.efd; /* what makes the gate ready is being dealt with */
        return true;
    }
    gate_set(un); /* a driver that sleeps must not lose what it has armed */
    may = !atomic_load_explicit(&un->gate_open, memory_order_relaxed) || armed(un);
    if (!may)
        (void)work(un, true); /* UCX tells only once of what kept it from being armed */
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

static unsigned id_of(const struct ucx_port *up)
{
    return 2 * (up->port->index + 1);
}

/* How long was it off? A long pause counts at once and is forgotten slowly. */
static void note_off(struct ucx_port *up)
{
    const uint64_t off_ns =
        vb_now_ns() - atomic_load_explicit(&up->off_since_ns, memory_order_relaxed);

    up->off_ns -= up->off_ns / OFF_FORGET;
    up->off_ns = VB_MAX(up->off_ns, VB_MIN(off_ns, OFF_MAX_NS));
}

/* Is this port the driver now? */
static bool drives(struct ucx_node *un, struct ucx_port *up)
{
    unsigned is = atomic_load_explicit(&un->driver, memory_order_relaxed);

    if (is == id_of(up))
        return true;
    if ((is != NOBODY && (is & OFF) == 0) ||
        !atomic_compare_exchange_strong_explicit(&un->driver, &is, id_of(up), memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    note_off(up);
    return true;
}

unsigned ucx_progress(struct tp_port *p, void *be, bool waiting)
{
    struct ucx_node *un = be;
    struct ucx_port *up = &un->port[p->index];
    const bool driving =
        waiting && atomic_load_explicit(&un->open, memory_order_relaxed) && drives(un, up);
    unsigned n = 0;

    /* a payload that comes in pieces is no callback yet, but no reason to sleep either */
    for (unsigned i = 0; i < ROUNDS_MAX && n == 0; i++) {
        const bool busy = driving && ucx_turn(un, true);

        n = ucx_finished_take(up) + ucx_arrived_take(up);
        up->found |= busy;
        if (!busy)
            break;
    }
    return n;
}

/* TCP's descriptor tells of all that is there. It also stays readable for events of UCX's own until it is
 * armed, so that is done when the last sleep ended for nothing. */
int ucx_watch(struct tp_port *p, void *be)
{
    struct ucx_node *un = be;
    struct ucx_port *up = &un->port[p->index];
    bool busy;

    if (atomic_load_explicit(&un->driver, memory_order_relaxed) != id_of(up) ||
        atomic_load_explicit(&un->broken, memory_order_relaxed))
        return TP_WATCH_NONE;
    busy = un->way == TP_TCP && up->found;
    up->found = false;
    if (busy)
        return un->ucx_fd;
    if (!take(un))
        return TP_WATCH_BUSY;
    busy = !armed(un);
    if (busy)
        (void)work(un, true); /* as in ucx_may_rest */
    while (give(un))
        busy |= work(un, false);
    return busy ? TP_WATCH_BUSY : un->ucx_fd;
}

void ucx_leave(struct tp_port *p, void *be)
{
    struct ucx_node *un = be;
    struct ucx_port *up = &un->port[p->index];

    if (atomic_load_explicit(&un->driver, memory_order_relaxed) != id_of(up))
        return;
    atomic_store_explicit(&up->off_since_ns, vb_now_ns(), memory_order_relaxed);
    if (un->nports > 1 || up->off_ns > OFF_NS) { /* other ports may sleep and count on this one */
        atomic_store_explicit(&un->driver, NOBODY, memory_order_release);
        (void)ucx_turn(un, false);
        return;
    }
    atomic_store_explicit(&un->offs, atomic_load_explicit(&un->offs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&un->driver, id_of(up) | OFF, memory_order_release);
    full_fence(); /* pairs with the one in watches */
    if (!atomic_load_explicit(&un->watched, memory_order_relaxed))
        wake_post(&un->wake);
}
