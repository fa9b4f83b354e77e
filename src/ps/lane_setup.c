#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <sys/mman.h>

static enum vb_st make_state(struct lane *l)
{
    const size_t per = kn_opt_state(l->p.optimizer->kind);
    uint64_t floats = 0;

    l->state_at = calloc(VB_MAX(l->nchunks, 1u), sizeof(*l->state_at));
    if (l->state_at == NULL)
        return VB_NOMEM;
    for (uint32_t k = 0; k < l->nchunks; k++) {
        l->state_at[k] = floats;
        floats += per * lane_chunk(l, k)->bytes / sizeof(float);
    }
    l->state_bytes = floats * sizeof(float);
    if (floats == 0)
        return VB_OK;
    l->state = mmap(NULL, l->state_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (l->state == MAP_FAILED) {
        l->state = NULL;
        log_error("no memory for %" PRIu64 " bytes of optimizer state", l->state_bytes);
        return VB_NOMEM;
    }
    return VB_OK;
}

static enum vb_st make_engine(struct lane *l)
{
    const struct ps_rule *r = l->p.rule;
    const struct ps_engine_params ep = { .nworkers = l->p.nworkers,
                                         .nchunks = l->nchunks,
                                         .two_phase = l->norm.n > 0,
                                         .mode = r->mode,
                                         .staleness_lo = r->staleness_lo,
                                         .staleness_hi = r->staleness_hi,
                                         .backups = r->backups };
    const size_t bytes = ps_engine_bytes(&ep);
    void *mem = bytes == 0 ? NULL : calloc(1, bytes);

    if (mem == NULL)
        return VB_NOMEM;
    l->engine = ps_engine_init(mem, &ep);
    l->actions = calloc(ps_engine_max_actions(&ep), sizeof(*l->actions));
    if (l->actions == NULL)
        return VB_NOMEM;
    for (uint32_t w = 0; w < l->p.nworkers; w++)
        lane_step(l, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w }, NULL);
    return VB_OK;
}

static enum vb_st make_sends(struct lane *l)
{
    const size_t n = (size_t)VB_MAX(l->nchunks, 1u) * l->p.nworkers;

    l->grad = calloc(n, sizeof(*l->grad));
    l->gather = calloc(l->p.nworkers, sizeof(*l->gather));
    l->gathered = calloc(l->p.nworkers, sizeof(*l->gathered));
    l->read_at = calloc(n, sizeof(*l->read_at));
    l->scratch =
        calloc(1, l->nchunks > 0 && l->p.async.compensation > 0 ? lane_chunk(l, 0)->bytes : 1);
    l->send = calloc(n, sizeof(*l->send));
    l->link = calloc(l->p.nworkers, sizeof(struct tp_link *));
    l->has_value = calloc(VB_MAX(l->nchunks, 1u), sizeof(*l->has_value));
    if (l->read_at == NULL || l->scratch == NULL || l->grad == NULL || l->gather == NULL ||
        l->gathered == NULL || l->send == NULL || l->link == NULL || l->has_value == NULL)
        return VB_NOMEM;
    for (uint32_t w = 0; w < l->p.nworkers; w++)
        for (uint32_t k = 0; k < l->nchunks; k++) {
            struct param_send *s = &l->send[(size_t)w * l->nchunks + k];

            *s = (struct param_send){ .lane = l, .worker = w, .chunk = k };
            s->op.done = lane_param_sent;
        }
    return VB_OK;
}

uint32_t lane_chunks(const struct ps_table *t, uint32_t ps, uint32_t lane)
{
    uint32_t first = 0;
    const uint32_t n = ps_range_chunks(t, ps, &first);

    return n > lane ? (n - lane + t->nlanes - 1) / t->nlanes : 0;
}

static void find_chunks(struct lane *l)
{
    const struct ps_table *t = l->p.table;

    (void)ps_range_chunks(t, l->p.ps, &l->first);
    l->first += l->p.lane;
    l->nchunks = lane_chunks(t, l->p.ps, l->p.lane);
    l->range_offset = l->p.ps * t->range_bytes;
}

/* Where each gradient is a step of its own, each has its own place. With backup workers, and where a step
 * needs a norm, it is made of all chunks at once, so all must find room. */
static enum vb_st make_landing(struct lane *l)
{
    const uint64_t bytes = l->nchunks > 0
                               ? vb_round_up(ps_push_bytes(l->p.codec, lane_chunk(l, 0)->bytes),
                                             PS_ALIGN)
                               : 0,
                   each = (uint64_t)l->nchunks * l->p.nworkers;

    if (l->p.rule->mode != PS_SSP)
        return landing_init(&l->landing, l->nchunks, l->p.nworkers, bytes,
                            l->p.rule->mode == PS_BACKUP || l->norm.n > 0 ? UINT64_MAX
                                                                          : l->p.landing_bytes);
    return each > INT32_MAX
               ? VB_NOMEM
               : landing_init(&l->landing, (uint32_t)each, 1, bytes, l->p.landing_bytes);
}

enum vb_st lane_create(const struct lane_params *p, struct lane **lane_out)
{
    struct lane *l = calloc(1, sizeof(*l));
    enum vb_st st = VB_NOMEM;

    if (l == NULL)
        return st;
    l->p = *p;
    if (p->rule == NULL)
        l->p.rule = &ps_rule_sync;
    l->port = tp_port(p->node, p->lane);
    l->kn = kn_best();
    l->params = tp_region_base(p->node, p->region);
    if (!ps_rule_in_place(l->p.rule)) {
        l->copies = tp_region_base(p->node, p->copies);
        l->copy_bytes = ps_range_region(p->table, p->ps);
    }
    find_chunks(l);
    if ((st = make_state(l)) != VB_OK || (st = lane_norm_init(l)) != VB_OK ||
        (st = make_engine(l)) != VB_OK || (st = make_sends(l)) != VB_OK)
        goto fail;
    st = lane_codec_init(l);
    if (st == VB_OK)
        st = make_landing(l);
    if (st != VB_OK)
        goto fail;
    tp_port_set(l->port,
                &(struct tp_port_params){ .arg = l, .on_msg = lane_on_msg, .place = lane_place });
    *lane_out = l;
    return VB_OK;

fail:
    lane_destroy(l);
    return st;
}

void lane_destroy(struct lane *l)
{
    if (l == NULL)
        return;
    landing_fini(&l->landing);
    lane_codec_fini(l);
    if (l->state != NULL)
        munmap(l->state, l->state_bytes);
    free(l->state_at);
    lane_norm_fini(l);
    free(l->engine);
    free(l->actions);
    free(l->grad);
    free(l->gather);
    free(l->gathered);
    free(l->read_at);
    free(l->scratch);
    free(l->send);
    free(l->link);
    free(l->has_value);
    free(l);
}
