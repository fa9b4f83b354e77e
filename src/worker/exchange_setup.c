#include "worker/exchange_priv.h"

#define LOG_MOD "worker"
#include "base/log.h"

#include <inttypes.h>
#include <sys/mman.h>

static enum vb_st make_messages(struct exchange *x)
{
    const struct ps_table *t = x->p.table;

    x->nticks = t->nps * t->nlanes * t->nclasses;
    x->link = calloc(t->nps, sizeof(struct tp_link *));
    x->waited_ns = calloc(x->p.nworkers, sizeof(*x->waited_ns));
    x->push = calloc(t->nchunks, sizeof(*x->push));
    x->tick = calloc(x->nticks, sizeof(*x->tick));
    x->sent = calloc(x->nticks, sizeof(*x->sent));
    x->epoch = calloc(t->nchunks, sizeof(*x->epoch));
    x->asked = calloc(t->nchunks, sizeof(*x->asked));
    x->behind = calloc(t->nvars, sizeof(*x->behind));
    x->var_round = calloc(t->nvars, sizeof(*x->var_round));
    if (x->asked == NULL || x->waited_ns == NULL || x->link == NULL || x->push == NULL ||
        x->tick == NULL || x->sent == NULL || x->epoch == NULL || x->behind == NULL ||
        x->var_round == NULL)
        return VB_NOMEM;
    for (uint32_t c = 0; c < t->nchunks; c++) {
        x->asked[c] = true; /* the first value */
        x->push[c] = (struct out_msg){ .x = x, .ps = t->chunk[c].ps, .lane = t->chunk[c].lane };
        x->push[c].op.done = exchange_sent;
    }
    for (uint32_t i = 0; i < x->nticks; i++) {
        const uint32_t lane = i / t->nclasses;

        x->tick[i] = (struct out_msg){
            .x = x, .ps = lane / t->nlanes, .lane = lane % t->nlanes, .cls = i % t->nclasses
        };
        x->tick[i].op.done = exchange_sent;
    }
    for (uint32_t v = 0; v < t->nvars; v++) {
        uint32_t first = 0;

        x->behind[v] = ps_var_chunks(t, v, &first);
    }
    return VB_OK;
}

static enum vb_st reserve_window(struct exchange *x)
{
    const struct ps_table *t = x->p.table;

    x->reserved_bytes = t->window_bytes + t->page_bytes;
    x->reserved = mmap(NULL, x->reserved_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x->reserved == MAP_FAILED) {
        x->reserved = NULL;
        log_error("no address space for %" PRIu64 " bytes of parameters: %m", x->reserved_bytes);
        return VB_NOMEM;
    }
    x->window = (char *)x->reserved +
                (vb_round_up((uintptr_t)x->reserved, t->page_bytes) - (uintptr_t)x->reserved);
    return VB_OK;
}

enum vb_st exchange_open(const struct exchange_params *p, struct exchange **x_out)
{
    struct exchange *x = calloc(1, sizeof(*x));
    enum vb_st st = VB_NOMEM;

    if (x == NULL)
        return st;
    x->p = *p;
    x->port = tp_port(p->node, 0);
    if (reserve_window(x) != VB_OK)
        goto fail;
    st = make_messages(x);
    if (st == VB_OK)
        st = tp_region_new(p->node, vb_round_up(p->table->line_bytes, p->table->page_bytes),
                           p->table->page_bytes == PS_HUGE_PAGE, &x->region);
    if (st == VB_OK)
        st = exchange_codec_init(x);
    if (st != VB_OK)
        goto fail;
    tp_port_set(x->port, &(struct tp_port_params){
                             .arg = x, .on_msg = exchange_on_msg, .place = exchange_place });
    *x_out = x;
    return VB_OK;

fail:
    exchange_close(x);
    return st;
}

/* The ps's regions: its ranges, and the workers' copies. */
static enum vb_st map_range(struct exchange *x, struct tp_link *link, uint32_t cls, uint32_t ps)
{
    const struct ps_table *t = x->p.table;
    const bool in_place = ps_class_in_place(&x->p.cls[cls]);
    const uint64_t offset =
        in_place ? ps_range_at(t, cls, ps) : ps_copy_at(t, x->p.cls, cls, ps, x->p.worker);
    const void *at = NULL;

    if (ps_range_used(t, cls, ps) == 0)
        return VB_OK;
    return tp_link_map(link, in_place ? 0 : 1, offset, ps_range_pages(t, cls, ps),
                       x->window + t->line[cls].offset + ps * t->line[cls].range_bytes, &at);
}

enum vb_st exchange_connect(struct exchange *x, struct tp_link *const *link)
{
    const struct ps_table *t = x->p.table;

    enum vb_st st = VB_OK;

    for (uint32_t ps = 0; ps < t->nps; ps++) {
        x->link[ps] = link[ps];
        for (uint32_t k = 0; st == VB_OK && tp_link_way(link[ps]) == TP_MAP && k < t->nclasses; k++)
            st = map_range(x, link[ps], k, ps);
    }
    return st;
}

void exchange_close(struct exchange *x)
{
    if (x == NULL)
        return;
    if (x->reserved != NULL)
        munmap(x->reserved, x->reserved_bytes);
    exchange_codec_fini(x);
    free(x->link);
    free(x->waited_ns);
    free(x->push);
    free(x->tick);
    free(x->sent);
    free(x->epoch);
    free(x->asked);
    free(x->behind);
    free(x->var_round);
    free(x);
}
