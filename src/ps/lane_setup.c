#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <sys/mman.h>

static enum vb_st make_state(struct lane *l)
{
    uint64_t floats = 0;

    l->state_at = calloc(VB_MAX(l->nchunks, 1u), sizeof(*l->state_at));
    if (l->state_at == NULL)
        return VB_NOMEM;
    for (uint32_t k = 0; k < l->nchunks; k++) {
        l->state_at[k] = floats;
        floats += kn_opt_state(lane_class(l, k)->c->optimizer.kind) * lane_chunk(l, k)->bytes /
                  sizeof(float);
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

static enum vb_st make_engine(struct lane *l, struct lane_class *k, size_t *max_actions)
{
    const struct ps_rule *r = &k->c->rule;
    const struct ps_engine_params ep = { .nworkers = l->p.nworkers,
                                         .nchunks = k->n,
                                         .two_phase = k->two_phase,
                                         .mode = r->mode,
                                         .staleness_lo = r->staleness_lo,
                                         .staleness_hi = r->staleness_hi,
                                         .backups = r->backups };
    const size_t bytes = ps_engine_bytes(&ep);
    void *mem = bytes == 0 ? NULL : calloc(1, bytes);

    if (mem == NULL)
        return VB_NOMEM;
    k->engine = ps_engine_init(mem, &ep);
    *max_actions = VB_MAX(*max_actions, ps_engine_max_actions(&ep));
    return VB_OK;
}

static enum vb_st make_engines(struct lane *l)
{
    const uint32_t n = l->p.table->nclasses;
    size_t max_actions = 0;

    for (uint32_t i = 0; i < n; i++) {
        const enum vb_st st = make_engine(l, &l->cls[i], &max_actions);

        if (st != VB_OK)
            return st;
    }
    l->actions = calloc(max_actions, sizeof(*l->actions));
    l->counted = calloc((size_t)n * l->p.nworkers, sizeof(*l->counted));
    if (l->actions == NULL || l->counted == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = 0; w < l->p.nworkers; w++)
            lane_step(l, &l->cls[i], &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w }, NULL);
    return VB_OK;
}

/* Twice the largest chunk whose gradients may be compensated or whose parameters are encoded. */
static uint64_t scratch_bytes(const struct lane *l)
{
    uint64_t most = 1;

    for (uint32_t k = 0; k < l->nchunks; k++) {
        const struct ps_class *c = &l->p.cls[lane_chunk(l, k)->cls];

        if (c->async.compensation > 0 || c->pull != NULL)
            most = VB_MAX(most, 2 * lane_chunk(l, k)->bytes);
    }
    return most;
}

static enum vb_st make_sends(struct lane *l)
{
    const size_t n = (size_t)VB_MAX(l->nchunks, 1u) * l->p.nworkers;

    l->grad = calloc(n, sizeof(*l->grad));
    l->gather = calloc(l->p.nworkers, sizeof(*l->gather));
    l->gathered = calloc(l->p.nworkers, sizeof(*l->gathered));
    l->read_at = calloc(n, sizeof(*l->read_at));
    l->scratch = calloc(1, scratch_bytes(l));
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

static enum vb_st find_chunks(struct lane *l)
{
    const struct ps_table *t = l->p.table;
    uint64_t next = 0; /* place in the region of pulls */

    l->chunk = calloc(VB_MAX(ps_lane_chunks(t, l->p.ps, l->p.lane), 1u), sizeof(*l->chunk));
    l->pull_at = calloc(VB_MAX(ps_lane_chunks(t, l->p.ps, l->p.lane), 1u), sizeof(*l->pull_at));
    if (l->chunk == NULL || l->pull_at == NULL)
        return VB_NOMEM;
    for (uint32_t i = 0; i < t->nclasses; i++)
        l->cls[i] = (struct lane_class){ .c = &l->p.cls[i],
                                         .copy_at = ps_copy_at(t, l->p.cls, i, l->p.ps, 0),
                                         .copy_step = ps_copy_at(t, l->p.cls, i, l->p.ps, 1) -
                                                      ps_copy_at(t, l->p.cls, i, l->p.ps, 0),
                                         .range_at = ps_range_at(t, i, l->p.ps) };
    for (uint32_t c = 0; c < t->nchunks; c++) {
        const struct ps_chunk *chunk = &t->chunk[c];
        struct lane_class *k = &l->cls[chunk->cls];

        const uint64_t pull_at = next;

        if (chunk->ps == l->p.ps)
            next += ps_pull_room(k->c, chunk->bytes, l->p.nworkers);
        if (chunk->ps != l->p.ps || chunk->lane != l->p.lane)
            continue;
        if (k->n++ == 0)
            k->first = l->nchunks;
        l->pull_at[l->nchunks] = pull_at;
        l->chunk[l->nchunks++] = c;
    }
    return VB_OK;
}

/* This class's part of the budget. */
static uint64_t landing_share(const struct lane *l, const struct lane_class *k)
{
    uint64_t own = 0, all = 0;

    for (uint32_t i = 0; i < l->nchunks; i++) {
        all += lane_chunk(l, i)->bytes;
        own += i >= k->first && i < k->first + k->n ? lane_chunk(l, i)->bytes : 0;
    }
    return own == 0 ? 0 : (uint64_t)((double)l->p.landing_bytes * (double)own / (double)all);
}

/* Where each gradient is a step of its own, each has its own place. With backup workers, and where a step
 * needs a norm, it is made of all chunks at once, so all must find room. */
static enum vb_st make_landing(struct lane *l, struct lane_class *k)
{
    const uint64_t bytes =
        k->n > 0 ? vb_round_up(ps_coded_bytes(k->c->push, lane_chunk(l, k->first)->bytes), PS_ALIGN)
                 : 0;
    const uint64_t each = (uint64_t)k->n * l->p.nworkers, share = landing_share(l, k);
    const bool at_once = k->c->rule.mode == PS_BACKUP || k->two_phase;

    if (k->c->rule.mode != PS_SSP)
        return landing_init(&k->landing, k->n, l->p.nworkers, bytes, at_once ? UINT64_MAX : share);
    return each > INT32_MAX ? VB_NOMEM : landing_init(&k->landing, (uint32_t)each, 1, bytes, share);
}

static enum vb_st make_classes(struct lane *l)
{
    enum vb_st st = VB_OK;

    for (uint32_t i = 0; st == VB_OK && i < l->p.table->nclasses; i++) {
        st = lane_codec_init(l, &l->cls[i]);
        if (st == VB_OK)
            st = make_landing(l, &l->cls[i]);
    }
    return st;
}

enum vb_st lane_create(const struct lane_params *p, struct lane **lane_out)
{
    struct lane *l = calloc(1, sizeof(*l));
    enum vb_st st = VB_NOMEM;

    if (l == NULL)
        return st;
    l->p = *p;
    l->port = tp_port(p->node, p->lane);
    l->kn = kn_best();
    l->params = tp_region_base(p->node, p->region);
    if (ps_copy_bytes(p->table, p->cls, p->ps, p->nworkers) > 0)
        l->copies = tp_region_base(p->node, p->copies);
    if ((st = find_chunks(l)) != VB_OK || (st = make_state(l)) != VB_OK ||
        (st = lane_norm_init(l)) != VB_OK || (st = make_engines(l)) != VB_OK ||
        (st = make_sends(l)) != VB_OK || (st = make_classes(l)) != VB_OK)
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
    for (uint32_t i = 0; i < PS_CLASSES_MAX; i++) {
        landing_fini(&l->cls[i].landing);
        lane_codec_fini(&l->cls[i]);
        free(l->cls[i].engine);
    }
    if (l->state != NULL)
        munmap(l->state, l->state_bytes);
    free(l->state_at);
    lane_norm_fini(l);
    free(l->chunk);
    free(l->pull_at);
    free(l->counted);
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
