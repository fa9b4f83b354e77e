/*
 * exchange_codec.c - pushes that leave encoded: from a region of the node with a place for each chunk. What the
 * codec leaves out of a gradient is kept in the residual line and goes with the chunk's next one. And
 * parameters that come encoded: as what they have changed by, which is added to the window (ps/lane_codec.c).
 */
#include "worker/exchange_priv.h"

#define LOG_MOD "worker"
#include "base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

/* The largest chunk's, of one direction: those of one range are not as large as those of another. 0: none is encoded. */
static uint64_t place_bytes(const struct exchange *x, bool pull)
{
    uint64_t most = 0;

    for (uint32_t k = 0; k < x->p.table->nchunks; k++) {
        const struct ps_class *c = exchange_class(x, k);
        const struct kn_codec *codec = pull ? c->pull : c->push;

        if (codec != NULL)
            most = VB_MAX(most, ps_coded_bytes(codec, x->p.table->chunk[k].bytes));
    }
    return vb_round_up(most, PS_ALIGN);
}

static void *map_memory(uint64_t bytes, const char *what)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                    -1, 0);

    if (at != MAP_FAILED)
        return at;
    log_error("no memory for %" PRIu64 " bytes of %s", bytes, what);
    return NULL;
}

static enum vb_st init_pulls(struct exchange *x)
{
    x->land_bytes = place_bytes(x, true);
    if (x->land_bytes == 0)
        return VB_OK;
    if (!vb_mul(x->p.table->nchunks, x->land_bytes, &x->landing_bytes))
        return VB_NOMEM;
    x->landing = map_memory(x->landing_bytes, "encoded parameters");
    x->change = map_memory(PS_CHUNK_MAX, "changes of parameters");
    return x->landing != NULL && x->change != NULL ? VB_OK : VB_NOMEM;
}

enum vb_st exchange_codec_init(struct exchange *x)
{
    const struct ps_table *t = x->p.table;
    const enum vb_st st = init_pulls(x);

    x->place_bytes = place_bytes(x, false);
    if (st != VB_OK || x->place_bytes == 0)
        return st;
    x->residual = map_memory(t->line_bytes, "residuals");
    return x->residual == NULL
               ? VB_NOMEM
               : tp_region_new(x->p.node, vb_round_up(t->nchunks * x->place_bytes, PS_PAGE), false,
                               &x->staging);
}

void exchange_codec_fini(struct exchange *x)
{
    if (x->residual != NULL)
        munmap(x->residual, x->p.table->line_bytes);
    if (x->landing != NULL)
        munmap(x->landing, x->landing_bytes);
    if (x->change != NULL)
        munmap(x->change, PS_CHUNK_MAX);
}

enum vb_st exchange_decode(struct exchange *x, uint32_t chunk, uint64_t clock, const void *payload)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];
    const struct kn_codec *codec = exchange_class(x, chunk)->pull;
    const struct kn_codec_turn turn = { .chunk = chunk, .clock = clock };
    const size_t n = c->bytes / sizeof(float);
    const enum vb_st st =
        kn_decode(x->change, payload, ps_coded_bytes(codec, c->bytes), n, codec, &turn);

    if (st == VB_OK)
        kn_best()->add((float *)(void *)(x->window + c->offset), x->change, n);
    return st;
}

static const char *bad_variable(const struct exchange *x, const struct ps_chunk *c)
{
    const struct ps_table *t = x->p.table;
    const float *grad = tp_region_base(x->p.node, x->region);
    uint64_t at = c->offset / sizeof(float);
    uint32_t v = c->first_var;

    while (at + 1 < (c->offset + c->bytes) / sizeof(float) && isfinite(grad[at] + x->residual[at]))
        at++;
    while (v + 1 < c->first_var + c->nvars && t->var[v + 1].offset <= at * sizeof(float))
        v++;
    return t->var[v].name;
}

bool exchange_encode(struct exchange *x, uint32_t chunk, uint64_t clock, uint64_t *offset_out)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];
    const struct kn_codec_turn turn = { .chunk = chunk, .clock = clock };
    const char *grad = (const char *)tp_region_base(x->p.node, x->region) + c->offset;

    *offset_out = chunk * x->place_bytes;
    if (kn_encode((char *)tp_region_base(x->p.node, x->staging) + *offset_out,
                  x->residual + c->offset / sizeof(float), (const float *)(const void *)grad,
                  c->bytes / sizeof(float), exchange_class(x, chunk)->push, &turn) == VB_OK)
        return true;
    snprintf(x->why, sizeof(x->why),
             "the gradient of %s from /job:worker/task:%" PRIu32 " has a NaN or infinity in step "
             "%" PRIu64,
             bad_variable(x, c), x->p.worker, clock);
    x->broken = VB_INVAL;
    return false;
}

const char *exchange_why(const struct exchange *x)
{
    return x->why;
}

static double ratio(const struct exchange *x, bool pull)
{
    uint64_t sent = 0, whole = 0;

    for (uint32_t k = 0; k < x->p.table->nchunks; k++) {
        const struct ps_class *c = exchange_class(x, k);

        sent += ps_coded_bytes(pull ? c->pull : c->push, x->p.table->chunk[k].bytes);
        whole += x->p.table->chunk[k].bytes;
    }
    return (double)whole / (double)sent;
}

double exchange_push_ratio(const struct exchange *x)
{
    return ratio(x, false);
}

double exchange_pull_ratio(const struct exchange *x)
{
    return ratio(x, true);
}
