#include "rig.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <string.h>

static void join(struct rig *r, uint32_t ps, uint32_t w, struct tp_link **at_ps,
                 struct tp_link **at_worker)
{
    struct tp_link_params p = { .way = TP_LOOP,
                                .peer = "worker",
                                .user = (void *)(uintptr_t)(r->p.nps + w),
                                .channels = r->table.nlanes };
    struct tp_offer a, b;

    cr_assert_eq(tp_link_new(r->ps_node[ps], &p, at_ps), VB_OK);
    p.peer = "ps";
    p.user = (void *)(uintptr_t)ps;
    p.initiator = true;
    cr_assert_eq(tp_link_new(r->worker_node[w], &p, at_worker), VB_OK);
    cr_assert_eq(tp_link_offer(*at_ps, &a), VB_OK);
    cr_assert_eq(tp_link_offer(*at_worker, &b), VB_OK);
    cr_assert_eq(tp_link_connect(*at_ps, &b), VB_OK);
    cr_assert_eq(tp_link_connect(*at_worker, &a), VB_OK);
    tp_offer_close(&a);
    tp_offer_close(&b);
    tp_loop_set(*at_ps, &r->p.knobs);
    tp_loop_set(*at_worker, &r->p.knobs);
}

static void open_ps(struct rig *r, uint32_t k)
{
    uint32_t region = 9, copies = 9, pulls = 9;
    const uint64_t copy_bytes = ps_copy_bytes(&r->table, r->p.cls, k, r->p.nworkers);

    cr_assert_eq(tp_node_open(&(struct tp_node_params){ .name = "ps",
                                                        .nports = r->table.nlanes,
                                                        .loop_seed = r->p.seed },
                              &r->ps_node[k]),
                 VB_OK);
    cr_assert_eq(
        tp_region_new(r->ps_node[k], ps_range_at(&r->table, r->table.nclasses, k), false, &region),
        VB_OK);
    const uint64_t pull_bytes = ps_pull_bytes(&r->table, r->p.cls, k, r->p.nworkers);

    if (copy_bytes > 0)
        cr_assert_eq(tp_region_new(r->ps_node[k], copy_bytes, false, &copies), VB_OK);
    if (pull_bytes > 0)
        cr_assert_eq(tp_region_new(r->ps_node[k], pull_bytes, false, &pulls), VB_OK);
    for (uint32_t i = 0; i < r->table.nlanes; i++)
        cr_assert_eq(lane_create(&(struct lane_params){ .table = &r->table,
                                                        .ps = k,
                                                        .lane = i,
                                                        .nworkers = r->p.nworkers,
                                                        .node = r->ps_node[k],
                                                        .region = region,
                                                        .copies = copies,
                                                        .pulls = pulls,
                                                        .cls = r->p.cls,
                                                        .landing_bytes = r->p.landing_bytes },
                                 &r->lane[k][i]),
                     VB_OK);
}

void rig_open(struct rig *r, const struct rig_params *p)
{
    struct ps_var var[64];
    struct vb_err err;

    *r = (struct rig){ .p = *p };
    for (uint32_t i = 0; i < p->nvars; i++)
        var[i] = (struct ps_var){ .name = "v",
                                  .elems = p->elems[i],
                                  .cls = p->second_var > 0 && i >= p->second_var };
    cr_assert_eq(ps_table_make(&(struct ps_table_params){ .var = var,
                                                          .nvars = p->nvars,
                                                          .nps = p->nps,
                                                          .nlanes = p->nlanes,
                                                          .chunk_bytes = p->chunk_bytes },
                               &r->table, &err),
                 VB_OK);
    for (uint32_t k = 0; k < p->nps; k++)
        open_ps(r, k);
    for (uint32_t w = 0; w < p->nworkers; w++) {
        struct tp_link *link[RIG_PS_MAX];

        cr_assert_eq(
            tp_node_open(
                &(struct tp_node_params){ .name = "worker", .nports = 1, .loop_seed = p->seed },
                &r->worker_node[w]),
            VB_OK);
        cr_assert_eq(exchange_open(&(struct exchange_params){ .table = &r->table,
                                                              .worker = w,
                                                              .cls = p->cls,
                                                              .node = r->worker_node[w] },
                                   &r->x[w]),
                     VB_OK);
        for (uint32_t k = 0; k < p->nps; k++) {
            struct tp_link *at_ps = NULL;

            join(r, k, w, &at_ps, &link[k]);
            for (uint32_t i = 0; i < r->table.nlanes; i++)
                lane_link(r->lane[k][i], w, at_ps);
        }
        cr_assert_eq(exchange_connect(r->x[w], link), VB_OK);
    }
}

void rig_close(struct rig *r)
{
    for (uint32_t w = 0; w < r->p.nworkers; w++)
        cr_assert(tp_node_close(r->worker_node[w]));
    for (uint32_t k = 0; k < r->p.nps; k++)
        cr_assert(tp_node_close(r->ps_node[k]));
    for (uint32_t w = 0; w < r->p.nworkers; w++)
        exchange_close(r->x[w]);
    for (uint32_t k = 0; k < r->p.nps; k++)
        for (uint32_t i = 0; i < r->table.nlanes; i++)
            lane_destroy(r->lane[k][i]);
    ps_table_fini(&r->table);
}

bool rig_progress(struct rig *r)
{
    for (uint32_t k = 0; k < r->p.nps; k++)
        for (uint32_t i = 0; i < r->table.nlanes; i++) {
            const enum vb_st st = lane_poll(r->lane[k][i], 0);

            if (st != VB_OK && st != VB_TIMEOUT)
                return false;
        }
    for (uint32_t w = 0; w < r->p.nworkers; w++) {
        const enum vb_st st = exchange_wait(r->x[w], 0);

        if (st != VB_OK && st != VB_TIMEOUT)
            return false;
    }
    return true;
}

const float *rig_params_at(const struct rig *r, const struct ps_chunk *c)
{
    return (const float *)(const void *)((char *)tp_region_base(r->ps_node[c->ps], 0) + c->at);
}

float rig_grad(uint32_t w, uint64_t t, uint64_t i)
{
    return vb_random_f32(77, w * 1000 + t, i) - 0.5f;
}

static void fill_grad(struct rig *r, uint32_t w, uint64_t t)
{
    for (uint32_t v = 0; v < r->table.nvars; v++)
        for (uint64_t i = 0; i < r->table.var[v].elems; i++)
            exchange_grad(r->x[w], v)[i] = r->p.quiet_from > 0 && t >= r->p.quiet_from
                                               ? 0
                                               : rig_grad(w, t, r->table.var[v].offset / 4 + i);
}

static bool all_at(struct rig *r, uint32_t w, uint64_t clock)
{
    for (uint32_t v = 0; v < r->table.nvars; v++)
        if (exchange_round(r->x[w], v) != clock)
            return false;
    return true;
}

bool rig_train(struct rig *r, uint64_t steps)
{
    uint64_t clock[RIG_WORKERS_MAX] = { 0 }, still = 0, left = steps * r->p.nworkers;

    memset(exchange_grad(r->x[0], 0), 0, r->table.line_bytes);
    for (uint32_t c = 0; c < r->table.nchunks; c++)
        exchange_init(r->x[0], c);
    while (left > 0 && still++ < 20000) {
        if (!rig_progress(r))
            return false;
        for (uint32_t w = 0; w < r->p.nworkers; w++) {
            if (clock[w] == steps || !all_at(r, w, clock[w]))
                continue;
            const struct vb_perm order = vb_perm_make(r->table.nchunks, r->p.seed + w, clock[w]);

            fill_grad(r, w, clock[w]);
            for (uint32_t c = 0; c < r->table.nchunks; c++)
                exchange_push(r->x[w], (uint32_t)vb_perm_at(&order, c), clock[w], 10 + w, 1000);
            clock[w]++;
            left--;
            still = 0;
        }
    }
    for (uint32_t w = 0; left == 0 && w < r->p.nworkers; w++)
        for (uint64_t n = 0; !all_at(r, w, steps); n++)
            if (n > 20000 || !rig_progress(r))
                return false;
    return left == 0;
}

/* The sum of a level of neighbours, odd last one passing up: plainly, level by level. */
static float tree(float *g, uint32_t n)
{
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t i = 0; i < n; i += 2)
            g[i / 2] = i + 1 < n ? g[i] + g[i + 1] : g[i];
    return g[0];
}

float *rig_reference(const struct rig *r, uint64_t steps)
{
    const uint64_t n = r->table.line_bytes / sizeof(float);
    float *w = calloc(n, sizeof(*w)), *m = calloc(n, sizeof(*m)), *v = calloc(n, sizeof(*v));
    uint64_t samples = 0;

    for (uint32_t k = 0; k < r->p.nworkers; k++)
        samples += 10 + k;
    for (uint64_t t = 0; t < steps; t++)
        for (uint32_t var = 0; var < r->table.nvars; var++) {
            const struct kn_opt *o = &r->p.cls[r->table.var[var].cls].optimizer;
            const size_t per = kn_opt_state(o->kind);
            const struct kn_step s = kn_opt_step(o, t + 1, samples);

            for (uint64_t e = 0; e < r->table.var[var].elems; e++) {
                const uint64_t i = r->table.var[var].offset / 4 + e;
                float g[RIG_WORKERS_MAX];

                for (uint32_t k = 0; k < r->p.nworkers; k++)
                    g[k] = rig_grad(k, t, i);
                const float sum = tree(g, r->p.nworkers);
                const float *const one = &sum;

                kn_ref.apply(&w[i], per > 0 ? &m[i] : NULL, per > 1 ? &v[i] : NULL, &one, 1, o, &s,
                             1);
            }
        }
    free(m);
    free(v);
    return w;
}
