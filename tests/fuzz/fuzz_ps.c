/*
 * What workers may send to a ps: any bytes as headers, any order. The header check lets nothing through
 * that does not fit the table, and no sequence of accepted headers breaks the engine's own rules.
 */
#include "ps/engine.h"
#include "ps/wire.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, MEMORY = 16384, ACTIONS = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct ps_table *table(void)
{
    static struct ps_table t;
    const struct ps_var var[] = { { .name = "a", .elems = 30000 }, { .name = "b", .elems = 70 } };
    struct vb_err err;

    if (t.nchunks == 0 &&
        ps_table_make(&(struct ps_table_params){ .var = var, .nvars = 2, .nps = 1 }, &t, &err) !=
            VB_OK)
        abort();
    return &t;
}

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* Steps of a chunk come one by one, each from a set of gradients that is not empty; reads are never answered
 * staler than the bound. */
static void check_actions(const struct ps_engine *e, const struct ps_engine_params *p,
                          const struct ps_action *a, size_t n, uint64_t *epoch)
{
    for (size_t i = 0; i < n; i++) {
        bool any = false;

        if (a[i].kind == PS_ACT_PUBLISH && p->mode == PS_SSP)
            must(a[i].behind <= p->staleness_hi);
        if (a[i].kind != PS_ACT_APPLY)
            continue;
        must(p->mode == PS_SSP || a[i].clock == epoch[a[i].chunk]);
        must(a[i].updates == epoch[a[i].chunk]);
        epoch[a[i].chunk]++;
        for (uint32_t w = 0; w < WORKERS; w++)
            any |= ps_engine_has(e, a[i].chunk, w);
        must(any);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static _Alignas(8) char memory[MEMORY];
    const struct ps_table *t = table();
    const uint32_t s = bytes > 0 ? data[0] / 3 % 4 : 0;
    const struct ps_engine_params p = { .nworkers = WORKERS,
                                        .nchunks = t->nchunks,
                                        .mode = bytes > 0 ? (enum ps_mode)(data[0] % 3) : PS_SYNC,
                                        .staleness_lo = s,
                                        .staleness_hi = s,
                                        .backups = 1 };
    struct ps_action action[ACTIONS];
    uint64_t epoch[ACTIONS] = { 0 };
    size_t n = 0;

    must(ps_engine_bytes(&p) <= sizeof(memory) && ps_engine_max_actions(&p) <= ACTIONS);
    struct ps_engine *e = ps_engine_init(memory, &p);

    for (uint32_t w = 0; w < WORKERS; w++)
        must(ps_engine_step(e, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = w }, action,
                            &n) == VB_OK);
    if (bytes > 0) {
        data++;
        bytes--;
    }
    for (; bytes >= 34; data += 34, bytes -= 34) {
        const struct ps_from from = { .table = t, .to_ps = true, .worker = data[0] % WORKERS };
        static const uint64_t sizes[] = { 0, 4096, 65536, UINT64_MAX };
        struct ps_hdr h;
        const uint64_t payload =
            data[1] % 8 < 4 ? t->chunk[data[1] % t->nchunks].bytes : sizes[data[1] % 4];

        if (ps_hdr_check(&from, data + 2, 32, payload, &h) != VB_OK)
            continue;
        must(h.worker == from.worker && (h.kind == PS_TICK || h.chunk < t->nchunks));
        const struct ps_event ev = { .kind = h.kind == PS_INIT   ? PS_EV_INIT
                                             : h.kind == PS_PUSH ? PS_EV_PUSH
                                             : h.kind == PS_READ ? PS_EV_READ
                                             : h.flags != 0      ? PS_EV_FINISHED
                                                                 : PS_EV_TICK,
                                     .worker = h.worker,
                                     .chunk = h.kind == PS_TICK ? 0 : h.chunk,
                                     .clock = h.clock,
                                     .count = h.count,
                                     .samples = h.samples };

        if (ps_engine_step(e, &ev, action, &n) == VB_OK)
            check_actions(e, &p, action, n, epoch);
    }
    return 0;
}
