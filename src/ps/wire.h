/*
 * wire.h - the header of every message between a worker and a ps (docs/wire.md). Little-endian.
 *
 * PS_INIT   worker 0 -> ps  the first value of a chunk; payload: the chunk
 * PS_PUSH   worker -> ps    a gradient of clock `clock`, a sum over `samples` of the `count` of its step;
 *                           payload: the chunk, or what the codec of
 *                           pushes makes of it
 * PS_TICK   worker -> ps    the clock `clock` is done, having sent `count` pushes to this lane since the
 *                           start; with PS_FINISHED: no more will come
 * PS_READ   worker -> ps    asks for the chunk at clock `clock` (not in sync); with `count` 1 once more, as
 *                           it is now
 * PS_PARAM  ps -> worker    epoch `clock` of the chunk is there; payload: the chunk, or none on a
 *                           link that reads the ps's memory in place. Acknowledges every push of
 *                           clock < epoch: the gradient may be written again. `count`: how many steps it
 *                           is behind; `samples`: the worker whose push let it go, plus 1, or 0. With a codec of
 *                           pulls the payload is what the chunk has changed by, but for epoch 0
 */
#ifndef PS_WIRE_H
#define PS_WIRE_H

#include "ps/class.h"

enum { PS_WIRE_VERSION = 1 };
enum ps_kind { PS_INIT = 1, PS_PUSH = 2, PS_TICK = 3, PS_READ = 4, PS_PARAM = 5 };
enum { PS_FINISHED = 1 }; /* flags of PS_TICK */

struct ps_hdr {
    uint8_t version;
    uint8_t kind;    /* enum ps_kind */
    uint16_t cls;    /* class of variables, that of the chunk */
    uint16_t worker; /* index of the worker at either end */
    uint16_t flags;
    uint32_t chunk;   /* index into the chunk table; PS_TICK: the lane */
    uint32_t samples; /* PS_PUSH, PS_PARAM */
    uint64_t clock;
    uint64_t count;
};
_Static_assert(sizeof(struct ps_hdr) == 32, "ps_hdr is 32 bytes on the wire");
_Static_assert(offsetof(struct ps_hdr, clock) == 16, "ps_hdr has no hidden padding");

/* Where a message comes from, as this side knows it. */
struct ps_from {
    const struct ps_table *table;
    bool to_ps;                 /* direction: worker -> ps */
    uint32_t ps;                /* index of the ps at either end */
    uint32_t worker;            /* index of the worker at either end */
    const struct ps_class *cls; /* table->nclasses of them; NULL: nothing is encoded */
    bool payload_free;          /* PS_PARAM comes without payload (the memory is mapped) */
};

/* What the payload for a chunk of so many bytes is. */
static inline uint64_t ps_coded_bytes(const struct kn_codec *codec, uint64_t bytes)
{
    return codec == NULL ? bytes : kn_codec_bytes(codec, bytes / sizeof(float));
}

/*
 * Checks a header completely against the table and the link it came over; afterwards the struct can
 * be trusted. VB_PROTO: malformed, from another task, the wrong direction, or a payload size that is
 * not the table's.
 */
VB_MUST_CHECK enum vb_st ps_hdr_check(const struct ps_from *from, const void *hdr,
                                      uint32_t hdr_bytes, uint64_t payload_bytes,
                                      struct ps_hdr *out);

#endif
