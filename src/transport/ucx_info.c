/*
 * ucx_info.c - what a connected link is: asked of UCX and of the devices once, when it is proved.
 */
#include "transport/ucx.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define LOG_MOD "ucx"
#include "base/log.h"

static void address_text(const struct sockaddr_storage *a, char *out, size_t out_bytes)
{
    char host[64] = "?", port[16] = "?";

    getnameinfo((const struct sockaddr *)a, sizeof(*a), host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, out_bytes, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

#if VB_UCX_TRANSPORTS
/* What UCX says it uses, beside what was asked for. */
static void transports_add(const struct ucx_rail *r, struct tp_link_info *i)
{
    ucp_transport_entry_t entry[8];
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
                        .transports = { .entries = entry,
                                        .num_entries = VB_ARRAY_LEN(entry),
                                        .entry_size = sizeof(entry[0]) } };

    if (ucp_ep_query(r->conn->ep, &a) != UCS_OK)
        return;
    for (unsigned k = 0; k < a.transports.num_entries; k++) {
        const size_t at = strlen(i->protocol);

        snprintf(i->protocol + at, sizeof(i->protocol) - at, "%s%s/%s", k == 0 ? ", by " : " ",
                 entry[k].transport_name, entry[k].device_name);
    }
}
#else
static void transports_add(const struct ucx_rail *r, struct tp_link_info *i) {}
#endif

void ucx_info_rail(struct ucx_rail *r)
{
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR };

    if (ucp_ep_query(r->conn->ep, &a) == UCS_OK)
        address_text(&a.local_sockaddr, r->name, sizeof(r->name));
}

void ucx_info_fill(struct ucx_link *l, const struct ucx_rail *first)
{
    struct tp_link_info *i = &l->info;
    ucp_ep_attr_t a = { .field_mask = UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR };

    i->way = l->un->way;
    snprintf(i->protocol, sizeof(i->protocol), "eager below %d KiB, rendezvous from there",
             UCX_RNDV_BYTES / 1024);
    transports_add(first, i);
    snprintf(i->local, sizeof(i->local), "%s", first->name);
    if (ucp_ep_query(first->conn->ep, &a) == UCS_OK)
        address_text(&a.remote_sockaddr, i->remote, sizeof(i->remote));
}

static void add_rails(const struct ucx_link *l, struct tp_link_info *out)
{
    for (unsigned i = 0; i < l->nrails; i++) {
        const struct ucx_rail *r = &l->rail[i];

        /* pairs with the release in proved */
        if (atomic_load_explicit(&r->state, memory_order_acquire) != UCX_RAIL_PROVED)
            continue;
        out->rail[out->nrails].sent_bytes =
            atomic_load_explicit(&r->sent_bytes, memory_order_relaxed);
        memcpy(out->rail[out->nrails++].name, r->name, sizeof(r->name));
    }
}

void ucx_info(const struct tp_link *base, struct tp_link_info *out)
{
    const struct ucx_link *l = (const struct ucx_link *)base;
    const char *why = atomic_load_explicit(&l->why, memory_order_acquire);

    if (atomic_load_explicit(&l->state, memory_order_acquire) == UCX_LINK_PROVED) {
        *out = l->info;
        add_rails(l, out);
    } else {
        snprintf(out->remote, sizeof(out->remote), "%s", l->rail[0].host);
        snprintf(out->protocol, sizeof(out->protocol), "not connected");
    }
    if (why != NULL)
        snprintf(out->why, sizeof(out->why), "%s", why);
}
