/*
 * A worker that trains and a ps lane in two threads, over each way of the transport: once set up, our code
 * allocates nothing and copies no payload of 64 KiB or more. With VB_COUNT the program is linked with
 * --wrap, so the counters see every call from our own objects (and none from inside the libraries).
 * Without, it is the same run for the thread sanitizer.
 */
#include "ps/lane.h"
#include "worker/task.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FEATURES = 784, SAMPLES = 1000, BATCH = 100, VIRTUAL = 4, WARM = 5, STEPS = 30 };
enum { COPY_LIMIT = 65536 };

static atomic_bool counting;
static atomic_ulong allocations, copies;

#ifdef VB_COUNT
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__real_memcpy(void *dst, const void *src, size_t n);
void *__real_memmove(void *dst, const void *src, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_memcpy(void *dst, const void *src, size_t n);
void *__wrap_memmove(void *dst, const void *src, size_t n);

static void count_allocation(void)
{
    if (atomic_load(&counting))
        atomic_fetch_add(&allocations, 1);
}

static void count_copy(size_t n)
{
    if (n >= COPY_LIMIT && atomic_load(&counting))
        atomic_fetch_add(&copies, 1);
}

void *__wrap_malloc(size_t n)
{
    count_allocation();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count_allocation();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count_allocation();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    count_allocation();
    return __real_aligned_alloc(align, n);
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    count_allocation();
    return __real_posix_memalign(out, align, n);
}

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    count_allocation();
    return __real_mmap(at, n, prot, flags, fd, offset);
}

void *__wrap_memcpy(void *dst, const void *src, size_t n)
{
    count_copy(n);
    return __real_memcpy(dst, src, n);
}

void *__wrap_memmove(void *dst, const void *src, size_t n)
{
    count_copy(n);
    return __real_memmove(dst, src, n);
}

static bool counters_count(void)
{
    volatile size_t n = COPY_LIMIT; /* so that the compiler cannot copy by itself */

    atomic_store(&counting, true);
    void *from = calloc(1, n), *to = malloc(n);

    memcpy(to, from, n);
    atomic_store(&counting, false);
    free(from);
    free(to);
    return atomic_exchange(&allocations, 0) == 2 && atomic_exchange(&copies, 0) == 1;
}
#endif

/* The run cannot end here: stands in for the control thread. */
bool ctl_ended(struct ctl *c, struct ctl_end *out)
{
    return false;
}

void ctl_fail(struct ctl *c, enum vb_exit code, const char *text)
{
    fprintf(stderr, "failed: %s\n", text);
    exit(1);
}

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

struct ps_side {
    struct tp_node *node;
    struct lane *lane;
    atomic_bool stop;
};

static void *run_lane(void *arg)
{
    struct ps_side *s = arg;

    while (!atomic_load(&s->stop)) {
        const enum vb_st st = lane_poll(s->lane, vb_now_ns() + 10 * VB_MS);

        need(st == VB_OK || st == VB_TIMEOUT, "the lane is broken");
    }
    return NULL;
}

static struct tp_link *make_link(struct tp_node *n, enum tp_way way, bool initiator, uintptr_t rank,
                                 struct tp_offer *offer)
{
    struct tp_link_params p = { .way = way,
                                .peer = initiator ? "ps" : "worker",
                                .user = (void *)rank,
                                .channels = 1,
                                .initiator = initiator,
                                .rail = { { .host = "127.0.0.1" } } };
    struct tp_link *l = NULL;

    need(tp_link_new(n, &p, &l) == VB_OK && tp_link_offer(l, offer) == VB_OK, "no link");
    return l;
}

static void join(struct ps_side *s, struct task *t, enum tp_way way)
{
    const uint64_t deadline = vb_now_ns() + 10 * VB_SEC;
    struct tp_offer a, b;
    struct tp_link *at_ps = make_link(s->node, way, false, 1, &a);
    struct tp_link *at_worker = make_link(t->node, way, true, 0, &b);

    need(tp_link_connect(at_ps, &b) == VB_OK && tp_link_connect(at_worker, &a) == VB_OK,
         "the links do not connect");
    tp_offer_close(&a);
    tp_offer_close(&b);
    while (tp_link_ready(at_ps) == VB_AGAIN || tp_link_ready(at_worker) == VB_AGAIN)
        need(vb_now_ns() < deadline, "the links do not come up");
    lane_link(s->lane, 0, at_ps);
    need(exchange_connect(t->x, &at_worker) == VB_OK, "the window cannot be mapped");
}

static void make_data(struct task *t, const struct wk_params *p)
{
    t->train = (struct feed){ .n = SAMPLES,
                              .features = FEATURES,
                              .max_rows = p->batch / p->virtual_workers,
                              .scale = 1 / 255.0f };
    t->train.pixels = calloc(SAMPLES, FEATURES);
    t->train.label = calloc(SAMPLES, 1);
    t->train.x = calloc(t->train.max_rows * FEATURES, sizeof(float));
    t->train.y = calloc(t->train.max_rows, sizeof(int32_t));
    for (uint32_t i = 0; i < SAMPLES * FEATURES; i++)
        t->train.pixels[i] = (uint8_t)vb_random_u64(1, 2, i);
    for (uint32_t i = 0; i < SAMPLES; i++)
        t->train.label[i] = (uint8_t)(i % 10);
}

static void train(struct task *t, const struct model *m, const struct ps_table *table)
{
    const struct vb_perm order = vb_perm_make(SAMPLES, 1, 0);

    for (uint32_t v = 0; v < m->nvars; v++)
        model_init(m->var[v], 1, exchange_grad(t->x, v));
    for (uint32_t c = 0; c < table->nchunks; c++)
        exchange_init(t->x, c);
    for (uint64_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            atomic_store(&counting, true);
        need(task_step(t, &order, step % (SAMPLES / BATCH)) == VB_OK, "a step failed");
    }
    need(task_barrier(t) == VB_OK, "the last step failed");
    atomic_store(&counting, false);
}

static bool run(enum tp_way way, const char *name, const struct model *m,
                const struct ps_table *table)
{
    static const struct ps_class cls = { .optimizer = { .kind = KN_SGD, .rate = 0.1f } };
    const struct wk_params p = { .model = m,
                                 .table = table,
                                 .cls = &cls,
                                 .batch = BATCH,
                                 .virtual_workers = VIRTUAL,
                                 .step_ns = 60 * VB_SEC };
    const struct tp_node_params ps = { .name = "ps", .nports = 1 };
    const struct tp_node_params worker = { .name = "worker", .nports = 1 };
    struct ps_side s = { 0 };
    struct task t = { .p = &p, .nworkers = 1, .nmicro = VIRTUAL };
    struct vb_err err = { "" };
    uint32_t region = 0;
    pthread_t thread;

    need(tp_node_open(&ps, &s.node) == VB_OK && tp_node_open(&worker, &t.node) == VB_OK,
         "no nodes");
    need(tp_region_new(s.node, ps_range_at(table, 1, 0), false, &region) == VB_OK, "no region");
    need(lane_create(&(struct lane_params){ .table = table,
                                            .nworkers = 1,
                                            .node = s.node,
                                            .cls = &cls,
                                            .landing_bytes = 1 << 30 },
                     &s.lane) == VB_OK &&
             exchange_open(&(struct exchange_params){ .table = table, .cls = &cls, .node = t.node },
                           &t.x) == VB_OK,
         "no lane or exchange");
    join(&s, &t, way);
    make_data(&t, &p);
    need(task_make_exec(&t, &err) == VB_OK, err.text);
    need(pthread_create(&thread, NULL, run_lane, &s) == 0, "no thread");
    train(&t, m, table);
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    const unsigned long a = atomic_exchange(&allocations, 0), c = atomic_exchange(&copies, 0);

    printf("%s: %d steps", name, STEPS - WARM);
#ifdef VB_COUNT
    printf(", %lu allocations, %lu copies of 64 KiB or more", a, c);
#endif
    putchar('\n');

    exec_close(t.exec);
    need(tp_node_close(t.node) && tp_node_close(s.node), "a node does not close");
    exchange_close(t.x);
    lane_destroy(s.lane);
    feed_close(&t.train);
    free(t.scratch);
    return a == 0 && c == 0;
}

int main(int argc, char **argv)
{
    static const struct model_layer layers[] = { { "dense", 256 }, { "relu", 0 },
                                                 { "dense", 128 }, { "relu", 0 },
                                                 { "dense", 10 },  { "softmax_cross_entropy", 0 } };
    struct model m;
    struct ps_table table;
    struct vb_err err;
    uint32_t bad = 0;

    need(model_build(layers, VB_ARRAY_LEN(layers),
                     &(struct model_input){ .rank = 1, .dim = { FEATURES } }, &m, &bad,
                     &err) == VB_OK,
         "no model");
    struct ps_var *var = model_vars(&m);

    need(ps_table_make(&(struct ps_table_params){ .var = var, .nvars = m.nvars, .nps = 1 }, &table,
                       &err) == VB_OK,
         "no table");
#ifdef VB_COUNT
    need(counters_count(), "the counters do not count");
#endif
    const bool map = run(TP_MAP, "map", &m, &table),
               ucx = argc > 1 || run(TP_TCP, "tcp", &m, &table);

    free(var);
    ps_table_fini(&table);
    model_fini(&m);
    return map && ucx ? 0 : 1;
}
