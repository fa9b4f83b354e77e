/*
 * exchange_codec.c - pushes that leave encoded: from a region of the node with a place for each chunk. What the
 * codec leaves out of a gradient is kept in the residual line and goes with the chunk's next one.
 */
#include "worker/exchange_priv.h"

#define LOG_MOD "worker"
#include "base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

/* The largest chunk's: those of one range are not as large as those of another. */
static uint64_t find_place_bytes(const struct exchange *x)
{
    uint64_t most = 0;

    for (uint32_t k = 0; k < x->p.table->nchunks; k++)
        if (exchange_class(x, k)->push != NULL)
            most =
                VB_MAX(most, ps_push_bytes(exchange_class(x, k)->push, x->p.table->chunk[k].bytes));
    return vb_round_up(most, PS_ALIGN);
}

enum vb_st exchange_codec_init(struct exchange *x)
{
    const struct ps_table *t = x->p.table;

    x->place_bytes = find_place_bytes(x);
    if (x->place_bytes == 0)
        return VB_OK;
    x->residual = mmap(NULL, t->line_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (x->residual == MAP_FAILED) {
        x->residual = NULL;
        log_error("no memory for %" PRIu64 " bytes of residuals", t->line_bytes);
        return VB_NOMEM;
    }
    return tp_region_new(x->p.node, vb_round_up(t->nchunks * x->place_bytes, PS_PAGE), false,
                         &x->staging);
}

void exchange_codec_fini(struct exchange *x)
{
    if (x->residual != NULL)
        munmap(x->residual, x->p.table->line_bytes);
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

double exchange_push_ratio(const struct exchange *x)
{
    uint64_t sent = 0, whole = 0;

    for (uint32_t k = 0; k < x->p.table->nchunks; k++) {
        sent += ps_push_bytes(exchange_class(x, k)->push, x->p.table->chunk[k].bytes);
        whole += x->p.table->chunk[k].bytes;
    }
    return (double)whole / (double)sent;
}
