#include "transport/backend.h"

#include "base/clock.h"
#include "base/util.h"

enum { SPINS_PER_LOOK = 32 }; /* how often a spinning wait reads the clock */

struct tp_port *tp_port(struct tp_node *n, unsigned i)
{
    return i < n->nports ? &n->port[i] : NULL;
}

void tp_port_set(struct tp_port *p, const struct tp_port_params *params)
{
    p->cb = *params;
}

static void count(atomic_uint_fast64_t *counter, uint64_t add)
{
    /* one writer, so no read-modify-write is needed */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

enum vb_st tp_send(struct tp_port *p, struct tp_link *l, unsigned channel, struct tp_op *op)
{
    const struct tp_node *n = p->node;

    if (l->node != n || channel >= l->channels || channel % n->nports != p->index ||
        op->hdr_bytes > TP_HDR_MAX)
        return VB_INVAL;
    if (op->bytes > 0 && (op->region >= n->nregions ||
                          !vb_inside(op->offset, op->bytes, n->region[op->region].bytes)))
        return VB_INVAL;
    if (tp_link_failed(l))
        return VB_UNREACHABLE;
    op->link = l;
    op->next = NULL;

    /* read first: once sent, the op may belong to another thread */
    const uint64_t bytes = op->bytes;
    const enum vb_st st = l->be->send(p, l, channel, op);

    if (st == VB_OK) {
        count(&l->counts[channel].sent_msgs, 1);
        count(&l->counts[channel].sent_bytes, bytes);
    }
    return st;
}

void tp_port_done(struct tp_port *p, struct tp_op *op, enum vb_st st)
{
    if (op->done == NULL)
        return;
    op->st = st;
    op->next = NULL;
    if (p->done_head == NULL)
        p->done_head = op;
    else
        p->done_tail->next = op;
    p->done_tail = op;
}

void tp_port_deliver(struct tp_port *p, const struct tp_rx *rx, uint64_t copied_bytes)
{
    struct tp_counts *c = &rx->link->counts[rx->channel];

    count(&c->recv_msgs, 1);
    count(&c->recv_bytes, rx->payload_bytes);
    count(&c->copied_bytes, copied_bytes);
    if (p->cb.on_msg != NULL)
        p->cb.on_msg(p->cb.arg, rx);
}

/* Only what was finished before: a done that sends cannot keep this busy for ever. */
static unsigned run_done(struct tp_port *p)
{
    struct tp_op *op = p->done_head;
    unsigned n = 0;

    p->done_head = NULL;
    p->done_tail = NULL;
    while (op != NULL) {
        struct tp_op *next = op->next;

        op->done(op, tp_link_failed(op->link) ? VB_UNREACHABLE : op->st);
        op = next;
        n++;
    }
    return n;
}

/* The way's part of the node; NULL: no link goes that way. */
static void *be_node(const struct tp_port *p, unsigned way)
{
    /* pairs with the release in tp_link_new */
    return atomic_load_explicit(&p->node->be_node[way], memory_order_acquire);
}

static unsigned progress(struct tp_port *p, bool waiting)
{
    unsigned n = 0;

    for (unsigned w = 0; w < TP_NWAYS; w++) {
        void *be = be_node(p, w);

        if (be != NULL)
            n += tp_backends[w]->progress(p, be, waiting);
    }
    return n + (p->done_head != NULL ? run_done(p) : 0);
}

unsigned tp_progress(struct tp_port *p)
{
    return progress(p, false);
}

static bool take_nudge(struct tp_port *p)
{
    return atomic_load_explicit(&p->nudged, memory_order_relaxed) &&
           atomic_exchange_explicit(&p->nudged, false, memory_order_acquire);
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/*
 * Spinning for one wake-up before sleeping costs at most twice what the best choice would. Where
 * messages come at a steady pace that is a little slower (a stream of large chunks, or two sides that
 * both sleep), every message would still cost a wake-up: then spin for twice the usual wait.
 */
static uint64_t spin_budget(const struct tp_port *p)
{
    const uint64_t one = p->node->spin_ns;

    return p->usual_wait_ns <= 8 * one ? VB_MAX(one, 2 * p->usual_wait_ns) : one;
}

static void note_wait(struct tp_port *p, uint64_t took_ns)
{
    p->usual_wait_ns = (p->usual_wait_ns * 7 + took_ns) / 8;
}

/* Sleeps unless something has come since; returns how many callbacks ran. */
static unsigned sleep_armed(struct tp_port *p, uint64_t deadline_ns)
{
    int fd[TP_NWAYS];
    unsigned nfds = 0;
    bool busy = false;

    static_assert((int)TP_NWAYS <= (int)WAKE_OTHERS_MAX, "every way may be watched");
    wake_arm(&p->wake);

    const unsigned n = progress(p, true);

    for (unsigned w = 0; w < TP_NWAYS && n == 0; w++) {
        void *be = be_node(p, w);
        const int watch = be != NULL && tp_backends[w]->watch != NULL ? tp_backends[w]->watch(p, be)
                                                                      : TP_WATCH_NONE;

        busy |= watch == TP_WATCH_BUSY;
        if (watch >= 0)
            fd[nfds++] = watch;
    }
    if (n > 0 || busy || atomic_load_explicit(&p->nudged, memory_order_relaxed))
        wake_disarm(&p->wake);
    else
        wake_sleep(&p->wake, fd, nfds, deadline_ns);
    return n;
}

static unsigned wait_once(struct tp_port *p, uint64_t deadline_ns)
{
    const uint64_t budget_ns = spin_budget(p);
    uint64_t begun_ns = 0;

    for (unsigned spins = 0;; spins++) {
        unsigned n = progress(p, spins > 0);

        if (n > 0)
            note_wait(p, spins < SPINS_PER_LOOK ? 0 : vb_now_ns() - begun_ns);
        if (take_nudge(p) || n > 0)
            return n;
        if (spins % SPINS_PER_LOOK != 0) {
            cpu_relax();
            continue;
        }

        const uint64_t now = vb_now_ns();

        if (now >= deadline_ns)
            return 0;
        if (begun_ns == 0)
            begun_ns = now;
        if (now - begun_ns < budget_ns)
            continue;
        n = sleep_armed(p, deadline_ns);
        if (n > 0)
            return n;
        spins = 2 * SPINS_PER_LOOK - 1; /* look at the clock again after the next progress */
    }
}

unsigned tp_wait(struct tp_port *p, uint64_t deadline_ns)
{
    const unsigned n = wait_once(p, deadline_ns);

    for (unsigned w = 0; w < TP_NWAYS; w++) {
        void *be = be_node(p, w);

        if (be != NULL && tp_backends[w]->leave != NULL)
            tp_backends[w]->leave(p, be);
    }
    return n;
}

void tp_wake(struct tp_port *p)
{
    /* pairs with take_nudge: what was done before the wake is visible after the wait */
    atomic_store_explicit(&p->nudged, true, memory_order_release);
    wake_post(&p->wake);
}

void tp_retry_places(struct tp_port *p)
{
    for (unsigned w = 0; w < TP_NWAYS; w++) {
        void *be = be_node(p, w);

        if (be != NULL && tp_backends[w]->retry != NULL)
            tp_backends[w]->retry(p, be);
    }
}
