#include "worker/exchange_priv.h"

#define LOG_MOD "worker"
#include "base/clock.h"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <string.h>

/* ---- sending ---- */

static void post(struct exchange *x, struct out_msg *m)
{
    const enum vb_st st = tp_send(x->port, x->link[m->ps], m->lane, &m->op);

    if (st == VB_OK)
        return;
    if (st != VB_AGAIN) {
        m->busy = false;
        x->nbusy--;
        x->broken = st;
        return;
    }
    m->next = NULL;
    if (x->wait_tail != NULL)
        x->wait_tail->next = m;
    else
        x->wait_head = m;
    x->wait_tail = m;
}

static void post_waiting(struct exchange *x)
{
    struct out_msg *m = x->wait_head;

    x->wait_head = x->wait_tail = NULL;
    while (m != NULL) {
        struct out_msg *next = m->next;

        post(x, m);
        m = next;
    }
}

static void start(struct exchange *x, struct out_msg *m, const struct ps_hdr *h)
{
    memcpy(m->op.hdr, h, sizeof(*h));
    m->op.hdr_bytes = sizeof(*h);
    m->busy = true;
    x->nbusy++;
    post(x, m);
}

static void send_chunk(struct exchange *x, uint32_t chunk, struct ps_hdr h)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];
    struct out_msg *m = &x->push[chunk];

    h.version = PS_WIRE_VERSION;
    h.worker = (uint16_t)x->p.worker;
    h.cls = (uint16_t)c->cls;
    h.chunk = chunk;
    m->op.need = c->need;
    m->op.region = x->region;
    m->op.offset = c->offset;
    m->op.bytes = c->bytes;
    if (h.kind == PS_PUSH && x->p.cls[c->cls].push != NULL) {
        m->op.region = x->staging;
        m->op.bytes = ps_coded_bytes(x->p.cls[c->cls].push, c->bytes);
        if (!exchange_encode(x, chunk, h.clock, &m->op.offset))
            return;
    }
    if (h.kind == PS_PUSH)
        x->pushed_bytes += m->op.bytes;
    start(x, m, &h);
}

static void push_now(struct exchange *x, uint32_t chunk, uint64_t clock, uint32_t samples,
                     uint32_t of)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];

    x->sent[(c->ps * x->p.table->nlanes + c->lane) * x->p.table->nclasses + c->cls]++;
    x->asked[chunk] = true;
    send_chunk(x, chunk,
               (struct ps_hdr){ .kind = PS_PUSH, .clock = clock, .samples = samples, .count = of });
}

void exchange_push(struct exchange *x, uint32_t chunk, uint64_t clock, uint32_t samples,
                   uint32_t of)
{
    struct out_msg *m = &x->push[chunk];

    if (m->busy) { /* acknowledged by the ps, but its op has not come back yet */
        m->again = clock + 1;
        m->again_samples = samples;
        m->again_of = of;
        return;
    }
    push_now(x, chunk, clock, samples, of);
}

void exchange_init(struct exchange *x, uint32_t chunk)
{
    send_chunk(x, chunk, (struct ps_hdr){ .kind = PS_INIT });
}

static void send_tick(struct exchange *x, uint32_t i, uint64_t clock, uint16_t flags)
{
    const struct ps_hdr h = { .version = PS_WIRE_VERSION,
                              .kind = PS_TICK,
                              .cls = (uint16_t)x->tick[i].cls,
                              .flags = flags,
                              .worker = (uint16_t)x->p.worker,
                              .chunk = x->tick[i].lane,
                              .clock = clock,
                              .count = x->sent[i] };

    start(x, &x->tick[i], &h);
}

void exchange_tick(struct exchange *x, uint64_t clock)
{
    for (uint32_t i = 0; i < x->nticks; i++) {
        if (x->tick[i].busy)
            x->tick[i].again = clock + 1; /* it counts for the one before as well */
        else
            send_tick(x, i, clock, 0);
    }
}

void exchange_refresh(struct exchange *x)
{
    const struct ps_table *t = x->p.table;

    for (uint32_t v = 0; v < t->nvars; v++)
        x->var_round[v] -= x->p.cls[t->var[v].cls].rule.mode != PS_SYNC;
    for (uint32_t k = 0; k < t->nchunks; k++) {
        struct out_msg *m = &x->push[k];

        if (exchange_class(x, k)->rule.mode == PS_SYNC)
            continue;
        const struct ps_hdr h = { .version = PS_WIRE_VERSION,
                                  .kind = PS_READ,
                                  .cls = (uint16_t)t->chunk[k].cls,
                                  .worker = (uint16_t)x->p.worker,
                                  .chunk = k,
                                  .clock = --x->epoch[k],
                                  .count = 1 };

        m->op.bytes = 0;
        x->asked[k] = true;
        start(x, m, &h);
    }
}

void exchange_finish(struct exchange *x, uint64_t clock)
{
    for (uint32_t i = 0; i < x->nticks; i++)
        send_tick(x, i, clock - 1, PS_FINISHED);
}

void exchange_sent(struct tp_op *op, enum vb_st st)
{
    struct out_msg *m = container_of(op, struct out_msg, op);
    struct exchange *x = m->x;

    m->busy = false;
    x->nbusy--;
    if (st != VB_OK)
        x->broken = st;
    else if (m->again != 0) {
        const uint64_t clock = m->again - 1;

        m->again = 0;
        if (m >= x->tick && m < x->tick + x->nticks) {
            send_tick(x, (uint32_t)(m - x->tick), clock, 0);
            return;
        }
        push_now(x, (uint32_t)(m - x->push), clock, m->again_samples, m->again_of);
    }
}

/* ---- receiving ---- */

static void chunk_landed(struct exchange *x, uint32_t chunk, uint64_t epoch)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];

    x->epoch[chunk] = epoch + 1;
    x->asked[chunk] = false;
    x->pulled_bytes +=
        epoch > 0 ? ps_coded_bytes(exchange_class(x, chunk)->pull, c->bytes) : c->bytes;
    for (uint32_t v = c->first_var; v < c->first_var + c->nvars; v++) {
        if (--x->behind[v] > 0)
            continue;
        uint32_t first = 0;

        x->behind[v] = ps_var_chunks(x->p.table, v, &first);
        x->var_round[v]++;
    }
}

static enum vb_st check(const struct exchange *x, struct tp_link *link, const void *hdr,
                        uint32_t hdr_bytes, uint64_t payload_bytes, struct ps_hdr *out)
{
    const struct ps_from from = { .table = x->p.table,
                                  .ps = (uint32_t)(uintptr_t)tp_link_user(link),
                                  .worker = x->p.worker,
                                  .cls = x->p.cls,
                                  .payload_free = tp_link_way(link) == TP_MAP };

    return ps_hdr_check(&from, hdr, hdr_bytes, payload_bytes, out);
}

void exchange_on_msg(void *arg, const struct tp_rx *rx)
{
    struct exchange *x = arg;
    struct ps_hdr h;

    if (x->broken != VB_OK)
        return; /* the run is ending */
    const bool ok = check(x, rx->link, rx->hdr, rx->hdr_bytes, rx->payload_bytes, &h) == VB_OK;

    const bool backup = ok && x->p.cls[h.cls].rule.mode == PS_BACKUP;

    if (ok && (!x->asked[h.chunk] || h.clock + backup < x->epoch[h.chunk]))
        return; /* twice */
    /* Clocks come one after the other, since this worker pushes in between; but with backup workers it may
     * have been left behind, or told of a step before others of its chunks were. */
    if (!ok || (h.clock != x->epoch[h.chunk] && !backup)) {
        log_error("ps %u sent a malformed message", (unsigned)(uintptr_t)tp_link_user(rx->link));
        x->broken = VB_PROTO;
        return;
    }
    const struct ps_chunk *c = &x->p.table->chunk[h.chunk];

    if (rx->payload != NULL && x->p.cls[h.cls].pull != NULL && h.clock > 0) {
        if (exchange_decode(x, h.chunk, h.clock, rx->payload) != VB_OK) {
            log_error("parameters from ps %u cannot be decoded (step %" PRIu64 ")", c->ps, h.clock);
            x->broken = VB_PROTO;
            return;
        }
    } else if (rx->payload != NULL && rx->payload != x->window + c->offset) {
        memcpy(x->window + c->offset, rx->payload, c->bytes); /* a view, on loop */
    }
    if (h.clock > 0)
        x->staleness[h.cls][VB_MIN(h.count, (uint64_t)PS_STALENESS_BUCKETS - 1)]++;
    x->by = h.samples;
    chunk_landed(x, h.chunk, h.clock);
}

/* thread: transport. Parameters come only after this worker's push, when nothing reads them. */
void *exchange_place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                     uint64_t payload_bytes)
{
    struct exchange *x = arg;
    struct ps_hdr h;

    if (tp_link_way(link) == TP_MAP || check(x, link, hdr, hdr_bytes, payload_bytes, &h) != VB_OK)
        return NULL;
    if (x->p.cls[h.cls].pull != NULL && h.clock > 0)
        return exchange_landing(x, h.chunk);
    return x->window + x->p.table->chunk[h.chunk].offset;
}

void exchange_poll(struct exchange *x)
{
    (void)tp_progress(x->port);
    if (x->wait_head != NULL)
        post_waiting(x);
}

enum vb_st exchange_wait(struct exchange *x, uint64_t deadline_ns)
{
    if (x->broken != VB_OK)
        return x->broken;
    /* nobody says when a full ring has room again */
    const uint64_t retry_ns = x->wait_head != NULL ? vb_now_ns() + VB_MS : VB_NEVER;
    const uint64_t begun = vb_now_ns();
    const unsigned n = tp_wait(x->port, VB_MIN(deadline_ns, retry_ns));

    if (x->by > 0 && x->by <= x->p.nworkers)
        x->waited_ns[x->by - 1] += vb_now_ns() - begun;
    x->by = 0;

    if (x->wait_head != NULL)
        post_waiting(x);
    if (x->broken != VB_OK)
        return x->broken;
    return n > 0 || retry_ns < deadline_ns ? VB_OK : VB_TIMEOUT;
}

bool exchange_idle(const struct exchange *x)
{
    return x->nbusy == 0;
}

bool exchange_missing(const struct exchange *x, uint64_t clock, uint32_t *ps_out)
{
    const struct ps_table *t = x->p.table;
    uint32_t worst = t->nchunks;

    for (uint32_t c = 0; c < t->nchunks; c++)
        if (x->epoch[c] < clock + 1 && (worst == t->nchunks || x->epoch[c] < x->epoch[worst]))
            worst = c;
    if (worst == t->nchunks)
        return false;
    *ps_out = t->chunk[worst].ps;
    return true;
}

bool exchange_dead(const struct exchange *x, uint32_t *ps_out)
{
    for (uint32_t ps = 0; ps < x->p.table->nps; ps++)
        if (tp_link_failed(x->link[ps])) {
            *ps_out = ps;
            return true;
        }
    return false;
}

const float *exchange_param(const struct exchange *x, uint32_t var)
{
    return (const float *)(const void *)(x->window + x->p.table->var[var].offset);
}

float *exchange_grad(const struct exchange *x, uint32_t var)
{
    return (float *)(void *)((char *)tp_region_base(x->p.node, x->region) +
                             x->p.table->var[var].offset);
}

uint64_t exchange_round(const struct exchange *x, uint32_t var)
{
    return x->var_round[var] - 1;
}

uint64_t exchange_clock(const struct exchange *x)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < x->p.table->nchunks; k++)
        least = VB_MIN(least, x->epoch[k]);
    return least - 1;
}

const uint64_t *exchange_staleness(const struct exchange *x, uint32_t cls)
{
    return x->staleness[cls];
}

const uint64_t *exchange_waited_ns(const struct exchange *x)
{
    return x->waited_ns;
}

uint64_t exchange_pushed_bytes(const struct exchange *x)
{
    return x->pushed_bytes;
}

uint64_t exchange_pulled_bytes(const struct exchange *x)
{
    return x->pulled_bytes;
}
