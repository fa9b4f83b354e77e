#include "worker/exchange.h"

#define LOG_MOD "worker"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

struct out_msg {
    struct tp_op op;
    struct exchange *x;
    struct out_msg *next;
    uint32_t ps, lane;
    uint64_t
        again; /* clock + 1 of a push that became due while the last was still in flight; 0: none */
    uint32_t again_samples;
    bool busy;
};

struct exchange {
    struct exchange_params p;
    struct tp_port *port;
    uint32_t region;
    char *window;
    void *reserved; /* the window's address space, with room to align it */
    uint64_t reserved_bytes;
    struct tp_link **link; /* per ps */
    struct out_msg *push;  /* per chunk */
    struct out_msg *tick;  /* per (ps, lane) */
    struct out_msg *wait_head, *wait_tail;
    uint64_t *epoch;     /* per chunk: landed epoch + 1 */
    uint32_t *behind;    /* per variable: chunks that have not landed at var_epoch yet */
    uint64_t *var_epoch; /* per variable: epoch + 1 that is being waited for */
    uint64_t *sent;      /* per (ps, lane): pushes so far */
    uint64_t pushed_bytes, pulled_bytes;
    uint32_t nbusy;
    enum vb_st broken;
};

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
    m->op.region = x->region;
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
    h.chunk = chunk;
    m->op.offset = c->offset;
    m->op.bytes = c->bytes;
    start(x, m, &h);
}

static void push_now(struct exchange *x, uint32_t chunk, uint64_t clock, uint32_t samples)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];

    x->sent[c->ps * x->p.table->nlanes + c->lane]++;
    x->pushed_bytes += c->bytes;
    send_chunk(x, chunk, (struct ps_hdr){ .kind = PS_PUSH, .clock = clock, .samples = samples });
}

void exchange_push(struct exchange *x, uint32_t chunk, uint64_t clock, uint32_t samples)
{
    struct out_msg *m = &x->push[chunk];

    if (m->busy) { /* acknowledged by the ps, but its op has not come back yet */
        m->again = clock + 1;
        m->again_samples = samples;
        return;
    }
    push_now(x, chunk, clock, samples);
}

void exchange_init(struct exchange *x, uint32_t chunk)
{
    send_chunk(x, chunk, (struct ps_hdr){ .kind = PS_INIT });
}

void exchange_finish(struct exchange *x)
{
    const struct ps_table *t = x->p.table;

    for (uint32_t i = 0; i < t->nps * t->nlanes; i++) {
        const struct ps_hdr h = { .version = PS_WIRE_VERSION,
                                  .kind = PS_TICK,
                                  .flags = PS_FINISHED,
                                  .worker = (uint16_t)x->p.worker,
                                  .chunk = i % t->nlanes,
                                  .count = (uint32_t)x->sent[i] };

        start(x, &x->tick[i], &h);
    }
}

static void sent(struct tp_op *op, enum vb_st st)
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
        push_now(x, (uint32_t)(m - x->push), clock, m->again_samples);
    }
}

/* ---- receiving ---- */

static void chunk_landed(struct exchange *x, uint32_t chunk, uint64_t epoch)
{
    const struct ps_chunk *c = &x->p.table->chunk[chunk];

    x->epoch[chunk] = epoch + 1;
    x->pulled_bytes += c->bytes;
    for (uint32_t v = c->first_var; v < c->first_var + c->nvars; v++) {
        if (--x->behind[v] > 0)
            continue;
        uint32_t first = 0;

        x->behind[v] = ps_var_chunks(x->p.table, v, &first);
        x->var_epoch[v]++;
    }
}

static enum vb_st check(const struct exchange *x, struct tp_link *link, const void *hdr,
                        uint32_t hdr_bytes, uint64_t payload_bytes, struct ps_hdr *out)
{
    const struct ps_from from = { .table = x->p.table,
                                  .ps = (uint32_t)(uintptr_t)tp_link_user(link),
                                  .worker = x->p.worker,
                                  .payload_free = tp_link_way(link) == TP_MAP };

    return ps_hdr_check(&from, hdr, hdr_bytes, payload_bytes, out);
}

static void on_msg(void *arg, const struct tp_rx *rx)
{
    struct exchange *x = arg;
    struct ps_hdr h;

    const bool ok = check(x, rx->link, rx->hdr, rx->hdr_bytes, rx->payload_bytes, &h) == VB_OK;

    if (ok && h.clock < x->epoch[h.chunk])
        return; /* twice */
    /* Epochs come one after the other: this worker pushes in between. */
    if (!ok || h.clock > x->epoch[h.chunk]) {
        log_error("ps %u sent a malformed message", (unsigned)(uintptr_t)tp_link_user(rx->link));
        x->broken = VB_PROTO;
        return;
    }
    const struct ps_chunk *c = &x->p.table->chunk[h.chunk];

    if (rx->payload != NULL && rx->payload != x->window + c->offset)
        memcpy(x->window + c->offset, rx->payload, c->bytes); /* a view, on loop */
    chunk_landed(x, h.chunk, h.clock);
}

/* thread: transport. Parameters come only after this worker's push, when nothing reads them. */
static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    struct exchange *x = arg;
    struct ps_hdr h;

    if (tp_link_way(link) == TP_MAP || check(x, link, hdr, hdr_bytes, payload_bytes, &h) != VB_OK)
        return NULL;
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
    const unsigned n = tp_wait(x->port, deadline_ns);

    if (x->wait_head != NULL)
        post_waiting(x);
    if (x->broken != VB_OK)
        return x->broken;
    return n > 0 ? VB_OK : VB_TIMEOUT;
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

/* ---- life ---- */

static enum vb_st make_messages(struct exchange *x)
{
    const struct ps_table *t = x->p.table;
    const uint32_t nlanes = t->nps * t->nlanes;

    x->link = calloc(t->nps, sizeof(struct tp_link *));
    x->push = calloc(t->nchunks, sizeof(*x->push));
    x->tick = calloc(nlanes, sizeof(*x->tick));
    x->sent = calloc(nlanes, sizeof(*x->sent));
    x->epoch = calloc(t->nchunks, sizeof(*x->epoch));
    x->behind = calloc(t->nvars, sizeof(*x->behind));
    x->var_epoch = calloc(t->nvars, sizeof(*x->var_epoch));
    if (x->link == NULL || x->push == NULL || x->tick == NULL || x->sent == NULL ||
        x->epoch == NULL || x->behind == NULL || x->var_epoch == NULL)
        return VB_NOMEM;
    for (uint32_t c = 0; c < t->nchunks; c++) {
        x->push[c] = (struct out_msg){ .x = x, .ps = t->chunk[c].ps, .lane = t->chunk[c].lane };
        x->push[c].op.done = sent;
    }
    for (uint32_t i = 0; i < nlanes; i++) {
        x->tick[i] = (struct out_msg){ .x = x, .ps = i / t->nlanes, .lane = i % t->nlanes };
        x->tick[i].op.done = sent;
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

    x->reserved_bytes = t->nps * t->range_bytes + t->page_bytes;
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
    if (st != VB_OK)
        goto fail;
    tp_port_set(x->port, &(struct tp_port_params){ .arg = x, .on_msg = on_msg, .place = place });
    *x_out = x;
    return VB_OK;

fail:
    exchange_close(x);
    return st;
}

enum vb_st exchange_connect(struct exchange *x, struct tp_link *const *link)
{
    const struct ps_table *t = x->p.table;

    for (uint32_t ps = 0; ps < t->nps; ps++) {
        const void *at = NULL;

        x->link[ps] = link[ps];
        if (tp_link_way(link[ps]) != TP_MAP || ps_range_used(t, ps) == 0)
            continue;
        const enum vb_st st =
            tp_link_map(link[ps], 0, ps_range_region(t, ps), x->window + ps * t->range_bytes, &at);
        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}

void exchange_close(struct exchange *x)
{
    if (x == NULL)
        return;
    if (x->reserved != NULL)
        munmap(x->reserved, x->reserved_bytes);
    free(x->link);
    free(x->push);
    free(x->tick);
    free(x->sent);
    free(x->epoch);
    free(x->behind);
    free(x->var_epoch);
    free(x);
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

uint64_t exchange_epoch(const struct exchange *x, uint32_t var)
{
    return x->var_epoch[var] - 1;
}

uint64_t exchange_pushed_bytes(const struct exchange *x)
{
    return x->pushed_bytes;
}

uint64_t exchange_pulled_bytes(const struct exchange *x)
{
    return x->pulled_bytes;
}
