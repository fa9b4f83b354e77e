/*
 * lane_codec.c - pushes that come encoded. Each (chunk, worker) has room for what its gradient is decoded to; it
 * is decoded when the engine keeps it, never before: a message that comes twice must not change what is kept.
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"

#include <inttypes.h>
#include <sys/mman.h>

enum vb_st lane_codec_init(struct lane *l, struct lane_class *k)
{
    if (k->c->push == NULL || k->n == 0)
        return VB_OK;
    if (!vb_mul((uint64_t)k->n * l->p.nworkers, lane_chunk(l, k->first)->bytes, &k->decoded_bytes))
        return VB_NOMEM;
    k->decoded = mmap(NULL, k->decoded_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (k->decoded == MAP_FAILED) {
        k->decoded = NULL;
        log_error("no memory for %" PRIu64 " bytes of decoded gradients", k->decoded_bytes);
        return VB_NOMEM;
    }
    return VB_OK;
}

void lane_codec_fini(struct lane_class *k)
{
    if (k->decoded != NULL)
        munmap(k->decoded, k->decoded_bytes);
}

const float *lane_decode(struct lane *l, uint32_t chunk, uint32_t worker, const struct tp_rx *rx)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const struct lane_class *k = lane_class(l, chunk);
    const size_t slot = (size_t)(chunk - k->first) * l->p.nworkers + worker;
    float *at = (float *)(void *)(k->decoded + slot * lane_chunk(l, k->first)->bytes);
    const struct kn_codec_turn turn = { .chunk = l->chunk[chunk], .clock = l->pushed };

    if (kn_decode(at, rx->payload, rx->payload_bytes, c->bytes / sizeof(float), k->c->push,
                  &turn) == VB_OK)
        return at;
    l->broken = VB_PROTO;
    return NULL;
}
