/*
 * ucx_conn.c - endpoints and their proof.
 *
 * A new data connection proves itself: the initiator's first message is a token, an HMAC with the
 * link's key over both names, both link numbers and the rail's; the listener checks it, binds the
 * endpoint to its link and answers with a token of its own. Until then a connection may do nothing else, and
 * only UCX_UNPROVED_MAX of them are kept, for PROVE_NS each. An endpoint is never closed from inside
 * a callback: it is marked broken and closed by ucx_conns_tend.
 */
#include "transport/ucx.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

enum { TOKEN_MAGIC = 0x76624332 };

struct token {
    uint32_t magic;
    uint16_t to, from; /* the receiver's and the sender's number of the link */
    uint16_t rail, zero;
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
};
static_assert(sizeof(struct token) == 44, "token is 44 bytes on the wire");

/* The rest of it is filled in. */
static void token_sign(const struct ucx_link *l, bool by_initiator, struct token *t)
{
    struct {
        char what[16];
        uint16_t by_initiator, to, from, rail;
        char initiator[64], listener[64];
    } text = { .what = "verbena ucx 2",
               .by_initiator = by_initiator,
               .to = t->to,
               .from = t->from,
               .rail = t->rail };
    const char *self = l->base.node->name, *peer = l->base.peer;

    snprintf(text.initiator, sizeof(text.initiator), "%s", l->base.initiator ? self : peer);
    snprintf(text.listener, sizeof(text.listener), "%s", l->base.initiator ? peer : self);
    crypto_auth_hmacsha256(t->mac, (const unsigned char *)&text, sizeof(text), l->base.key);
}

static bool token_right(const struct ucx_link *l, const struct token *t)
{
    struct token want = *t;

    token_sign(l, !l->base.initiator, &want);
    return sodium_memcmp(want.mac, t->mac, sizeof(want.mac)) == 0;
}

/* ---- connections ---- */

static void link_lost(struct ucx_link *l, const char *why)
{
    atomic_store_explicit(&l->why, why, memory_order_release);
    if (l->leaving)
        log_debug("%s has closed its data connection", l->base.peer);
    else if (!tp_link_failed(&l->base))
        log_info("data connection to %s is lost: %s", l->base.peer,
                 why); /* who ends for it says so */
    tp_link_fail(&l->base);
}

void ucx_conn_break(struct ucx_conn *c, const char *why)
{
    if (c->broken)
        return;
    c->broken = true;
    c->why = why;
    ucx_attend(c->un);
    if (c->state != UCX_CONN_BOUND)
        return;

    struct ucx_link *l = c->rail->link;

    const bool was_waiting = ucx_rail_waits(c->rail);

    if (was_waiting)
        ucx_rail_skip(c->rail, why);
    if (!was_waiting || !ucx_rails_left(l))
        link_lost(l, why); /* at once: an op must not end as unreachable on a link that lives */
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t s)
{
    struct ucx_conn *c = arg;

    if (c->state != UCX_CONN_FREE && c->ep == ep)
        ucx_conn_break(c, ucs_status_string(s));
}

struct ucx_conn *ucx_conn_take(struct ucx_node *un)
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

enum vb_st ucx_conn_open(struct ucx_conn *c, ucp_ep_params_t *p)
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

static void conn_bind(struct ucx_conn *c, struct ucx_rail *r)
{
    c->un->nunproved--;
    c->state = UCX_CONN_BOUND;
    c->rail = r;
    r->conn = c;
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

static void proved(struct ucx_rail *r)
{
    struct ucx_link *l = r->link;

    ucx_info_rail(r);
    /* pairs with the acquire in ucx_info */
    atomic_store_explicit(&r->state, UCX_RAIL_PROVED, memory_order_release);
    ucx_attend(l->un);
    if (atomic_load_explicit(&l->state, memory_order_relaxed) != UCX_LINK_WAITING)
        return;
    ucx_info_fill(l, r);
    l->rails_until_ns = vb_now_ns() + UCX_PROVE_NS;
    l->door_until_ns = vb_now_ns() + UCX_DOOR_NS;
    /* pairs with the acquire in ready and info */
    atomic_store_explicit(&l->state, UCX_LINK_PROVED, memory_order_release);
}

bool ucx_token_send(struct ucx_rail *r, struct ucx_conn *c)
{
    const struct ucx_link *l = r->link;
    struct token t = { .magic = TOKEN_MAGIC,
                       .to = (uint16_t)l->peer_id,
                       .from = (uint16_t)l->base.id,
                       .rail = (uint16_t)r->index };

    token_sign(l, l->base.initiator, &t);
    return ucx_post(l->un, c->ep, UCX_AM_TOKEN, &t, sizeof(t));
}

/* The rail that a token is for, or NULL. */
static struct ucx_rail *token_rail(struct ucx_conn *c, const struct token *t)
{
    struct ucx_link *l = c->state == UCX_CONN_BOUND ? c->rail->link
                         : t->to < c->un->nlinks    ? c->un->link[t->to]
                                                    : NULL;

    if (t->magic != TOKEN_MAGIC || l == NULL || t->to != l->base.id || t->rail >= l->nrails ||
        tp_link_failed(&l->base) || l->base.initiator != (c->state == UCX_CONN_BOUND))
        return NULL;

    struct ucx_rail *r = &l->rail[t->rail];

    if (!ucx_rail_waits(r) || (c->state == UCX_CONN_BOUND ? r != c->rail : r->conn != NULL) ||
        (l->peer_id != UCX_NO_PEER && t->from != l->peer_id))
        return NULL;
    return r;
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
    struct ucx_rail *r = token_rail(c, &t);

    if (r == NULL || !token_right(r->link, &t)) {
        ucx_conn_break(c, "wrong key");
        return UCS_OK;
    }
    if (c->state == UCX_CONN_UNPROVED) {
        r->link->peer_id = t.from;
        if (!ucx_token_send(r, c)) {
            ucx_conn_break(c, "too many messages");
            return UCS_OK;
        }
        conn_bind(c, r);
    }
    proved(r);
    return UCS_OK;
}

ucs_status_t ucx_on_bye(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                        const ucp_am_recv_param_t *param)
{
    struct ucx_conn *c = conn_of(arg, param);

    if (c != NULL && c->state == UCX_CONN_BOUND)
        c->rail->link->leaving = true;
    return UCS_OK;
}

ucs_status_t ucx_on_choke(void *arg, const void *hdr, size_t hdr_bytes, void *data, size_t bytes,
                          const ucp_am_recv_param_t *param)
{
    struct ucx_conn *c = conn_of(arg, param);

    if (c != NULL && c->state == UCX_CONN_BOUND)
        c->rail->link->choked = true;
    return UCS_OK;
}
