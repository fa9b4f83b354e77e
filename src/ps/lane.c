/*
 * How: every message becomes an engine event, the engine answers with actions, and the actions are
 * carried out at once: keep a pointer to a gradient, run the fused kernel over a chunk, tell the
 * workers. A PARAM message per (worker, chunk) has its own op; when the ring is full it waits in a
 * list, and while one is still in flight the newer epoch waits in its struct.
 */
#include "ps/lane_priv.h"

#define LOG_MOD "ps"
#include "base/clock.h"
#include "base/log.h"
#include "ps/wire.h"

#include <inttypes.h>
#include <string.h>

static uint32_t worker_of(const struct lane *l, const struct tp_link *link)
{
    return (uint32_t)(uintptr_t)tp_link_user(link) - l->p.table->nps;
}

/* ---- sending parameters ---- */

static void wait_for_room(struct lane *l, struct param_send *s)
{
    if (s->waiting)
        return;
    s->waiting = true;
    s->next = NULL;
    if (l->wait_tail != NULL)
        l->wait_tail->next = s;
    else
        l->wait_head = s;
    l->wait_tail = s;
}

static void send_param(struct lane *l, struct param_send *s)
{
    const struct ps_chunk *c = lane_chunk(l, s->chunk);
    struct tp_link *link = l->link[s->worker];
    const struct ps_hdr h = { .version = PS_WIRE_VERSION,
                              .kind = PS_PARAM,
                              .cls = (uint16_t)c->cls,
                              .worker = (uint16_t)s->worker,
                              .chunk = l->chunk[s->chunk],
                              .samples = s->by,
                              .clock = s->epoch,
                              .count = s->behind };

    if (s->busy) {
        s->again = true;
        return;
    }
    s->op.need = c->need;
    memcpy(s->op.hdr, &h, sizeof(h));
    s->op.hdr_bytes = sizeof(h);
    const struct lane_class *k = &l->cls[c->cls];
    const bool in_place = ps_class_in_place(k->c), coded = k->c->pull != NULL && s->epoch > 0;

    s->op.region = coded ? l->p.pulls : in_place ? l->p.region : l->p.copies;
    s->op.offset = coded      ? lane_encoded_at(l, s->chunk, s->worker)
                   : in_place ? c->at
                              : lane_copy_at(l, s->worker, c);
    s->op.bytes = tp_link_way(link) == TP_MAP ? 0
                  : coded                     ? ps_coded_bytes(k->c->pull, c->bytes)
                                              : c->bytes;
    const enum vb_st st = tp_send(l->port, link, l->p.lane, &s->op);
    if (st == VB_OK)
        s->busy = true;
    else if (st == VB_AGAIN)
        wait_for_room(l, s);
    else if (st != VB_UNREACHABLE) /* a lost worker is the control thread's business */
        l->broken = st;
}

void lane_param_sent(struct tp_op *op, enum vb_st st)
{
    struct param_send *s = container_of(op, struct param_send, op);

    s->busy = false;
    if (st == VB_OK && s->again) {
        s->again = false;
        send_param(s->lane, s);
    }
}

static void send_waiting(struct lane *l)
{
    struct param_send *s = l->wait_head;

    l->wait_head = l->wait_tail = NULL;
    while (s != NULL) {
        struct param_send *next = s->next;

        s->waiting = false;
        send_param(l, s);
        s = next;
    }
}

/* The workers that a copy is for read no more than they have pushed since, so nobody reads what is overwritten
 * here, and what was last encoded for them has arrived. */
static void copy_for(struct lane *l, uint32_t worker, const struct ps_action *a)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);
    const struct ps_class *k = l->cls[c->cls].c;

    if (ps_class_in_place(k))
        return;
    if (k->pull != NULL && a->clock > 0)
        lane_encode(l, a->chunk, worker, a->clock);
    else
        memcpy(lane_copy(l, worker, c), lane_params(l, c), c->bytes);
}

static void publish(struct lane *l, struct lane_class *k, const struct ps_action *a)
{
    bool copied = false;

    if (a->worker != PS_ALL)
        ps_bound_note(&k->bound, a->worker + 1 != l->by);
    for (uint32_t w = 0; w < l->p.nworkers; w++) {
        struct param_send *s = &l->send[(size_t)w * l->nchunks + a->chunk];

        if ((a->worker != PS_ALL && a->worker != w) || !ps_engine_live(k->engine, w))
            continue;
        if (!copied)
            copy_for(l, w, a);
        copied = ps_class_shared(k->c);
        l->read_at[(size_t)a->chunk * l->p.nworkers + w] = a->updates;
        s->epoch = a->clock;
        s->behind = a->behind;
        s->by = l->by;
        send_param(l, s);
    }
}

/* ---- carrying out what the engine says ---- */

/* Where each gradient is a step, each is a chunk of landing memory. */
static uint32_t landing_chunk(const struct lane *l, const struct lane_class *k, uint32_t chunk,
                              uint32_t worker)
{
    return k->c->rule.mode == PS_SSP ? (chunk - k->first) * l->p.nworkers + worker
                                     : chunk - k->first;
}

static uint32_t landing_worker(const struct lane_class *k, uint32_t worker)
{
    return k->c->rule.mode == PS_SSP ? 0 : worker;
}

static void drop(struct lane *l, struct lane_class *k, const struct ps_action *a)
{
    if (a->worker == PS_ALL)
        return; /* a first value: landed nowhere */
    if (k->c->rule.mode == PS_SSP)
        (void)landing_close(&k->landing, landing_chunk(l, k, a->chunk, a->worker));
    else
        landing_drop(&k->landing, landing_chunk(l, k, a->chunk, a->worker), a->worker);
}

static void apply(struct lane *l, struct lane_class *k, const struct ps_action *a)
{
    lane_apply(l, a);
    if (landing_close(&k->landing, landing_chunk(l, k, a->chunk, a->worker)))
        tp_retry_places(l->port);
}

static void store(struct lane *l, const struct ps_action *a, const struct tp_rx *rx)
{
    const struct ps_chunk *c = lane_chunk(l, a->chunk);

    if (rx->payload != lane_params(l, c)) /* it may have landed in place */
        memcpy(lane_params(l, c), rx->payload, c->bytes);
    atomic_store_explicit(&l->has_value[a->chunk], 1, memory_order_release);
}

static void keep(struct lane *l, const struct lane_class *k, const struct ps_action *a,
                 const struct tp_rx *rx)
{
    const float **at = &l->grad[(size_t)a->chunk * l->p.nworkers + a->worker];

    if (k->c->push != NULL)
        *at = lane_decode(l, a->chunk, a->worker, rx);
    else
        *at = l->skip ? NULL : rx->payload;
}

/* All pushes of a worker for a step are in, once they are in every class. */
static void counted(struct lane *l, const struct lane_class *k, const struct ps_action *a)
{
    const uint32_t nworkers = l->p.nworkers;

    l->counted[(size_t)(k - l->cls) * nworkers + a->worker] = a->clock + 1;
    for (size_t i = 0; i < l->p.table->nclasses; i++)
        if (l->counted[i * nworkers + a->worker] <= a->clock)
            return;
    l->p.counted(l->p.arg, a->worker, a->clock);
}

static void carry_out(struct lane *l, struct lane_class *k, const struct ps_action *a,
                      const struct tp_rx *rx)
{
    switch (a->kind) {
    case PS_ACT_STORE:
        store(l, a, rx);
        break;
    case PS_ACT_KEEP:
        keep(l, k, a, rx);
        break;
    case PS_ACT_DROP:
        drop(l, k, a);
        break;
    case PS_ACT_APPLY:
        apply(l, k, a);
        break;
    case PS_ACT_PUBLISH:
        publish(l, k, a);
        break;
    case PS_ACT_COUNTED:
        counted(l, k, a);
        break;
    case PS_ACT_PARTIAL:
        lane_partial(l, a);
        break;
    }
}

void lane_step(struct lane *l, struct lane_class *k, const struct ps_event *ev,
               const struct tp_rx *rx)
{
    size_t n = 0;
    const enum vb_st st = ps_engine_step(k->engine, ev, l->actions, &n);

    if (st != VB_OK) {
        log_error("worker %u sent a message out of turn (event %d, clock %" PRIu64 ")", ev->worker,
                  ev->kind, ev->clock);
        l->broken = st;
    }
    for (size_t i = 0; i < n && l->broken == VB_OK; i++) {
        l->actions[i].chunk += k->first;
        carry_out(l, k, &l->actions[i], rx);
    }
}

static enum vb_st check(const struct lane *l, const struct tp_link *link, const void *hdr,
                        uint32_t hdr_bytes, uint64_t payload_bytes, struct ps_hdr *out)
{
    const struct ps_from from = { .table = l->p.table,
                                  .to_ps = true,
                                  .ps = l->p.ps,
                                  .worker = worker_of(l, link),
                                  .cls = l->p.cls };
    const enum vb_st st = ps_hdr_check(&from, hdr, hdr_bytes, payload_bytes, out);

    if (st != VB_OK || from.worker >= l->p.nworkers)
        return VB_PROTO;
    if (out->kind == PS_TICK)
        return out->chunk == l->p.lane ? VB_OK : VB_PROTO;
    return l->p.table->chunk[out->chunk].lane == l->p.lane ? VB_OK : VB_PROTO;
}

static uint32_t local_chunk(const struct lane *l, uint32_t chunk)
{
    return l->p.table->chunk[chunk].nth;
}

/* Not to be used; it counts as come, with no samples. */
static bool is_bad(struct lane *l, const struct ps_hdr *h, const void *gradient)
{
    if (lane_finite(l, h->worker, local_chunk(l, h->chunk), h->clock, gradient))
        return false;
    if (l->skipped++ == 0)
        log_warn("%s: skipped, as are all such (counted at the end)", l->why);
    return true;
}

void lane_on_msg(void *arg, const struct tp_rx *rx)
{
    static const enum ps_event_kind event_of[] = { [PS_INIT] = PS_EV_INIT,
                                                   [PS_PUSH] = PS_EV_PUSH,
                                                   [PS_TICK] = PS_EV_TICK,
                                                   [PS_READ] = PS_EV_READ };
    struct lane *l = arg;
    struct ps_hdr h;

    if (l->broken != VB_OK)
        return; /* the run is ending */
    if (check(l, rx->link, rx->hdr, rx->hdr_bytes, rx->payload_bytes, &h) != VB_OK) {
        log_error("worker %u sent a malformed message", worker_of(l, rx->link));
        l->broken = VB_PROTO;
        return;
    }
    struct ps_event ev = { .kind = event_of[h.kind],
                           .worker = h.worker,
                           .clock = h.clock,
                           .count = h.count,
                           .samples = h.samples };

    l->by = h.worker + 1;
    l->skip = h.kind == PS_PUSH && l->p.on_nan == PS_NAN_SKIP && is_bad(l, &h, rx->payload);
    if (l->skip)
        ev.samples = 0;
    l->pushed = h.clock;
    l->step_samples = h.kind == PS_PUSH ? h.count : 0;
    if (h.kind != PS_TICK)
        ev.chunk = local_chunk(l, h.chunk) - l->cls[h.cls].first;
    else if (h.flags == PS_FINISHED)
        ev.kind = PS_EV_FINISHED;
    lane_step(l, &l->cls[h.cls], &ev, rx);
}

/* thread: transport. Reads only what does not change, and atomics. */
void *lane_place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                 uint64_t payload_bytes)
{
    struct lane *l = arg;
    struct ps_hdr h;
    void *at = NULL;

    if (check(l, link, hdr, hdr_bytes, payload_bytes, &h) != VB_OK)
        return NULL;
    const uint32_t n = local_chunk(l, h.chunk);
    struct lane_class *k = &l->cls[h.cls];

    if (h.kind == PS_INIT) /* once: a second first value would land in live parameters */
        return atomic_exchange_explicit(&l->has_value[n], 1, memory_order_acq_rel) == 0
                   ? lane_params(l, lane_chunk(l, n))
                   : NULL;
    const enum vb_st st = landing_open(&k->landing, landing_chunk(l, k, n, h.worker),
                                       landing_worker(k, h.worker), &at);
    return st == VB_AGAIN ? TP_PLACE_LATER : st == VB_OK ? at : NULL;
}

void lane_link(struct lane *l, uint32_t worker, struct tp_link *link)
{
    l->link[worker] = link;
}

static void tend_bounds(struct lane *l)
{
    for (uint32_t i = 0; i < l->p.table->nclasses; i++) {
        struct lane_class *k = &l->cls[i];
        struct ps_event ev = { .kind = PS_EV_BOUND };

        if (!ps_bound_tend(&k->bound, &k->c->rule, l->p.nworkers, k->n, &ev.count))
            continue;
        l->by = 0;
        lane_step(l, k, &ev, NULL);
    }
}

enum vb_st lane_poll(struct lane *l, uint64_t deadline_ns)
{
    /* nobody says when a full ring has room again */
    const uint64_t retry_ns = l->wait_head != NULL ? vb_now_ns() + VB_MS : VB_NEVER;
    const unsigned n = tp_wait(l->port, VB_MIN(deadline_ns, retry_ns));

    if (l->wait_head != NULL)
        send_waiting(l);
    tend_bounds(l);
    if (l->broken != VB_OK)
        return l->broken;
    return n > 0 ? VB_OK : VB_TIMEOUT;
}

uint64_t lane_next(const struct lane *l)
{
    return l->next;
}

enum vb_st lane_set(struct lane *l, const uint64_t *bits)
{
    l->by = 0;
    for (uint32_t i = 0; i < l->p.table->nclasses; i++)
        lane_step(l, &l->cls[i],
                  &(struct ps_event){ .kind = PS_EV_SET, .clock = l->next, .set = bits }, NULL);
    l->next++;
    return l->broken;
}

bool lane_missing(const struct lane *l, uint32_t *worker_out, uint64_t *clock_out)
{
    for (uint32_t i = 0; i < l->p.table->nclasses; i++)
        if (ps_engine_missing(l->cls[i].engine, worker_out, clock_out))
            return true;
    return false;
}

void lane_staleness(const struct lane *l, uint32_t cls, uint64_t *hist)
{
    for (unsigned i = 0; i < PS_STALENESS_BUCKETS; i++)
        hist[i] += ps_engine_staleness(l->cls[cls].engine)[i];
}

const char *lane_why(const struct lane *l)
{
    return l->why;
}

uint64_t lane_skipped(const struct lane *l)
{
    return l->skipped;
}

uint64_t lane_dropped(const struct lane *l)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < l->p.table->nclasses; i++)
        n += ps_engine_dropped(l->cls[i].engine);
    return n;
}
