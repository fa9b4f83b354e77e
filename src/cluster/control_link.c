#include "cluster/control_int.h"

#include <string.h>

void link_failed(struct ctl *c, uint32_t rank, enum vb_st st)
{
    char name[CL_NAME_MAX];

    ctl_set_end(c, vb_st_exit(st), "cannot link with %s: %s", cl_name(c->p.spec, rank, name),
                vb_st_str(st));
}

enum vb_st link_offer(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    char name[CL_NAME_MAX], host[NET_TEXT];
    struct tp_link_params lp = { .way = p->conn.is_unix ? TP_MAP : TP_TCP,
                                 .peer = cl_name(c->p.spec, rank, name),
                                 .user = (void *)(uintptr_t)rank,
                                 .channels = c->p.channels,
                                 .initiator = c->is_worker,
                                 .rail = { { .host = host } } };
    struct tp_offer offer = { 0 };

    if (c->is_worker)
        net_peer_text(p->conn.fd, host);
    else
        net_own_text(p->conn.fd, host);
    memcpy(lp.key, p->key, sizeof(lp.key));
    enum vb_st st = tp_link_new(c->p.node, &lp, &p->link);

    if (st == VB_OK)
        st = tp_link_offer(p->link, &offer);
    if (st != VB_OK)
        return st;
    st = conn_put_offer(&p->conn, &offer);
    tp_offer_close(&offer);
    if (st == VB_OK)
        peer_flush(p);
    return st;
}

enum vb_st link_on_offer(struct ctl *c, uint32_t rank)
{
    struct peer *p = &c->peer[rank];
    struct tp_offer offer;

    if (!p->linked || p->connected || (c->is_worker && p->link == NULL) ||
        conn_get_offer(&p->conn, &offer) != VB_OK)
        return VB_PROTO;
    enum vb_st st = c->is_worker ? VB_OK : link_offer(c, rank);

    if (st == VB_OK)
        st = tp_link_connect(p->link, &offer);
    tp_offer_close(&offer);
    p->connected = st == VB_OK;
    if (st != VB_OK)
        link_failed(c, rank, st);
    return VB_OK;
}

static bool all_ready(const struct ctl *c)
{
    for (uint32_t i = 0; i < c->ntasks; i++)
        if (c->peer[i].planned && (!c->peer[i].in || (c->peer[i].linked && !c->peer[i].ready)))
            return false;
    return true;
}

bool links_poll(struct ctl *c)
{
    bool again = false;

    if (c->told_ready)
        return false;
    for (uint32_t i = 0; i < c->ntasks; i++) {
        struct peer *p = &c->peer[i];

        if (!p->connected || p->ready)
            continue;
        const enum vb_st st = tp_link_ready(p->link);

        p->ready = st == VB_OK;
        again = again || st == VB_AGAIN;
        if (st != VB_OK && st != VB_AGAIN)
            link_failed(c, i, st);
    }
    if (all_ready(c)) {
        c->told_ready = true;
        peer_send(c, 0, WIRE_READY, NULL);
        if (c->p.rank == 0 && coord_ready(&c->coord, 0) == VB_OK)
            peer_coord(c);
    }
    return again;
}
