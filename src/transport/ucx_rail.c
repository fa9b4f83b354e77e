/*
 * ucx_rail.c - the rails of a link: several connections over several devices that share its load.
 *
 * Messages are numbered per channel and put in order by the receiver, so each may take any rail. Those
 * that go by rendezvous take the one that will be through with them first: what it still has to send,
 * and this one, at the speed that it has lately shown. A fast and a slow rail then share by their speeds,
 * and one that becomes slow is used less. Small messages take the first.
 */
#include "transport/ucx.h"

#define LOG_MOD "ucx"
#include "base/log.h"

enum { SPEED_KEEP = 7, SPEED_OF = 8 }; /* an old speed counts 7/8 */

struct ucx_rail *ucx_rail_first(struct ucx_link *l)
{
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_lives(&l->rail[i]))
            return &l->rail[i];
    return NULL;
}

/* The best speed of the link so far: what a rail that has not been measured is taken for. */
static double best_ns_per_byte(const struct ucx_link *l)
{
    double best = 0;

    for (unsigned i = 0; i < l->nrails; i++) {
        const double ns = l->rail[i].ns_per_byte;

        if (ns > 0 && (best == 0 || ns < best))
            best = ns;
    }
    return best > 0 ? best : 1;
}

struct ucx_rail *ucx_rail_for(struct ucx_link *l, uint64_t bytes)
{
    struct ucx_rail *best = ucx_rail_first(l);
    double best_ns = 0;

    if (best == NULL || l->nrails == 1 || bytes < UCX_RNDV_BYTES)
        return best;

    const double guess = best_ns_per_byte(l);

    for (struct ucx_rail *r = best; r < l->rail + l->nrails; r++) {
        const double ns =
            (double)(r->inside_bytes + bytes) * (r->ns_per_byte > 0 ? r->ns_per_byte : guess);

        if (ucx_rail_lives(r) && (r == best || ns < best_ns)) {
            best = r;
            best_ns = ns;
        }
    }
    return best;
}

void ucx_rail_begun(struct ucx_tx *tx, struct ucx_rail *r, uint64_t bytes)
{
    tx->rail = r;
    tx->bytes = bytes;
    tx->begun_ns = r->link->nrails > 1 && bytes >= UCX_RNDV_BYTES ? vb_now_ns() : 0;
    r->inside_bytes += bytes;
}

void ucx_rail_ended(struct ucx_tx *tx, bool sent)
{
    struct ucx_rail *r = tx->rail;

    r->inside_bytes -= tx->bytes;
    if (!sent)
        return;
    /* written here alone */
    atomic_store_explicit(&r->sent_bytes,
                          atomic_load_explicit(&r->sent_bytes, memory_order_relaxed) + tx->bytes,
                          memory_order_relaxed);
    if (tx->begun_ns == 0)
        return;

    const uint64_t now = vb_now_ns();
    const double ns = (double)(now - VB_MAX(tx->begun_ns, r->ended_ns)) / (double)tx->bytes;

    r->ended_ns = now;
    r->ns_per_byte = r->ns_per_byte == 0 ? ns : (r->ns_per_byte * SPEED_KEEP + ns) / SPEED_OF;
}

void ucx_rail_skip(struct ucx_rail *r, const char *why)
{
    const struct ucx_link *l = r->link;

    if (l->nrails > 1)
        log_warn("%s: the rail to %s is not used: %s", l->base.peer, r->host, why);
    atomic_store_explicit(&r->state, UCX_RAIL_SKIPPED, memory_order_relaxed);
}

bool ucx_rails_left(const struct ucx_link *l)
{
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_waits(&l->rail[i]) || ucx_rail_lives(&l->rail[i]))
            return true;
    return false;
}

struct ucx_rail *ucx_sender(struct ucx_node *un, unsigned id, const ucp_am_recv_param_t *param)
{
    struct ucx_link *l = id < un->nlinks ? un->link[id] : NULL;

    if (l == NULL || tp_link_failed(&l->base) ||
        atomic_load_explicit(&l->state, memory_order_relaxed) != UCX_LINK_PROVED ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
        return NULL;
    for (unsigned i = 0; i < l->nrails; i++)
        if (ucx_rail_lives(&l->rail[i]) && l->rail[i].conn->ep == param->reply_ep)
            return &l->rail[i];
    return NULL;
}
