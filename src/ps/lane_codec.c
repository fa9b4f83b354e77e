/*
 * lane_codec.c - pushes that come encoded. Each (chunk, worker) has room for what its gradient is decoded to; it
 * is decoded when the engine keeps it, never before: a message that comes twice must not change what is kept.
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"

#include <inttypes.h>
#include <sys/mman.h>

enum vb_st lane_codec_init(struct lane *l)
{
    if (l->p.codec == NULL || l->nchunks == 0)
        return VB_OK;
    if (!vb_mul((uint64_t)l->nchunks * l->p.nworkers, lane_chunk(l, 0)->bytes, &l->decoded_bytes))
        return VB_NOMEM;
    l->decoded = mmap(NULL, l->decoded_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (l->decoded == MAP_FAILED) {
        l->decoded = NULL;
        log_error("no memory for %" PRIu64 " bytes of decoded gradients", l->decoded_bytes);
        return VB_NOMEM;
    }
    return VB_OK;
}

void lane_codec_fini(struct lane *l)
{
    if (l->decoded != NULL)
        munmap(l->decoded, l->decoded_bytes);
}

const float *lane_decode(struct lane *l, uint32_t chunk, uint32_t worker, const struct tp_rx *rx)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const size_t slot = (size_t)chunk * l->p.nworkers + worker;
    float *at = (float *)(void *)(l->decoded + slot * lane_chunk(l, 0)->bytes);
    const struct kn_codec_turn turn = { .chunk = l->first + chunk * l->p.table->nlanes,
                                        .clock = l->pushed };

    if (kn_decode(at, rx->payload, rx->payload_bytes, c->bytes / sizeof(float), l->p.codec,
                  &turn) == VB_OK)
        return at;
    l->broken = VB_PROTO;
    return NULL;
}
