#include "cluster/wire.h"

#include <string.h>

#include "base/util.h"

int wire_body_bytes(unsigned kind)
{
    static const int bytes[WIRE_KINDS] = {
        [WIRE_HELLO] = sizeof(struct wire_hello),
        [WIRE_CHALLENGE] = sizeof(struct wire_challenge),
        [WIRE_PROOF] = sizeof(struct wire_proof),
        [WIRE_REFUSED] = sizeof(struct wire_refused),
        [WIRE_OFFER] = sizeof(struct wire_offer),
        [WIRE_MISSING] = sizeof(struct wire_missing),
        [WIRE_REDUCE] = sizeof(struct wire_reduce),
        [WIRE_REDUCED] = sizeof(struct wire_reduce),
        [WIRE_END] = sizeof(struct wire_end),
        [WIRE_ASK] = sizeof(struct wire_ask),
        [WIRE_COUNTED] = sizeof(struct wire_counted),
        [WIRE_SET] = sizeof(struct wire_set),
        [WIRE_NORM] = sizeof(struct wire_norm),
        [WIRE_NORMED] = sizeof(struct wire_norm),
    };

    if (kind < WIRE_HELLO || (kind > WIRE_REFUSED && kind < WIRE_OFFER) || kind >= WIRE_KINDS)
        return -1;
    return bytes[kind];
}

enum vb_st wire_cut(const void *buf, size_t buf_bytes, struct wire_hdr *hdr_out)
{
    struct wire_hdr h = { 0 };

    memcpy(&h, buf, VB_MIN(buf_bytes, sizeof(h)));
    if (buf_bytes >= sizeof(h.bytes) && (h.bytes < sizeof(h) || h.bytes > WIRE_FRAME_MAX))
        return VB_PROTO;
    if (buf_bytes < sizeof(h))
        return VB_AGAIN;
    if (h.version != WIRE_VERSION)
        return VB_REFUSED;
    const int body = wire_body_bytes(h.kind);

    if (h.reserved != 0 || body < 0 || h.bytes != sizeof(h) + (size_t)body)
        return VB_PROTO;
    if (buf_bytes < h.bytes)
        return VB_AGAIN;
    *hdr_out = h;
    return VB_OK;
}

size_t wire_put(void *buf, enum wire_kind kind, const void *body)
{
    const size_t body_bytes = (size_t)wire_body_bytes(kind);
    const struct wire_hdr h = { .bytes = (uint32_t)(sizeof(h) + body_bytes),
                                .version = WIRE_VERSION,
                                .kind = (uint8_t)kind };

    memcpy(buf, &h, sizeof(h));
    if (body_bytes > 0)
        memcpy((unsigned char *)buf + sizeof(h), body, body_bytes);
    return h.bytes;
}
