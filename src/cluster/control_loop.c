#include "cluster/control_int.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LOG_MOD "cluster"
#include "base/log.h"

/* Places in pfd; pending connections and then peers follow. */
enum { AT_WAKE, AT_LISTEN, AT_UNIX, AT_PENDING, AT_PEERS = AT_PENDING + CTL_PENDING };

char *ctl_task_text(const struct ctl *c, uint32_t rank, char *buf)
{
    const struct cl_addr *a = &c->p.spec->addr[rank];
    char name[CL_NAME_MAX];

    cl_name(c->p.spec, rank, name);
    if (a->port != 0)
        snprintf(buf, NET_TASK, "%s (host %s:%u)", name, a->host, a->port);
    else
        snprintf(buf, NET_TASK, "%s", name);
    return buf;
}

/* Who is missing. */

static void ask_coordinator(struct ctl *c)
{
    struct wire_missing *m = &c->missing;

    m->total = coord_missing(&c->coord, m->rank, WIRE_MISSING_MAX);
    m->nranks = VB_MIN(m->total, (uint32_t)WIRE_MISSING_MAX);
}

/* NULL: not missing. Else what is known about it, perhaps "". */
static const char *why_missing(const struct ctl *c, uint32_t rank)
{
    const struct peer *p = &c->peer[rank];

    if (p->planned && !p->in)
        return p->why;
    if (p->linked && !p->ready)
        return "its data link is not up";
    for (uint32_t i = 0; i < c->missing.nranks; i++)
        if (c->missing.rank[i] == rank && rank != c->p.rank)
            return "";
    return NULL;
}

/* Those this task waits for and those the coordinator waits for: "a (host h:1): why, b (host ...)". */
static char *missing_text(struct ctl *c, char *buf, size_t bytes)
{
    char task[NET_TASK];
    size_t at = 0;
    uint32_t left_out = 0;

    snprintf(buf, bytes, "the coordinator's word to start");
    for (uint32_t i = 0; i < c->ntasks; i++) {
        const char *why = why_missing(c, i);

        if (why == NULL)
            continue;
        ctl_task_text(c, i, task);
        if (at + strlen(task) + strlen(why) + 24 > bytes) {
            left_out++;
            continue;
        }
        at += (size_t)snprintf(buf + at, bytes - at, "%s%s%s%s", at != 0 ? ", " : "", task,
                               why[0] != '\0' ? ": " : "", why);
    }
    if (left_out > 0 && at < bytes)
        snprintf(buf + at, bytes - at, "%s%u more", at != 0 ? " and " : "", left_out);
    return buf;
}

static void starting_timers(struct ctl *c, uint64_t now)
{
    char text[800];

    for (uint32_t i = 0; i < c->p.rank && vb_now_ns() < now + CTL_LOOKUP_MS * VB_MS; i++)
        if (c->peer[i].planned && !c->peer[i].in)
            join_try(c, i, now);
    if (now < c->report_at_ns && now < c->start_at_ns)
        return;
    if (c->p.rank == 0)
        ask_coordinator(c);
    if (now >= c->start_at_ns) {
        ctl_set_end(c, VB_EXIT_TIMEOUT, "still missing: %s", missing_text(c, text, 240));
        return;
    }
    c->report_at_ns = now + CTL_REPORT_MS * VB_MS;
    log_warn("waiting for %s", missing_text(c, text, sizeof(text)));
}

static void heartbeat(struct ctl *c, uint64_t now, bool started)
{
    for (uint32_t i = 0; i < c->ntasks; i++) {
        struct peer *p = &c->peer[i];
        char why[40];

        if (!peer_is_up(p) || now < p->heard_ns + c->p.silence_ns)
            continue;
        snprintf(why, sizeof(why), "silent for %.1f s", (double)(now - p->heard_ns) * 1e-9);
        peer_lost(c, i, why);
    }
    if (now < c->ping_at_ns)
        return;
    c->ping_at_ns = now + VB_MIN(started ? VB_SEC : CTL_MISSING_MS * VB_MS, c->p.silence_ns / 4);
    peer_send_all(c, WIRE_PING, NULL);
    if (c->p.rank == 0 && !started) {
        ask_coordinator(c);
        peer_send_all(c, WIRE_MISSING, &c->missing);
    }
}

/* Runs what is due and says when to look again. */
static uint64_t timers(struct ctl *c, bool started)
{
    const uint64_t now = vb_now_ns();
    uint64_t next;

    join_expire(c, now);
    heartbeat(c, now, started);
    next = c->ping_at_ns;
    if (started)
        return next;
    starting_timers(c, now);
    next = VB_MIN(next, VB_MIN(c->report_at_ns, c->start_at_ns));
    for (uint32_t i = 0; i < c->p.rank; i++)
        if (c->peer[i].planned && !c->peer[i].in && !talk_is_open(&c->peer[i].talk))
            next = VB_MIN(next, c->peer[i].try_ns);
    return links_poll(c) ? VB_MIN(next, now + CTL_LINK_MS * VB_MS) : next;
}

/* Polling. */

static struct pollfd poll_conn(const struct conn *conn, bool writes)
{
    const bool out = writes || conn->out_bytes > 0;

    return (struct pollfd){ .fd = conn->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0)) };
}

/* All places taken by young connections: new ones wait in the kernel's queue. */
static bool may_accept(const struct ctl *c, uint64_t now, uint64_t *next)
{
    uint64_t oldest = UINT64_MAX;

    for (int i = 0; i < CTL_PENDING; i++) {
        if (!talk_is_open(&c->pending[i]))
            return true;
        oldest = VB_MIN(oldest, c->pending[i].since_ns);
    }
    *next = VB_MIN(*next, oldest + CTL_OLD_MS * VB_MS);
    return now >= oldest + CTL_OLD_MS * VB_MS;
}

static void fill_pfd(struct ctl *c, uint64_t *next)
{
    const bool accept = may_accept(c, vb_now_ns(), next);

    c->pfd[AT_WAKE] = (struct pollfd){ .fd = c->efd, .events = POLLIN };
    c->pfd[AT_LISTEN] = (struct pollfd){ .fd = accept ? c->listen_fd : -1, .events = POLLIN };
    c->pfd[AT_UNIX] = (struct pollfd){ .fd = accept ? c->unix_fd : -1, .events = POLLIN };
    for (int i = 0; i < CTL_PENDING; i++)
        c->pfd[AT_PENDING + i] = poll_conn(&c->pending[i].conn, false);
    for (uint32_t i = 0; i < c->ntasks; i++) {
        const struct peer *p = &c->peer[i];

        c->pfd[AT_PEERS + i] =
            p->in ? poll_conn(&p->conn, false) : poll_conn(&p->talk.conn, p->talk.connecting);
    }
}

static void serve(struct ctl *c)
{
    uint64_t count;

    if (c->pfd[AT_WAKE].revents != 0 && read(c->efd, &count, sizeof(count)) < 0) {
        /* another wake-up was read with it */
    }
    for (uint32_t i = 0; i < c->ntasks; i++) {
        struct peer *p = &c->peer[i];
        const short revents = c->pfd[AT_PEERS + i].revents;

        if (revents != 0 && peer_is_up(p))
            peer_step(c, i, revents);
        else if (revents != 0 && talk_is_open(&p->talk))
            join_step(c, i);
    }
    for (int i = 0; i < CTL_PENDING; i++)
        if (c->pfd[AT_PENDING + i].revents != 0 && talk_is_open(&c->pending[i]))
            join_pending(c, &c->pending[i]);
    if (c->pfd[AT_LISTEN].revents != 0)
        join_accept(c, c->listen_fd, false);
    if (c->pfd[AT_UNIX].revents != 0)
        join_accept(c, c->unix_fd, true);
}

static bool has_started(struct ctl *c, bool *stop)
{
    pthread_mutex_lock(&c->mu);
    const bool started = c->started;

    *stop = c->stop_asked;
    pthread_mutex_unlock(&c->mu);
    return started;
}

/* The end. */

static void stop_data(struct ctl *c, const struct ctl_end *end)
{
    for (uint32_t i = 0; end->code != VB_EXIT_OK && i < c->ntasks; i++)
        if (c->peer[i].link != NULL)
            tp_link_fail(c->peer[i].link);
    for (unsigned i = 0; i < TP_PORTS_MAX && tp_port(c->p.node, i) != NULL; i++)
        tp_wake(tp_port(c->p.node, i));
}

static void tell_end(struct ctl *c, const struct ctl_end *end)
{
    struct wire_end m = { .code = end->code };

    snprintf(m.text, sizeof(m.text), "%s", end->text);
    for (uint32_t i = 0; i < c->ntasks; i++)
        if (!c->peer[i].finished)
            peer_send(c, i, WIRE_END, &m);
}

/* Sends the rest, says goodbye, and reads on until the peer has closed too: closing with unread bytes
 * would reset the connection and could take the cause of the end away from the peer. */
static bool part(struct conn *conn, bool *told)
{
    const enum vb_st sent = conn_flush(conn);
    enum vb_st st;

    if (sent != VB_AGAIN && !*told) {
        shutdown(conn->fd, SHUT_WR);
        *told = true;
    }
    do {
        conn->in_bytes = 0;
        st = conn_fill(conn);
    } while (st == VB_OK);
    return st == VB_AGAIN && sent != VB_UNREACHABLE;
}

static void farewell(struct ctl *c)
{
    const uint64_t until = vb_now_ns() + CTL_FAREWELL_MS * VB_MS;
    AUTO_FREE bool *told = calloc(c->ntasks, sizeof(*told));
    bool open = told != NULL;

    while (open && vb_now_ns() < until) {
        open = false;
        for (uint32_t i = 0; i < c->ntasks; i++) {
            struct conn *conn = &c->peer[i].conn;

            if (peer_is_up(&c->peer[i]) && !part(conn, &told[i]))
                conn_close(conn);
            c->pfd[i] = poll_conn(conn, false);
            if (!peer_is_up(&c->peer[i]))
                c->pfd[i].fd = -1;
            open = open || c->pfd[i].fd >= 0;
        }
        if (open)
            poll(c->pfd, c->ntasks, vb_poll_ms(until));
    }
    for (uint32_t i = 0; i < c->ntasks; i++)
        conn_close(&c->peer[i].conn);
}

static void close_doors(struct ctl *c)
{
    for (int i = 0; i < CTL_PENDING; i++)
        talk_close(&c->pending[i]);
    for (uint32_t i = 0; i < c->ntasks; i++)
        talk_close(&c->peer[i].talk);
    close(c->listen_fd);
    c->listen_fd = -1;
    if (c->unix_fd >= 0)
        close(c->unix_fd);
    c->unix_fd = -1;
}

void *ctl_main(void *arg)
{
    struct ctl *c = arg;
    struct ctl_end end;
    bool stop = false;

    coord_in(&c->coord, c->p.rank);
    c->start_at_ns = vb_now_ns() + c->p.start_ns;
    c->report_at_ns = vb_now_ns() + CTL_REPORT_MS * VB_MS;
    while (!stop && !ctl_ended(c, NULL)) {
        uint64_t next = timers(c, has_started(c, &stop));

        peer_commands(c);
        if (stop || ctl_ended(c, NULL))
            break;
        fill_pfd(c, &next);
        poll(c->pfd, AT_PEERS + c->ntasks, vb_poll_ms(next));
        serve(c);
    }
    close_doors(c);
    if (ctl_ended(c, &end)) {
        stop_data(c, &end);
        if (end.code != VB_EXIT_OK || c->p.rank == 0)
            tell_end(c, &end);
    }
    farewell(c);
    return NULL;
}
