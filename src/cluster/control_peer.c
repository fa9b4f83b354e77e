#include "cluster/control_int.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LOG_MOD "cluster"
#include "base/log.h"

bool peer_is_up(const struct peer *p)
{
    return p->in && p->conn.fd >= 0;
}

void peer_lost(struct ctl *c, uint32_t rank, const char *why)
{
    struct peer *p = &c->peer[rank];
    char name[CL_NAME_MAX];

    conn_close(&p->conn);
    if (!p->finished && !c->left)
        ctl_set_end(c, VB_EXIT_LOST, "lost %s (%s)", cl_name(c->p.spec, rank, name), why);
}

/* A failed write is no verdict: the reason may still be there to be read, and reading finds out. */
void peer_flush(struct peer *p)
{
    if (conn_flush(&p->conn) == VB_UNREACHABLE)
        p->conn.out_bytes = 0;
}

void peer_send(struct ctl *c, uint32_t rank, enum wire_kind kind, const void *body)
{
    struct peer *p = &c->peer[rank];

    if (!peer_is_up(p))
        return;
    if (conn_put(&p->conn, kind, body) != VB_OK)
        peer_lost(c, rank, "it reads nothing");
    else
        peer_flush(p);
}

void peer_send_all(struct ctl *c, enum wire_kind kind, const void *body)
{
    for (uint32_t i = 0; i < c->ntasks; i++)
        peer_send(c, i, kind, body);
}

static void bad_message(struct ctl *c, uint32_t rank)
{
    char name[CL_NAME_MAX];

    ctl_set_end(c, VB_EXIT_FAILED, "%s sent a malformed message", cl_name(c->p.spec, rank, name));
}

/* The coordinator. */

static void set_started(struct ctl *c)
{
    if (c->lacks[0] != '\0')
        ctl_set_end(c, VB_EXIT_NOFABRIC, "%s", c->lacks);
    pthread_mutex_lock(&c->mu);
    c->started = true;
    pthread_cond_broadcast(&c->cv);
    pthread_mutex_unlock(&c->mu);
}

static void tell_workers(struct ctl *c, const struct wire_reduce *sum)
{
    for (uint32_t i = c->p.spec->nps; i < c->ntasks; i++)
        if (!c->peer[i].finished)
            peer_send(c, i, WIRE_REDUCED, sum);
}

void peer_coord(struct ctl *c)
{
    struct coord_out out;

    while ((out = coord_next(&c->coord)).act != COORD_NOTHING) {
        switch (out.act) {
        case COORD_START:
            peer_send_all(c, WIRE_START, NULL);
            set_started(c);
            break;
        case COORD_REDUCED:
            tell_workers(c, &out.sum);
            break;
        case COORD_SET:
            for (uint32_t i = 1; i < c->p.spec->nps; i++)
                peer_send(c, i, WIRE_SET, &out.set);
            (void)set_on(c, &out.set);
            break;
        case COORD_NORMED:
            for (uint32_t i = 1; i < c->p.norms.nps; i++)
                peer_send(c, i, WIRE_NORMED, &out.norm);
            (void)norm_on(c, &out.norm);
            break;
        default:
            ctl_set_end(c, VB_EXIT_OK, "all workers have finished");
            break;
        }
    }
}

/* Messages. Each returns VB_PROTO for what makes no sense from this peer now. */

static enum vb_st on_missing(struct ctl *c, const struct wire_missing *m)
{
    if (m->nranks > WIRE_MISSING_MAX)
        return VB_PROTO;
    for (uint32_t i = 0; i < m->nranks; i++)
        if (m->rank[i] >= c->ntasks)
            return VB_PROTO;
    c->missing = *m;
    return VB_OK;
}

static enum vb_st on_reduced(struct ctl *c, const struct wire_reduce *m)
{
    enum vb_st st = VB_PROTO;

    pthread_mutex_lock(&c->mu);
    if (c->is_worker && m->tag == c->nresults && m->n >= 1 && m->n <= WIRE_REDUCE_MAX &&
        (m->tag < c->ngiven || c->finish_asked)) {
        c->result[m->tag % CTL_RESULTS] = *m;
        c->nresults++;
        pthread_cond_broadcast(&c->cv);
        st = VB_OK;
    }
    pthread_mutex_unlock(&c->mu);
    return st;
}

static enum vb_st on_finished(struct ctl *c, uint32_t rank)
{
    if (cl_rank_job(c->p.spec, rank) != CL_WORKER || c->peer[rank].finished)
        return VB_PROTO;
    c->peer[rank].finished = true;
    return c->p.rank == 0 ? coord_finish(&c->coord, rank) : VB_OK;
}

static bool is_exit(uint32_t code)
{
    return code <= VB_EXIT_NOFABRIC || code == VB_EXIT_SIGINT || code == VB_EXIT_SIGTERM;
}

static enum vb_st on_end(struct ctl *c, uint32_t rank, struct wire_end *m)
{
    if (!is_exit(m->code) || (m->code == VB_EXIT_OK && rank != 0))
        return VB_PROTO;
    m->text[sizeof(m->text) - 1] = '\0';
    for (char *p = m->text; *p != '\0'; p++)
        if (!isprint((unsigned char)*p))
            *p = '?';
    ctl_set_end(c, (enum vb_exit)m->code, "%s", m->text);
    return VB_OK;
}

static enum vb_st from_coordinator(struct ctl *c, uint8_t kind, const void *body)
{
    struct wire_missing missing;
    struct wire_reduce reduce;
    struct wire_norm norm;
    struct wire_set set;

    switch (kind) {
    case WIRE_MISSING:
        memcpy(&missing, body, sizeof(missing));
        return on_missing(c, &missing);
    case WIRE_REDUCED:
        memcpy(&reduce, body, sizeof(reduce));
        return on_reduced(c, &reduce);
    case WIRE_SET:
        memcpy(&set, body, sizeof(set));
        return set_on(c, &set);
    case WIRE_NORMED:
        memcpy(&norm, body, sizeof(norm));
        return norm_on(c, &norm);
    default:
        if (!c->told_ready)
            return VB_PROTO;
        set_started(c);
        return VB_OK;
    }
}

static enum vb_st to_coordinator(struct ctl *c, uint32_t rank, uint8_t kind, const void *body)
{
    struct wire_counted counted;
    struct wire_norm norm;
    struct wire_reduce reduce;

    if (kind == WIRE_READY)
        return coord_ready(&c->coord, rank);
    if (kind == WIRE_COUNTED) {
        memcpy(&counted, body, sizeof(counted));
        return cl_rank_job(c->p.spec, rank) == CL_PS ? coord_counted(&c->coord, &counted)
                                                     : VB_PROTO;
    }
    if (kind == WIRE_NORM) {
        memcpy(&norm, body, sizeof(norm));
        return coord_norm(&c->coord, rank, &norm);
    }
    memcpy(&reduce, body, sizeof(reduce));
    return coord_reduce(&c->coord, rank, &reduce);
}

static enum vb_st on_frame(struct ctl *c, uint32_t rank, uint8_t kind, const void *body)
{
    struct wire_end end;

    switch (kind) {
    case WIRE_PING:
        return VB_OK;
    case WIRE_ASK:
        return link_on_ask(c, rank);
    case WIRE_OFFER:
        return link_on_offer(c, rank);
    case WIRE_MISSING:
    case WIRE_START:
    case WIRE_REDUCED:
    case WIRE_SET:
    case WIRE_NORMED:
        return rank == 0 ? from_coordinator(c, kind, body) : VB_PROTO;
    case WIRE_READY:
    case WIRE_REDUCE:
    case WIRE_COUNTED:
    case WIRE_NORM:
        return c->p.rank == 0 ? to_coordinator(c, rank, kind, body) : VB_PROTO;
    case WIRE_FINISHED:
        return on_finished(c, rank);
    case WIRE_END:
        memcpy(&end, body, sizeof(end));
        return on_end(c, rank, &end);
    default:
        return VB_PROTO; /* hello is over */
    }
}

static void read_frames(struct ctl *c, uint32_t rank)
{
    struct conn *conn = &c->peer[rank].conn;
    struct wire_hdr h;
    enum vb_st st = VB_OK;

    while (conn->fd >= 0 && (st = conn_frame(conn, &h)) == VB_OK) {
        st = on_frame(c, rank, h.kind, conn->in + sizeof(h));
        if (st != VB_OK)
            break;
        if (conn->fd >= 0)
            conn_drop(conn, h.bytes);
        if (c->p.rank == 0)
            peer_coord(c);
    }
    if (st != VB_OK && st != VB_AGAIN)
        bad_message(c, rank);
}

void peer_comes_in(struct ctl *c, uint32_t rank, struct talk *t)
{
    struct peer *p = &c->peer[rank];
    enum vb_st st;

    p->conn = t->conn; /* moved, with what it may have read already */
    memcpy(p->key, t->hello.key, sizeof(p->key));
    *t = (struct talk){ .conn.fd = -1 };
    p->in = true;
    p->heard_ns = vb_now_ns();
    st = conn_open(&p->conn);
    if (st != VB_OK) {
        link_failed(c, rank, st);
        return;
    }
    if (p->linked && c->is_worker)
        link_ask(c, rank);
    if (c->p.rank == 0)
        coord_in(&c->coord, rank);
    read_frames(c, rank);
}

void peer_step(struct ctl *c, uint32_t rank, short revents)
{
    struct peer *p = &c->peer[rank];

    if (revents & POLLOUT)
        peer_flush(p);
    if ((revents & (POLLIN | POLLHUP | POLLERR)) == 0)
        return;
    for (;;) {
        const enum vb_st st = conn_fill(&p->conn);

        if (st == VB_AGAIN)
            return;
        if (st == VB_PROTO) {
            bad_message(c, rank);
            return;
        }
        if (st != VB_OK) {
            peer_lost(c, rank,
                      errno == 0 || errno == ECONNRESET ? "connection closed" : strerror(errno));
            return;
        }
        p->heard_ns = vb_now_ns();
        read_frames(c, rank);
        if (!peer_is_up(p) || ctl_ended(c, NULL))
            return;
    }
}

void peer_commands(struct ctl *c)
{
    struct wire_reduce r;
    bool finish;

    for (;;) {
        pthread_mutex_lock(&c->mu);
        const bool more = c->nsent < c->ngiven;

        r = c->given[c->nsent % COORD_OPEN];
        finish = c->finish_asked;
        pthread_mutex_unlock(&c->mu);
        if (!more)
            break;
        c->nsent++;
        peer_send(c, 0, WIRE_REDUCE, &r);
    }
    if (!c->is_worker) {
        set_tell(c);
        norm_tell(c);
    }
    if (!finish || c->left || !c->is_worker)
        return;
    c->left = true;
    peer_send_all(c, WIRE_FINISHED, NULL);
}
