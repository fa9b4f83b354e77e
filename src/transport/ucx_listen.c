/*
 * ucx_listen.c - where data connections come from: listeners and connecting, one for each rail.
 *
 * A listener is open only while a link waits for its connection, and over TCP only to those who are waited
 * for (ucx_door.c).
 */
#include "transport/ucx.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

/* How many connections are waited for. */
static unsigned awaited(const struct ucx_node *un)
{
    unsigned n = 0;

    for (unsigned i = 0; i < un->nlinks; i++) {
        const struct ucx_link *l = un->link[i];

        if (l == NULL || l->base.initiator || tp_link_failed(&l->base))
            continue;
        for (unsigned k = 0; k < l->nrails; k++)
            n += ucx_rail_waits(&l->rail[k]);
    }
    return n;
}

static void on_conn(ucp_conn_request_h request, void *arg)
{
    struct ucx_listener *listener = arg;
    struct ucx_node *un = listener->un;
    struct ucx_conn *c = un->nunproved < UCX_UNPROVED_MAX + awaited(un) ? ucx_conn_take(un) : NULL;
    ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };

    if (c == NULL) {
        log_debug("too many unproved data connections, one more refused");
        ucp_listener_reject(listener->h, request);
        return;
    }
    if (ucx_conn_open(c, &p) != VB_OK)
        return;
    c->state = UCX_CONN_UNPROVED;
    c->deadline_ns = vb_now_ns() + UCX_PROVE_NS;
    un->nunproved++;
    ucx_attend(un);
}

static enum vb_st resolve(const char *host, uint16_t port, struct addrinfo **out)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    char text[8];

    snprintf(text, sizeof(text), "%u", (unsigned)port);
    if (getaddrinfo(host, text, &hints, out) != 0) {
        log_error("%s is not a numeric address", host);
        return VB_INVAL;
    }
    if ((*out)->ai_family == AF_INET6 &&
        IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(*out)->ai_addr)->sin6_addr)) {
        freeaddrinfo(*out);
        log_error("no data can be carried over ::1, use 127.0.0.1");
        return VB_INVAL;
    }
    return VB_OK;
}

static enum vb_st listener_open(struct ucx_node *un, const char *host, struct ucx_listener *out)
{
    struct addrinfo *ai;
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };

    if (resolve(host, 0, &ai) != VB_OK)
        return VB_INVAL;
    out->un = un;

    const ucp_listener_params_t p = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = { .addr = ai->ai_addr, .addrlen = ai->ai_addrlen },
        .conn_handler = { .cb = on_conn, .arg = out },
    };
    int before[UCX_DOORS_MAX];
    const unsigned nbefore = un->way == TP_TCP ? ucx_door_fds(before) : 0;
    const ucs_status_t s = ucp_listener_create(un->worker, &p, &out->h);

    freeaddrinfo(ai);
    if (un->way == TP_TCP && s == UCS_OK)
        ucx_door_add(un, before, nbefore);
    if (s != UCS_OK || ucp_listener_query(out->h, &attr) != UCS_OK) {
        log_error("ucx cannot listen on %s: %s", host, ucs_status_string(s));
        if (s == UCS_OK)
            ucp_listener_destroy(out->h);
        out->h = NULL;
        return VB_NOFABRIC;
    }
    snprintf(out->host, sizeof(out->host), "%s", host);
    /* IPv4 and IPv6 keep the port in the same place */
    out->port = ntohs(((const struct sockaddr_in *)&attr.sockaddr)->sin_port);
    return VB_OK;
}

/* The one that listens there, or NULL; "" finds a free slot. */
static struct ucx_listener *listener_find(struct ucx_node *un, const char *host)
{
    for (unsigned i = 0; i < UCX_LISTENERS_MAX; i++)
        if (strcmp(un->listener[i].host, host) == 0)
            return &un->listener[i];
    return NULL;
}

void ucx_listeners_close(struct ucx_node *un)
{
    for (unsigned i = 0; i < UCX_LISTENERS_MAX; i++) {
        if (un->listener[i].h != NULL)
            ucp_listener_destroy(un->listener[i].h);
        un->listener[i] = (struct ucx_listener){ 0 };
    }
    un->ndoors = un->ndata;
}

static void link_await(struct ucx_link *l)
{
    struct ucx_node *un = l->un;

    un->link[l->base.id] = l;
    un->nlinks = VB_MAX(un->nlinks, l->base.id + 1);
    atomic_store_explicit(&l->state, UCX_LINK_WAITING, memory_order_relaxed);
}

static enum vb_st rail_listen(struct ucx_rail *r)
{
    struct ucx_node *un = r->link->un;
    struct ucx_listener *at = listener_find(un, r->host);

    if (at == NULL)
        at = listener_find(un, "");
    if (at == NULL)
        return VB_INVAL;
    if (at->h == NULL) {
        const enum vb_st st = listener_open(un, r->host, at);

        if (st != VB_OK)
            return st;
    }
    r->port = at->port;
    return VB_OK;
}

enum vb_st ucx_listen(struct ucx_link *l)
{
    enum vb_st first = VB_OK;

    for (unsigned i = 0; i < l->nrails; i++) {
        const enum vb_st st = ucx_rail_waits(&l->rail[i]) ? rail_listen(&l->rail[i]) : VB_OK;

        if (st == VB_OK)
            continue;
        ucx_rail_skip(&l->rail[i], "cannot listen there");
        first = first == VB_OK ? st : first;
    }
    if (!ucx_rails_left(l))
        return first;
    link_await(l);
    ucx_door_set(l->un);
    return VB_OK;
}

static enum vb_st rail_connect(struct ucx_rail *r)
{
    struct ucx_conn *c = ucx_conn_take(r->link->un);
    struct addrinfo *ai = NULL, *from = NULL;
    enum vb_st st;

    if (c == NULL)
        return VB_NOMEM;
    if (resolve(r->host, r->port, &ai) != VB_OK)
        return VB_INVAL;
    ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                          .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                          .sockaddr = { .addr = ai->ai_addr, .addrlen = ai->ai_addrlen } };
    if (r->from[0] != '\0' && resolve(r->from, 0, &from) == VB_OK) {
        p.field_mask |= UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
        p.local_sockaddr = (ucs_sock_addr_t){ .addr = from->ai_addr, .addrlen = from->ai_addrlen };
    }
    st = ucx_conn_open(c, &p);
    freeaddrinfo(ai);
    if (from != NULL)
        freeaddrinfo(from);
    if (st != VB_OK)
        return st;
    c->state = UCX_CONN_BOUND;
    c->rail = r;
    r->conn = c;
    return VB_OK;
}

enum vb_st ucx_connect(struct ucx_link *l)
{
    enum vb_st last = VB_UNREACHABLE;

    link_await(l);
    ucx_door_set(l->un); /* the peer may connect as soon as it knows of us */
    for (unsigned i = 0; i < l->nrails; i++) {
        struct ucx_rail *r = &l->rail[i];

        if (!ucx_rail_waits(r))
            continue;
        if (r->port == 0) {
            ucx_rail_skip(r, "the peer cannot listen there");
            continue;
        }
        last = rail_connect(r);
        if (last != VB_OK)
            ucx_rail_skip(r, "no connection can be made");
    }
    if (!ucx_rails_left(l)) {
        log_warn("%s: no data connection to %s port %u", l->base.peer, l->rail[0].host,
                 (unsigned)l->rail[0].port);
        l->un->link[l->base.id] = NULL;
        atomic_store_explicit(&l->state, UCX_LINK_NEW, memory_order_relaxed);
        return last;
    }
    for (unsigned i = 0; i < l->nrails; i++)
        if (l->rail[i].conn != NULL && !ucx_token_send(&l->rail[i], l->rail[i].conn))
            ucx_conn_break(l->rail[i].conn, "too many messages");
    return VB_OK;
}

/* ---- what time brings ---- */

/* A link that is up does not wait for its other rails for ever. */
static uint64_t rails_tend(struct ucx_link *l, uint64_t now)
{
    bool waits = false;

    for (unsigned i = 0; i < l->nrails; i++) {
        struct ucx_rail *r = &l->rail[i];

        if (ucx_rail_waits(r) && now >= l->rails_until_ns)
            ucx_rail_skip(r, "no connection within 5 s");
        if (atomic_load_explicit(&r->state, memory_order_relaxed) == UCX_RAIL_SKIPPED &&
            r->conn != NULL) {
            ucx_conn_close(r->conn);
            r->conn = NULL;
        }
        waits |= ucx_rail_waits(r);
    }
    if (!waits)
        l->rails_until_ns = 0;
    return waits ? l->rails_until_ns : VB_NEVER;
}

static uint64_t unproved_tend(struct ucx_conn *c, uint64_t now)
{
    if (!c->broken && now < c->deadline_ns)
        return c->deadline_ns;
    log_warn("an unproved data connection is closed: %s",
             c->broken ? c->why : "no token within 5 s");
    ucx_conn_close(c);
    return VB_NEVER;
}

uint64_t ucx_conns_tend(struct ucx_node *un, uint64_t now)
{
    uint64_t next_ns = VB_NEVER;

    for (unsigned i = 0; i < un->nconns; i++)
        if (un->conn[i].state == UCX_CONN_UNPROVED)
            next_ns = VB_MIN(next_ns, unproved_tend(&un->conn[i], now));
    for (unsigned i = 0; i < un->nlinks; i++) {
        if (un->link[i] != NULL && un->link[i]->rails_until_ns != 0)
            next_ns = VB_MIN(next_ns, rails_tend(un->link[i], now));
        if (un->link[i] != NULL && un->link[i]->door_until_ns > now)
            next_ns = VB_MIN(next_ns, un->link[i]->door_until_ns);
    }
    if (awaited(un) == 0)
        ucx_listeners_close(un);
    ucx_door_set(un);
    return next_ns;
}
