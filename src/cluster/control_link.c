/*
 * control_link.c - how a data link gets its way and comes up.
 *
 *   worker                              ps
 *   ASK    what it can           ->
 *                                <-     OFFER  the way, the ps's end, where it listens
 *   OFFER  the worker's end      ->
 *
 * The ps chooses: mapped memory where the control connection is the job's unix socket, else RDMA if both
 * can, else TCP. Where RDMA cannot be opened or does not come up in time, the worker asks once more,
 * without it; the link that failed stays failed. Both ends keep the reason.
 */
#include "cluster/control_int.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/way.h"

#define LOG_MOD "cluster"
#include "base/log.h"

void link_failed(struct ctl *c, uint32_t rank, enum vb_st st)
{
    char name[CL_NAME_MAX];

    ctl_set_end(c, vb_st_exit(st), "cannot link with %s: %s", cl_name(c->p.spec, rank, name),
                vb_st_str(st));
}

static void impossible(struct ctl *c, uint32_t rank, const char *why)
{
    char own[CL_NAME_MAX], peer[CL_NAME_MAX];

    ctl_set_end(c, VB_EXIT_FAILED, "cannot link %s with %s: %s", cl_name(c->p.spec, c->p.rank, own),
                cl_name(c->p.spec, rank, peer), why);
}

/* What this end can do for a link with that task; its address for data. false: the run ends. */
static bool look(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    struct way_host host;

    if (p->conn.is_unix)
        return true;
    if (way_facts(c) != VB_OK) {
        link_failed(c, rank, VB_NOMEM);
        return false;
    }
    if (!way_host(c, rank, &host)) {
        impossible(c, rank, "--net-devices leaves no address for it");
        return false;
    }
    memcpy(p->host[0], host.host, sizeof(p->host[0]));
    p->nhosts = 1;
    way_own(c, host.dev, &p->can);
    return true;
}

/* The link is not RDMA. Where it must be, the run ends at START: then all are there to hear why. */
static void note_less(struct ctl *c, uint32_t rank)
{
    const char *why = c->peer[rank].can.why;
    char own[CL_NAME_MAX], peer[CL_NAME_MAX];

    if (c->lacks[0] == '\0' && (c->p.transport == CL_RDMA || c->p.require_rdma))
        snprintf(c->lacks, sizeof(c->lacks), "no RDMA between %s and %s: %.*s",
                 cl_name(c->p.spec, c->p.rank, own), cl_name(c->p.spec, rank, peer),
                 way_fit(why, 160), why);
}

/* RDMA has not worked for this link: it will be less. */
static void fall_back(struct ctl *c, uint32_t rank, enum vb_st st)
{
    struct peer *p = &c->peer[rank];
    char name[CL_NAME_MAX], hint[80];
    struct tp_link_info info = { .why = "" };

    cl_name(c->p.spec, rank, name);
    if (p->link != NULL)
        tp_link_info(p->link, &info);
    p->can = (struct wire_can){ 0 };
    if (st == VB_UNREACHABLE || st == VB_AGAIN) {
        const char *why = st == VB_AGAIN ? "no answer in time" : vb_st_str(st);

        snprintf(p->can.why, sizeof(p->can.why), "RDMA to %s did not come up: %.100s%s", name,
                 info.why[0] != '\0' ? info.why : why, way_memory_hint(hint, sizeof(hint)));
    } else {
        way_not_open(c, st); /* nor will it for other links */
        memcpy(p->can.why, c->no_rdma, sizeof(p->can.why));
    }
    log_warn("%s, so the link with %s is TCP", p->can.why, name);
}

static void drop_link(struct peer *p)
{
    if (p->link != NULL)
        tp_link_fail(p->link);
    p->link = NULL;
    p->ready = false;
}

/* Where the ps's end of the data is its end of the control connection, data takes the same route, so it
 * comes from the same address: as it is seen here, or where something in between translates only some, as
 * the peer sees it. Elsewhere it may come from anywhere. */
static void set_callers(const struct ctl *c, const struct peer *p, char peer[NET_TEXT],
                        const char *out[TP_CALLERS_MAX])
{
    const char *as_peer_sees = c->is_worker ? p->host[0] : p->asked_from;
    char own[NET_TEXT];
    struct net_addr a;

    net_own_text(p->conn.fd, own);
    net_peer_text(p->conn.fd, peer);
    if (p->conn.is_unix || p->nhosts != 1 || strcmp(p->host[0], c->is_worker ? peer : own) != 0 ||
        !net_addr_parse(as_peer_sees, &a))
        return;
    out[0] = peer;
    out[1] = as_peer_sees;
}

/* Makes this end of the link and tells the peer how to reach it. */
static enum vb_st make_offer(struct ctl *c, uint32_t rank, enum tp_way way)
{
    struct peer *p = &c->peer[rank];
    char name[CL_NAME_MAX], seen[NET_TEXT];
    struct wire_offer m = { .way = way, .can = p->can };
    struct tp_link_params lp = { .way = way,
                                 .peer = cl_name(c->p.spec, rank, name),
                                 .user = (void *)(uintptr_t)rank,
                                 .channels = c->p.channels,
                                 .initiator = c->is_worker,
                                 .nrails = p->nhosts };
    struct tp_offer offer = { 0 };

    if (!c->is_worker && way != TP_MAP)
        lp.nrails = p->nhosts = way_more_hosts(c, way == TP_RDMA, p->host);
    for (unsigned i = 0; i < p->nhosts; i++) {
        lp.rail[i].host = p->host[i][0] != '\0' ? p->host[i] : NULL;
        lp.rail[i].from = p->from[i][0] != '\0' ? p->from[i] : NULL;
    }
    if (way == TP_TCP)
        set_callers(c, p, seen, lp.caller);
    memcpy(lp.key, p->key, sizeof(lp.key));
    enum vb_st st = tp_link_new(c->p.node, &lp, &p->link);

    if (st == VB_OK)
        st = tp_link_offer(p->link, &offer);
    if (st != VB_OK) {
        drop_link(p);
        return st;
    }
    p->way = way;
    tp_link_set_why(p->link, p->can.why);
    if (!c->is_worker && way != TP_MAP) {
        m.nhosts = p->nhosts;
        for (unsigned i = 0; i < p->nhosts; i++)
            snprintf(m.host[i], sizeof(m.host[i]), "%.*s",
                     (int)VB_MIN(strcspn(p->host[i], "%"), 47), p->host[i]);
    }
    st = conn_put_offer(&p->conn, &m, &offer);
    tp_offer_close(&offer);
    if (st == VB_OK)
        peer_flush(p);
    return st;
}

/* The ps. */

static enum tp_way choose(struct ctl *c, uint32_t rank, const struct wire_can *asked)
{
    struct peer *p = &c->peer[rank];

    if (p->conn.is_unix)
        return TP_MAP;
    if (asked->rdma == 0 && p->can.rdma != 0) {
        p->can.rdma = 0;
        memcpy(p->can.why, asked->why, sizeof(p->can.why));
    }
    return p->can.rdma != 0 ? TP_RDMA : TP_TCP;
}

static enum vb_st answer(struct ctl *c, uint32_t rank, const struct wire_can *asked)
{
    struct peer *p = &c->peer[rank];
    const enum tp_way way = choose(c, rank, asked);
    enum vb_st st = VB_OK;

    st = make_offer(c, rank, way);
    if (way == TP_RDMA && st != VB_OK) {
        fall_back(c, rank, st);
        st = make_offer(c, rank, TP_TCP);
    }
    if (p->way == TP_TCP)
        note_less(c, rank);
    if (st == VB_OK)
        p->step = LINK_OFFERED;
    else
        link_failed(c, rank, st);
    return VB_OK;
}

enum vb_st link_on_ask(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    struct wire_ask m;
    const bool again = p->step == LINK_OFFERED || p->step == LINK_CONNECTED;

    memcpy(&m, p->conn.in + sizeof(struct wire_hdr), sizeof(m));
    if (c->is_worker || !p->linked || way_ask_check(&m) != VB_OK ||
        (again && (p->way != TP_RDMA || m.can.rdma != 0)))
        return VB_PROTO;
    drop_link(p);
    memcpy(p->asked_from, m.from, sizeof(p->asked_from));
    return look(c, rank) ? answer(c, rank, &m.can) : VB_OK;
}

/* The worker. */

static void ask(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    struct wire_ask m = { .can = p->can };
    char own[NET_TEXT];

    if (!p->conn.is_unix) {
        net_own_text(p->conn.fd, own);
        snprintf(m.from, sizeof(m.from), "%.*s", (int)VB_MIN(strcspn(own, "%"), 47), own);
    }
    p->step = LINK_ASKED;
    peer_send(c, rank, WIRE_ASK, &m);
}

void link_ask(struct ctl *c, uint32_t rank)
{
    if (look(c, rank))
        ask(c, rank);
}

static void ask_again(struct ctl *c, uint32_t rank, enum vb_st st)
{
    fall_back(c, rank, st);
    drop_link(&c->peer[rank]);
    ask(c, rank);
}

/* Further rails are used where both ends have an allowed device in one network. */
static void accept_rails(const struct ctl *c, struct peer *p, const struct wire_offer *m,
                         const char *control)
{
    p->nhosts = m->nhosts;
    for (unsigned i = 1; i < m->nhosts; i++) {
        p->host[i][0] = '\0';
        way_from(c, m->host[i], p->from[i]);
        if (p->from[i][0] != '\0' && way_host_check(m->host[i], control, c->p.devs) == NULL)
            snprintf(p->host[i], sizeof(p->host[i]), "%s", m->host[i]);
        else
            log_info("no rail to %s: no allowed device of this host is in its network", m->host[i]);
    }
}

/* Takes over what the ps has chosen. false: the run ends. */
static bool accept_offer(struct ctl *c, uint32_t rank, const struct wire_offer *m)
{
    struct peer *p = &c->peer[rank];
    char control[NET_TEXT], text[TP_WHY];
    const char *wrong;
    struct vb_err why;

    if (m->way == TP_RDMA && p->can.mtu != 0 && m->can.mtu != 0 && p->can.mtu != m->can.mtu)
        log_warn("the MTU of %s is %u here and of %s %u there: the lesser is used", p->can.device,
                 p->can.mtu, m->can.device, m->can.mtu);
    p->can.rdma = m->way == TP_RDMA;
    memcpy(p->can.why, m->can.why, sizeof(p->can.why));
    if (m->way == TP_MAP)
        return true;
    if (m->way == TP_TCP)
        note_less(c, rank);
    net_peer_text(p->conn.fd, control);
    wrong = way_host_check(m->host[0], control, c->p.devs);
    if (wrong != NULL) {
        snprintf(text, sizeof(text), "it offers %s, %s (see --net-devices there)", m->host[0],
                 wrong);
        impossible(c, rank, text);
        return false;
    }
    snprintf(p->host[0], sizeof(p->host[0]), "%s", way_scoped(m->host[0], control));
    accept_rails(c, p, m, control);
    if (way_route_passes(c, p->host[0], &why))
        return true;
    impossible(c, rank, why.text);
    return false;
}

static void connect_link(struct ctl *c, uint32_t rank, enum tp_way way,
                         const struct tp_offer *offer)
{
    struct peer *p = &c->peer[rank];
    enum vb_st st = make_offer(c, rank, way);

    if (st == VB_OK)
        st = tp_link_connect(p->link, offer);
    if (st != VB_OK && st != VB_PROTO && way == TP_RDMA) {
        ask_again(c, rank, st);
        return;
    }
    p->step = LINK_CONNECTED;
    p->link_ns = vb_now_ns();
    if (st != VB_OK)
        link_failed(c, rank, st);
}

/* Both. */

/* Is this what may come now? */
static bool expected(const struct ctl *c, const struct peer *p, const struct wire_offer *m)
{
    if (!p->linked || (m->way == TP_MAP) != p->conn.is_unix)
        return false;
    if (!c->is_worker)
        return p->step == LINK_OFFERED && m->way == p->way;
    return p->step == LINK_ASKED && (m->way != TP_RDMA || p->can.rdma != 0);
}

enum vb_st link_on_offer(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    struct tp_offer offer;
    struct wire_offer m;
    enum vb_st st = conn_get_offer(&p->conn, &m, &offer);

    if (st != VB_OK)
        return st;
    if (way_offer_check(&m, c->is_worker) != VB_OK || !expected(c, p, &m)) {
        st = VB_PROTO;
    } else if (!c->is_worker) {
        p->step = LINK_CONNECTED;
        const enum vb_st connected = tp_link_connect(p->link, &offer);

        if (connected != VB_OK)
            link_failed(c, rank, connected);
    } else if (accept_offer(c, rank, &m)) {
        connect_link(c, rank, m.way, &offer);
    }
    tp_offer_close(&offer);
    return st;
}

static bool all_ready(const struct ctl *c)
{
    for (uint32_t i = 0; i < c->ntasks; i++)
        if (c->peer[i].planned && (!c->peer[i].in || (c->peer[i].linked && !c->peer[i].ready)))
            return false;
    return true;
}

/* true: look again soon. */
static bool link_poll(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    const enum vb_st st = tp_link_ready(p->link);
    const uint64_t limit = VB_MIN(CTL_RDMA_MS * VB_MS, c->p.start_ns / 2);

    p->ready = st == VB_OK;
    if (st == VB_OK)
        return false;
    if (p->way == TP_RDMA && !c->is_worker)
        return true; /* the worker sees it too, and asks again */
    if (p->way == TP_RDMA && (st != VB_AGAIN || vb_now_ns() > p->link_ns + limit))
        ask_again(c, rank, st);
    else if (st != VB_AGAIN)
        link_failed(c, rank, st);
    return true;
}

bool links_poll(struct ctl *c)
{
    bool again = false;

    for (uint32_t i = 0; i < c->ntasks; i++)
        if (c->peer[i].step == LINK_CONNECTED && !c->peer[i].ready)
            again = link_poll(c, i) || again;
    if (!c->told_ready && all_ready(c)) {
        c->told_ready = true;
        peer_send(c, 0, WIRE_READY, NULL);
        if (c->p.rank == 0 && coord_ready(&c->coord, 0) == VB_OK)
            peer_coord(c);
    }
    return again;
}
