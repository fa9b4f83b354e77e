/*
 * What a worker reads through real lanes and links: parameter w of every chunk counts the pushes of worker w
 * that are in it (each adds 1 / WORKERS, exact in float). A read at clock c with bound s has
 *   its own: just c;  of each other: at least c - s, no more than that worker has pushed, no less than before
 * so no update is missed, doubled, out of order or from the future. 4 workers, 2 ps, s = 0 and 3, over map
 * and tcp, threads of one process. argv[1]: reads of each case, 10^5 without.
 */
#define LOG_MOD "witness"
#include "base/clock.h"
#include "base/log.h"
#include "ps/lane.h"
#include "worker/exchange.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 4, SERVERS = 2, VARS = 8, ELEMS = 1024 };

struct side {
    struct tp_node *node;
    struct lane *lane;
    struct exchange *x;
    uint32_t index;
    pthread_t thread;
};

static struct ps_table table;
static struct ps_class cls = { .optimizer = { .kind = KN_SGD, .rate = 1 } };
static struct side server[SERVERS], worker[WORKERS];
static atomic_uint_fast64_t pushed[WORKERS]; /* clocks that it has begun to push */
static atomic_uint_fast64_t reads, violations, stale;
static atomic_bool stop;
static uint64_t steps;

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *run_lane(void *arg)
{
    struct side *s = arg;

    while (!atomic_load(&stop)) {
        const enum vb_st st = lane_poll(s->lane, vb_now_ns() + 10 * VB_MS);

        need(st == VB_OK || st == VB_TIMEOUT, "a lane is broken");
    }
    return NULL;
}

static void wait_round(struct side *s, uint64_t round)
{
    const uint64_t deadline = vb_now_ns() + 60 * VB_SEC;

    for (uint32_t v = 0; v < VARS; v++)
        while (exchange_round(s->x, v) != round) {
            const enum vb_st st = exchange_wait(s->x, vb_now_ns() + VB_SEC);

            need((st == VB_OK || st == VB_TIMEOUT) && vb_now_ns() < deadline,
                 "a read is not answered");
        }
}

/* One variable at clock c; seen: the counts of the last look. */
static void look(const struct side *s, uint32_t v, uint64_t c, uint64_t *seen)
{
    const float *p = exchange_param(s->x, v);
    bool ok = true;

    for (uint32_t w = 0; w < WORKERS; w++) {
        const double count = (double)p[w] * WORKERS;
        const uint64_t n = (uint64_t)count, most = atomic_load(&pushed[w]);

        ok &= count == (double)n && n >= seen[w] && n <= most &&
              (w == s->index ? n == c : n + cls.rule.staleness_hi >= c);
        for (uint32_t k = w; k < ELEMS; k += WORKERS) /* the whole of it is of one moment */
            ok &= p[k] == p[w];
        if (n < c)
            atomic_fetch_add(&stale, 1);
        seen[w] = n;
    }
    atomic_fetch_add(&reads, 1);
    if (!ok)
        atomic_fetch_add(&violations, 1);
}

static void *run_worker(void *arg)
{
    struct side *s = arg;
    uint64_t seen[VARS][WORKERS] = { { 0 } };

    for (uint64_t c = 0; c <= steps; c++) {
        wait_round(s, c);
        for (uint32_t v = 0; v < VARS; v++)
            look(s, v, c, seen[v]);
        if (c == steps)
            break;
        atomic_store(&pushed[s->index], c + 1);
        for (uint32_t k = 0; k < table.nchunks; k++)
            exchange_push(s->x, k, c, 1, WORKERS);
    }
    return NULL;
}

/* The gradient is -1 where this worker counts. */
static void fill(const struct side *s)
{
    for (uint32_t v = 0; v < VARS; v++)
        for (uint32_t k = 0; k < ELEMS; k++)
            exchange_grad(s->x, v)[k] = k % WORKERS == s->index ? -1 : 0;
}

static void open_server(struct side *s)
{
    uint32_t region = 0, copies = 0;

    need(tp_node_open(&(struct tp_node_params){ .name = "ps", .nports = 1 }, &s->node) == VB_OK &&
             tp_region_new(s->node, ps_range_at(&table, 1, s->index), false, &region) == VB_OK &&
             tp_region_new(s->node, WORKERS * ps_range_at(&table, 1, s->index), false, &copies) ==
                 VB_OK,
         "no ps");
    need(lane_create(&(struct lane_params){ .table = &table,
                                            .ps = s->index,
                                            .nworkers = WORKERS,
                                            .node = s->node,
                                            .region = region,
                                            .copies = copies,
                                            .cls = &cls,
                                            .landing_bytes = UINT64_MAX },
                     &s->lane) == VB_OK,
         "no lane");
}

static struct tp_link *make_link(struct side *s, enum tp_way way, bool initiator, uintptr_t rank,
                                 struct tp_offer *offer)
{
    const struct tp_link_params p = { .way = way,
                                      .peer = initiator ? "ps" : "worker",
                                      .user = (void *)rank,
                                      .channels = 1,
                                      .initiator = initiator,
                                      .rail = { { .host = "127.0.0.1" } } };
    struct tp_link *l = NULL;

    need(tp_link_new(s->node, &p, &l) == VB_OK && tp_link_offer(l, offer) == VB_OK, "no link");
    return l;
}

static void open_worker(struct side *s, enum tp_way way)
{
    const uint64_t deadline = vb_now_ns() + 20 * VB_SEC;
    struct tp_link *link[SERVERS];

    need(tp_node_open(&(struct tp_node_params){ .name = "worker", .nports = 1 }, &s->node) ==
                 VB_OK &&
             exchange_open(&(struct exchange_params){ .table = &table,
                                                      .cls = &cls,
                                                      .worker = s->index,
                                                      .nworkers = WORKERS,
                                                      .node = s->node },
                           &s->x) == VB_OK,
         "no worker");
    for (uint32_t k = 0; k < SERVERS; k++) {
        struct tp_offer a, b;
        struct tp_link *at_ps = make_link(&server[k], way, false, SERVERS + s->index, &a);

        link[k] = make_link(s, way, true, k, &b);
        need(tp_link_connect(at_ps, &b) == VB_OK && tp_link_connect(link[k], &a) == VB_OK,
             "a link does not connect");
        tp_offer_close(&a);
        tp_offer_close(&b);
        while (tp_link_ready(at_ps) == VB_AGAIN || tp_link_ready(link[k]) == VB_AGAIN)
            need(vb_now_ns() < deadline, "a link does not come up");
        lane_link(server[k].lane, s->index, at_ps);
    }
    need(exchange_connect(s->x, link) == VB_OK, "no window");
}

static void close_all(void)
{
    for (uint32_t w = 0; w < WORKERS; w++)
        need(tp_node_close(worker[w].node), "a worker does not close");
    for (uint32_t k = 0; k < SERVERS; k++)
        need(tp_node_close(server[k].node), "a ps does not close");
    for (uint32_t w = 0; w < WORKERS; w++)
        exchange_close(worker[w].x);
    for (uint32_t k = 0; k < SERVERS; k++)
        lane_destroy(server[k].lane);
}

static bool run(enum tp_way way, uint32_t s)
{
    atomic_store(&reads, 0);
    atomic_store(&violations, 0);
    atomic_store(&stale, 0);
    atomic_store(&stop, false);
    cls.rule = s == 0 ? (struct ps_rule){ 0 } : (struct ps_rule){ PS_SSP, s, s, 0 };
    for (uint32_t k = 0; k < SERVERS; k++) {
        server[k] = (struct side){ .index = k };
        open_server(&server[k]);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        worker[w] = (struct side){ .index = w };
        atomic_store(&pushed[w], 0);
        open_worker(&worker[w], way);
    }
    for (uint32_t k = 0; k < SERVERS; k++)
        need(pthread_create(&server[k].thread, NULL, run_lane, &server[k]) == 0, "no thread");
    for (uint32_t c = 0; c < table.nchunks; c++) /* the first values: zeros */
        exchange_init(worker[0].x, c);
    wait_round(&worker[0], 0);
    while (!exchange_idle(worker[0].x))
        exchange_poll(worker[0].x);
    for (uint32_t w = 0; w < WORKERS; w++) {
        fill(&worker[w]);
        need(pthread_create(&worker[w].thread, NULL, run_worker, &worker[w]) == 0, "no thread");
    }
    for (uint32_t w = 0; w < WORKERS; w++)
        pthread_join(worker[w].thread, NULL);
    atomic_store(&stop, true);
    for (uint32_t k = 0; k < SERVERS; k++)
        pthread_join(server[k].thread, NULL);
    close_all();
    printf("%s, s = %u: %llu reads, %llu counts behind, %llu violations\n", tp_way_name(way), s,
           (unsigned long long)reads, (unsigned long long)stale, (unsigned long long)violations);
    /* nothing behind would show nothing about the bound */
    return violations == 0 && (s == 0 ? stale == 0 : stale > 0);
}

int main(int argc, char **argv)
{
    struct ps_var var[VARS];
    struct vb_err err;
    bool ok = true;

    vb_log_init();
    steps = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100000) / (VARS * WORKERS) + 1;
    for (uint32_t v = 0; v < VARS; v++)
        var[v] = (struct ps_var){ .name = "v", .elems = ELEMS };
    need(ps_table_make(
             &(struct ps_table_params){
                 .var = var, .nvars = VARS, .nps = SERVERS, .chunk_bytes = ELEMS * sizeof(float) },
             &table, &err) == VB_OK,
         "no table");
    for (enum tp_way way = TP_MAP; way <= TP_TCP; way++)
        for (uint32_t s = 0; s <= 3 && way != TP_RDMA; s += 3)
            ok &= run(way, s);
    ps_table_fini(&table);
    return ok ? 0 : 1;
}
