/*
 * lane_codec.c - pushes that come encoded, and parameters that leave so.
 *
 * Each (chunk, worker) has room for what its gradient is decoded to; it is decoded when the engine keeps it, never
 * before: a message that comes twice must not change what is kept.
 *
 * Of parameters the ps keeps what the reader has, its copy. What is sent is what they have changed by since; both ends
 * add what that decodes to, so copy and window stay the same bits, and what the codec leaves out is still between copy
 * and parameters the next time.
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static enum vb_st make_decoded(struct lane *l, struct lane_class *k)
{
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

enum vb_st lane_codec_init(struct lane *l, struct lane_class *k)
{
    return k->c->push != NULL && k->n > 0 ? make_decoded(l, k) : VB_OK;
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
    log_error("the gradient of chunk %u and step %" PRIu64 " from worker %u cannot be decoded",
              l->chunk[chunk], l->pushed, worker);
    l->broken = VB_PROTO;
    return NULL;
}

uint64_t lane_encoded_at(const struct lane *l, uint32_t chunk, uint32_t worker)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const struct ps_class *k = l->cls[c->cls].c;

    return l->pull_at[chunk] + (ps_class_shared(k) ? 0 : worker * ps_pull_place(k, c->bytes));
}

/* Some parameter cannot be encoded. */
static void blame(struct lane *l, const struct ps_chunk *c, const float *change, uint64_t clock)
{
    uint64_t i = 0;

    while (i + 1 < c->bytes / sizeof(float) && l->kn->all_finite(&change[i], KN_F32, 1))
        i++;
    snprintf(l->why, sizeof(l->why), "%s has a NaN or infinity after step %" PRIu64,
             lane_variable(l, c, c->offset + i * sizeof(float)), clock - 1);
    l->broken = VB_INVAL;
}

void lane_encode(struct lane *l, uint32_t chunk, uint32_t worker, uint64_t clock)
{
    const struct ps_chunk *c = lane_chunk(l, chunk);
    const struct lane_class *k = lane_class(l, chunk);
    const size_t n = c->bytes / sizeof(float), bytes = ps_coded_bytes(k->c->pull, c->bytes);
    const struct kn_codec_turn turn = { .chunk = l->chunk[chunk], .clock = clock };
    char *to = (char *)tp_region_base(l->p.node, l->p.pulls) + lane_encoded_at(l, chunk, worker);
    float *copy = lane_copy(l, worker, c), *change = l->scratch, *left = l->scratch + n;
    const float *w = lane_params(l, c);

    for (size_t i = 0; i < n; i++)
        change[i] = w[i] - copy[i];
    memset(left, 0, c->bytes);
    if (kn_encode(to, left, change, n, k->c->pull, &turn) != VB_OK) {
        blame(l, c, change, clock);
        return;
    }
    if (kn_decode(change, to, bytes, n, k->c->pull, &turn) != VB_OK)
        l->broken = VB_PROTO; /* not possible: it is what was just encoded */
    l->kn->add(copy, change, n);
}
