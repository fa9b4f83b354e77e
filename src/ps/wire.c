#include "ps/wire.h"

#include <string.h>

static const struct kn_codec *codec_of(const struct ps_from *from, const struct ps_hdr *h)
{
    if (from->cls == NULL || (h->kind != PS_PUSH && (h->kind != PS_PARAM || h->clock == 0)))
        return NULL;
    return h->kind == PS_PUSH ? from->cls[h->cls].push : from->cls[h->cls].pull;
}

static enum vb_st check_payload(const struct ps_from *from, const struct ps_hdr *h,
                                uint64_t payload_bytes)
{
    const struct ps_table *t = from->table;
    uint64_t want = 0;

    if (h->kind != PS_TICK) {
        if (h->chunk >= t->nchunks || t->chunk[h->chunk].ps != from->ps ||
            t->chunk[h->chunk].cls != h->cls)
            return VB_PROTO;
        if (h->kind != PS_READ && !(h->kind == PS_PARAM && from->payload_free))
            want = ps_coded_bytes(codec_of(from, h), t->chunk[h->chunk].bytes);
    } else if (h->chunk >= t->nlanes ||
               h->cls >= t->nclasses) { /* a tick carries the lane in place of a chunk */
        return VB_PROTO;
    }
    return payload_bytes == want ? VB_OK : VB_PROTO;
}

static bool numbers_ok(const struct ps_hdr *h)
{
    switch (h->kind) {
    case PS_PUSH:
        return h->samples <= h->count && h->count <= UINT32_MAX;
    case PS_READ:
        return h->samples == 0 && h->count <= 1;
    case PS_TICK:
        return h->samples == 0;
    case PS_PARAM:
        return true;
    default:
        return h->samples == 0 && h->count == 0;
    }
}

enum vb_st ps_hdr_check(const struct ps_from *from, const void *hdr, uint32_t hdr_bytes,
                        uint64_t payload_bytes, struct ps_hdr *out)
{
    struct ps_hdr h;

    if (hdr_bytes != sizeof(h))
        return VB_PROTO;
    memcpy(&h, hdr, sizeof(h));
    if (h.version != PS_WIRE_VERSION)
        return VB_PROTO;
    if (h.kind < PS_INIT || h.kind > PS_PARAM || (h.kind != PS_PARAM) != from->to_ps)
        return VB_PROTO;
    if (h.worker != from->worker || (h.kind == PS_INIT && h.worker != 0))
        return VB_PROTO;
    if ((h.flags & ~PS_FINISHED) != 0 || (h.flags != 0 && h.kind != PS_TICK))
        return VB_PROTO;
    if (!numbers_ok(&h))
        return VB_PROTO;
    if (check_payload(from, &h, payload_bytes) != VB_OK)
        return VB_PROTO;
    *out = h;
    return VB_OK;
}
