/*
 * ucx_conn.c - listeners, endpoints and their proof.
 *
 * A new data connection proves itself: the initiator's first message is a token, an HMAC with the
 * link's key over both names and both link numbers; the listener checks it, binds the endpoint to
 * its link and answers with a token of its own. Until then a connection may do nothing else, and
 * only UCX_UNPROVED_MAX of them are kept, for PROVE_NS each. An endpoint is never closed from inside
 * a callback: it is marked broken and closed by ucx_conns_tend.
 *
 * A listener is open only while a link waits for its connection: UCX 1.13 ends the process when the
 * first bytes of a TCP connection announce fewer bytes than have come, so nobody should reach it
 * without need.
 */
#include "transport/ucx.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

#define PROVE_NS (5 * VB_SEC)

enum { TOKEN_MAGIC = 0x76624331 };

struct token {
    uint32_t magic;
    uint16_t to, from; /* the receiver's and the sender's number of the link */
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
};
static_assert(sizeof(struct token) == 40, "token is 40 bytes on the wire");

static void token_make(const struct ucx_link *l, bool by_initiator, unsigned to, unsigned from,
                       struct token *out)
{
    struct {
        char what[16];
        uint16_t by_initiator, to, from, zero;
        char initiator[64], listener[64];
    } text = { .what = "verbena ucx 1",
               .by_initiator = by_initiator,
               .to = (uint16_t)to,
               .from = (uint16_t)from };
    const char *self = l->base.node->name, *peer = l->base.peer;

    snprintf(text.initiator, sizeof(text.initiator), "%s", l->base.initiator ? self : peer);
    snprintf(text.listener, sizeof(text.listener), "%s", l->base.initiator ? peer : self);
    *out = (struct token){ .magic = TOKEN_MAGIC, .to = (uint16_t)to, .from = (uint16_t)from };
    crypto_auth_hmacsha256(out->mac, (const unsigned char *)&text, sizeof(text), l->base.key);
}

static bool token_right(const struct ucx_link *l, const struct token *t)
{
    struct token want;

    token_make(l, !l->base.initiator, t->to, t->from, &want);
    return sodium_memcmp(want.mac, t->mac, sizeof(want.mac)) == 0;
}

/* ---- connections ---- */

static void link_lost(struct ucx_link *l, const char *why)
{
    atomic_store_explicit(&l->why, why, memory_order_release);
    if (l->leaving)
        log_debug("%s has closed its data connection", l->base.peer);
    else if (!tp_link_failed(&l->base))
        log_warn("data connection to %s is lost: %s", l->base.peer, why);
    tp_link_fail(&l->base);
}

void ucx_conn_break(struct ucx_conn *c, const char *why)
{
    if (c->broken)
        return;
    c->broken = true;
    c->why = why;
    ucx_attend(c->un);
    if (c->state == UCX_CONN_BOUND)
        link_lost(c->link,
                  why); /* at once: an op must not end as unreachable on a link that lives */
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t s)
{
    struct ucx_conn *c = arg;

    if (c->state != UCX_CONN_FREE && c->ep == ep)
        ucx_conn_break(c, ucs_status_string(s));
}

static struct ucx_conn *conn_take(struct ucx_node *un)
{
    unsigned i = 0;

    while (i < un->nconns && un->conn[i].state != UCX_CONN_FREE)
        i++;
    if (i == UCX_CONNS_MAX)
        return NULL;
    if (i == un->nconns)
        un->nconns++;
    un->conn[i] = (struct ucx_conn){ .un = un };
    return &un->conn[i];
}

static enum vb_st conn_open(struct ucx_conn *c, ucp_ep_params_t *p)
{
    p->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    p->err_mode = UCP_ERR_HANDLING_MODE_PEER;
    p->err_handler = (ucp_err_handler_t){ .cb = on_error, .arg = c };

    const ucs_status_t s = ucp_ep_create(c->un->worker, p, &c->ep);

    if (s == UCS_OK)
        return VB_OK;
    log_debug("no endpoint: %s", ucs_status_string(s));
    return s == UCS_ERR_NO_MEMORY ? VB_NOMEM : VB_UNREACHABLE;
}

void ucx_conn_close(struct ucx_conn *c)
{
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                    .flags = UCP_EP_CLOSE_FLAG_FORCE };
    void *req = ucp_ep_close_nbx(c->ep, &p);

    if (UCS_PTR_IS_PTR(req))
        ucp_request_free(req);
    if (c->state == UCX_CONN_UNPROVED)
        c->un->nunproved--;
    c->state = UCX_CONN_FREE;
}

static void conn_bind(struct ucx_conn *c, struct ucx_link *l)
{
    c->un->nunproved--;
    c->state = UCX_CONN_BOUND;
    c->link = l;
    l->conn = c;
}

static struct ucx_conn *conn_of(struct ucx_node *un, const ucp_am_recv_param_t *param)
{
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
        return NULL;
    for (unsigned i = 0; i < un->nconns; i++)
        if (un->conn[i].state != UCX_CONN_FREE && un->conn[i].ep == param->reply_ep)
            return &un->conn[i];
    return NULL;
}

struct ucx_link *ucx_sender(struct ucx_node *un, unsigned id, const ucp_am_recv_param_t *param)
{
    struct ucx_link *l = id < un->nlinks ? un->link[id] : NULL;

    if (l == NULL || l->conn == NULL || l->conn->broken ||
        atomic_load_explicit(&l->state, memory_order_relaxed) != UCX_LINK_PROVED ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 || param->reply_ep != l->conn->ep)
        return NULL;
    return l;
}

/* ---- small messages ---- */

static void post_free(struct ucx_post *post)
{
    post->next = post->un->posts;
    post->un->posts = post;
}

static void on_posted(void *req, ucs_status_t s, void *arg)
{
    post_free(arg);
    ucp_request_free(req);
}

bool ucx_post(struct ucx_node *un, ucp_ep_h ep, unsigned am, const void *hdr, size_t hdr_bytes)
{
    struct ucx_post *post = un->posts;

    if (post == NULL)
        return false;
    un->posts = post->next;
    memcpy(post->bytes, hdr, hdr_bytes);

    const ucp_request_param_t p = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER,
        .cb.send = on_posted,
        .user_data = post,
    };
    void *req = ucp_am_send_nbx(ep, am, post->bytes, hdr_bytes, NULL, 0, &p);

    if (!UCS_PTR_IS_PTR(req))
        post_free(post); /* sent, or an error that the error handler tells too */
    return true;
}

/* ---- proof ---- */

static void proved(struct ucx_link *l)
{
    ucx_info_fill(l);
    /* pairs with the acquire in ready and info */
    atomic_store_explicit(&l->state, UCX_LINK_PROVED, memory_order_release);
    ucx_attend(l->un);
}

static bool token_send(struct ucx_link *l, struct ucx_conn *c)
{
    struct token t;

    token_make(l, l->base.initiator, l->peer_id, l->base.id, &t);
    return ucx_post(l->un, c->ep, UCX_AM_TOKEN, &t, sizeof(t));
}

/* The link that a token is for, or NULL. */
static struct ucx_link *token_link(struct ucx_conn *c, const struct token *t)
{
    struct ucx_link *l = c->link;

    if (c->state == UCX_CONN_UNPROVED)
        l = t->to < c->un->nlinks ? c->un->link[t->to] : NULL;
    if (t->magic != TOKEN_MAGIC || l == NULL || t->to != l->base.id ||
        atomic_load_explicit(&l->state, memory_order_relaxed) != UCX_LINK_WAITING ||
        l->base.initiator != (c->state == UCX_CONN_BOUND))
        return NULL;
    if (c->state == UCX_CONN_BOUND && t->from != l->peer_id)
        return NULL;
    return l;
}

ucs_status_t ucx_on_token(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                          const ucp_am_recv_param_t *param)
{
    struct ucx_conn *c = conn_of(arg, param);
    struct token t;

    if (c == NULL || c->broken)
        return UCS_OK;
    if (hdr_bytes != sizeof(t) || bytes != 0) {
        ucx_conn_break(c, "malformed token");
        return UCS_OK;
    }
    memcpy(&t, hdr, sizeof(t));
    struct ucx_link *l = token_link(c, &t);

    if (l == NULL || !token_right(l, &t)) {
        ucx_conn_break(c, "wrong key");
        return UCS_OK;
    }
    if (c->state == UCX_CONN_UNPROVED) {
        l->peer_id = t.from;
        if (!token_send(l, c)) {
            ucx_conn_break(c, "too many messages");
            return UCS_OK;
        }
        conn_bind(c, l);
    }
    proved(l);
    return UCS_OK;
}

ucs_status_t ucx_on_bye(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                        const ucp_am_recv_param_t *param)
{
    struct ucx_conn *c = conn_of(arg, param);

    if (c != NULL && c->state == UCX_CONN_BOUND)
        c->link->leaving = true;
    return UCS_OK;
}

/* ---- making connections ---- */

static void on_conn(ucp_conn_request_h request, void *arg)
{
    struct ucx_listener *listener = arg;
    struct ucx_node *un = listener->un;
    struct ucx_conn *c = un->nunproved < UCX_UNPROVED_MAX ? conn_take(un) : NULL;
    ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };

    if (c == NULL) {
        log_debug("too many unproved data connections, one more refused");
        ucp_listener_reject(listener->h, request);
        return;
    }
    if (conn_open(c, &p) != VB_OK)
        return;
    c->state = UCX_CONN_UNPROVED;
    c->deadline_ns = vb_now_ns() + PROVE_NS;
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
    const ucs_status_t s = ucp_listener_create(un->worker, &p, &out->h);

    freeaddrinfo(ai);
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
}

static bool somebody_waits(const struct ucx_node *un)
{
    for (unsigned i = 0; i < un->nlinks; i++) {
        const struct ucx_link *l = un->link[i];

        if (l != NULL && !l->base.initiator &&
            atomic_load_explicit(&l->state, memory_order_relaxed) == UCX_LINK_WAITING)
            return true;
    }
    return false;
}

static void link_await(struct ucx_link *l)
{
    struct ucx_node *un = l->un;

    un->link[l->base.id] = l;
    un->nlinks = VB_MAX(un->nlinks, l->base.id + 1);
    atomic_store_explicit(&l->state, UCX_LINK_WAITING, memory_order_relaxed);
}

enum vb_st ucx_listen(struct ucx_link *l)
{
    struct ucx_node *un = l->un;
    struct ucx_listener *at = listener_find(un, l->base.host);

    if (at == NULL)
        at = listener_find(un, "");
    if (at == NULL)
        return VB_INVAL;
    if (at->h == NULL) {
        const enum vb_st st = listener_open(un, l->base.host, at);

        if (st != VB_OK)
            return st;
    }
    l->port = at->port;
    link_await(l);
    return VB_OK;
}

enum vb_st ucx_connect(struct ucx_link *l)
{
    struct ucx_conn *c = conn_take(l->un);
    struct addrinfo *ai;

    if (c == NULL)
        return VB_NOMEM;
    if (resolve(l->base.host, l->port, &ai) != VB_OK)
        return VB_INVAL;
    ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                          .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                          .sockaddr = { .addr = ai->ai_addr, .addrlen = ai->ai_addrlen } };
    const enum vb_st st = conn_open(c, &p);

    freeaddrinfo(ai);
    if (st != VB_OK) {
        log_warn("%s: no data connection to %s port %u", l->base.peer, l->base.host,
                 (unsigned)l->port);
        return st;
    }
    c->state = UCX_CONN_BOUND;
    c->link = l;
    l->conn = c;
    link_await(l);
    if (!token_send(l, c))
        ucx_conn_break(c, "too many messages");
    return VB_OK;
}

/* ---- what time brings ---- */

uint64_t ucx_conns_tend(struct ucx_node *un, uint64_t now)
{
    uint64_t next_ns = VB_NEVER;

    for (unsigned i = 0; i < un->nconns; i++) {
        struct ucx_conn *c = &un->conn[i];

        if (c->state != UCX_CONN_UNPROVED)
            continue;
        if (c->broken || now >= c->deadline_ns) {
            log_warn("an unproved data connection is closed: %s",
                     c->broken ? c->why : "no token within 5 s");
            ucx_conn_close(c);
        } else {
            next_ns = VB_MIN(next_ns, c->deadline_ns);
        }
    }
    if (!somebody_waits(un))
        ucx_listeners_close(un);
    return next_ns;
}
