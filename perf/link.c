/*
 * Every measurement here is: n operations of ours, n of a baseline, in turn, seven rounds, medians. The
 * active side says what comes (an order), does its part and takes the time; the passive one does the other
 * part. Both keep to a processor of their own and, but for `wake`, never sleep.
 */
#include "perf/link.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "perf/netns.h"
#include "perf/raw_socket.h"
#include "perf/raw_ucx.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define ROUND_S 0.04
#define POLL_NS (100 * VB_MS) /* so long that nobody sleeps */

enum { WINDOW = 8, DEEP = 512, BASES_MAX = 2, PUT_UNKNOWN = 2 };
enum what { PING = 1, LINES, UCX_PING, STREAM, SOCKETS, UCX_STREAM, UCX_PUT, REST };

struct result {
    double value, base[BASES_MAX], spread[BASES_MAX], first;
    char way[256];
};

/* One of the things that are compared: seconds for n of them; below 0: it failed. */
typedef double part(struct pair *s, uint64_t n);

/* What the case of the moment is; both sides inherit it. */
static struct {
    uint64_t bytes;
    unsigned rounds, nbases, window;
    part *ours, *base[BASES_MAX];
} now;

/* ---- a message there and back ---- */

static double ping(struct pair *s, uint64_t n)
{
    struct tp_op op = { 0 };
    const double begun = bench_now_s();

    pair_order(s, PING, n, now.bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!pair_send(s, &op, now.bytes) || !pair_await(s, s->received + 1))
            return -1;
    return (bench_now_s() - begun) / 2;
}

static void pong(struct pair *s, const struct pair_order *o)
{
    struct tp_op op = { 0 };

    for (uint64_t i = 0; i < o->n; i++)
        if (!pair_await(s, s->received + 1) || !pair_send(s, &op, o->bytes))
            return;
}

static void wait_line(atomic_uint *line, unsigned want)
{
    while (atomic_load_explicit(line, memory_order_acquire) != want)
        __builtin_ia32_pause();
}

static double lines(struct pair *s, uint64_t n)
{
    const unsigned at = atomic_load(&s->line[0]);
    const double begun = bench_now_s();

    pair_order(s, LINES, n, at);
    for (unsigned i = 1; i <= n; i++) {
        atomic_store_explicit(&s->line[0], at + i, memory_order_release);
        wait_line(&s->line[32], at + i);
    }
    return (bench_now_s() - begun) / 2;
}

static void lines_back(struct pair *s, const struct pair_order *o)
{
    for (unsigned i = 1; i <= o->n; i++) {
        wait_line(&s->line[0], (unsigned)o->bytes + i);
        atomic_store_explicit(&s->line[32], (unsigned)o->bytes + i, memory_order_release);
    }
}

static double ucx_ping(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, UCX_PING, n, now.bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!raw_ucx_send(s->raw, now.bytes, 1, 1) ||
            !raw_ucx_await(s->raw, raw_ucx_received(s->raw) + 1))
            return -1;
    return (bench_now_s() - begun) / 2;
}

static void ucx_pong(struct pair *s, const struct pair_order *o)
{
    for (uint64_t i = 0; i < o->n; i++)
        if (!raw_ucx_await(s->raw, raw_ucx_received(s->raw) + 1) ||
            !raw_ucx_send(s->raw, o->bytes, 1, 1))
            return;
}

/* ---- a stream one way, until the last one is answered ---- */

struct out {
    struct tp_op op;
    bool busy;
};

static void sent(struct tp_op *op, enum vb_st st)
{
    container_of(op, struct out, op)->busy = false;
}

static double stream(struct pair *s, uint64_t n)
{
    static struct out out[DEEP];
    const double begun = bench_now_s();

    pair_order(s, STREAM, n, now.bytes);
    for (uint64_t i = 0; i < n; i++) {
        struct out *x = &out[i % now.window];

        while (x->busy)
            if (tp_wait(s->port, vb_now_ns() + 20 * VB_SEC) == 0)
                return -1;
        x->op.done = sent;
        x->busy = true;
        if (!pair_send(s, &x->op, now.bytes))
            return -1;
    }
    return pair_await(s, s->received + 1) ? bench_now_s() - begun : -1;
}

static void stream_in(struct pair *s, const struct pair_order *o)
{
    struct tp_op op = { 0 };

    if (pair_await(s, s->received + o->n))
        (void)pair_send(s, &op, 0);
}

static double sockets(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();
    char byte;

    pair_order(s, SOCKETS, n, now.bytes);
    if (!raw_socket_send(s->tcp, s->src, now.bytes, n) || !raw_socket_recv(s->tcp, &byte, 1, 1))
        return -1;
    return bench_now_s() - begun;
}

static void sockets_in(struct pair *s, const struct pair_order *o)
{
    if (raw_socket_recv(s->tcp, s->dst, o->bytes, o->n))
        (void)raw_socket_send(s->tcp, s->src, 1, 1);
}

static double ucx_stream(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, UCX_STREAM, n, now.bytes);
    if (!raw_ucx_send(s->raw, now.bytes, n, now.window) ||
        !raw_ucx_await(s->raw, raw_ucx_received(s->raw) + 1))
        return -1;
    return bench_now_s() - begun;
}

static void ucx_stream_in(struct pair *s, const struct pair_order *o)
{
    if (raw_ucx_await(s->raw, raw_ucx_received(s->raw) + o->n))
        (void)raw_ucx_send(s->raw, 8, 1, 1);
}

/* The passive side polls too: over TCP a put does not land by itself. */
static double ucx_put(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, UCX_PUT, n, now.bytes);
    if (!raw_ucx_put(s->raw, now.bytes, n, now.window))
        return -1;

    const double took = bench_now_s() - begun;

    return raw_ucx_send(s->raw, 8, 1, 1) ? took : -1;
}

static void ucx_put_in(struct pair *s, const struct pair_order *o)
{
    (void)raw_ucx_await(s->raw, raw_ucx_received(s->raw) + 1);
}

/* The better of UCX's two ways to have bytes land where they shall. */
static double ucx_best(struct pair *s, uint64_t n)
{
    static unsigned which = PUT_UNKNOWN;

    if (which == PUT_UNKNOWN) {
        const double am = ucx_stream(s, n), put = ucx_put(s, n);

        which = put > 0 && put < am;
    }
    return which == 1 ? ucx_put(s, n) : ucx_stream(s, n);
}

static double copy(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++) {
        memcpy(s->dst, s->src, now.bytes);
        __asm__ volatile("" ::: "memory");
    }
    return bench_now_s() - begun;
}

/* ---- a sleeping peer ---- */

static int bell[2]; /* eventfds, made before the fork */

static void ring(int fd)
{
    const uint64_t one = 1;

    if (write(fd, &one, sizeof(one)) < 0)
        log_debug("the bell is full");
}

static void hear(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    uint64_t posts;

    if (poll(&p, 1, 20000) < 1 || read(fd, &posts, sizeof(posts)) < 0)
        log_debug("the bell was not heard");
}

static void let_it_sleep(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static double bells(struct pair *s, uint64_t n)
{
    double took = 0;

    pair_order(s, REST, n, 0);
    for (uint64_t i = 0; i < n; i++) {
        let_it_sleep();

        const double begun = bench_now_s();

        ring(bell[0]);
        hear(bell[1]);
        took += bench_now_s() - begun;
    }
    return took / 2;
}

static void bells_back(struct pair *s, const struct pair_order *o)
{
    for (uint64_t i = 0; i < o->n; i++) {
        hear(bell[0]);
        ring(bell[1]);
    }
}

static double sleepy_ping(struct pair *s, uint64_t n)
{
    struct tp_op op = { 0 };
    double took = 0;

    pair_order(s, PING, n, 8);
    for (uint64_t i = 0; i < n; i++) {
        let_it_sleep();

        const double begun = bench_now_s();

        if (!pair_send(s, &op, 8) || !pair_await(s, s->received + 1))
            return -1;
        took += bench_now_s() - begun;
    }
    return took / 2;
}

/* ---- rounds ---- */

static void serve(struct pair *s, const struct pair_order *o)
{
    static void (*const part_of[])(struct pair * s, const struct pair_order *o) = {
        [PING] = pong,          [LINES] = lines_back,   [UCX_PING] = ucx_pong,
        [STREAM] = stream_in,   [SOCKETS] = sockets_in, [UCX_STREAM] = ucx_stream_in,
        [UCX_PUT] = ucx_put_in, [REST] = bells_back,
    };

    if (o->what < VB_ARRAY_LEN(part_of) && part_of[o->what] != NULL)
        part_of[o->what](s, o);
}

/* How many take about ROUND_S. */
static uint64_t enough(struct pair *s, part *f)
{
    uint64_t n = 1;
    double took = f(s, n);

    while (took >= 0 && took < ROUND_S / 4 && n < (1u << 22)) {
        n *= 4;
        took = f(s, n);
    }
    return took > 0 ? VB_MAX((uint64_t)((double)n * ROUND_S / took), (uint64_t)1) : n;
}

static bool measure(struct pair *s, void *out)
{
    struct result *r = out;
    double each[1 + BASES_MAX][BENCH_ROUNDS_MAX];
    part *const f[1 + BASES_MAX] = { now.ours, now.base[0], now.base[1] };
    uint64_t n[1 + BASES_MAX];

    r->first = f[0](s, 1);
    for (unsigned k = 0; k <= now.nbases; k++)
        n[k] = enough(s, f[k]);
    for (unsigned i = 0; i < now.rounds; i++)
        for (unsigned k = 0; k <= now.nbases; k++) {
            each[k][i] = f[k](s, n[k]) / (double)n[k];
            if (each[k][i] < 0)
                return false;
        }
    r->value = bench_median(each[0], now.rounds);
    for (unsigned k = 0; k < now.nbases; k++) {
        r->spread[k] = bench_spread(each[1 + k], now.rounds);
        r->base[k] = bench_median(each[1 + k], now.rounds);
    }
    tp_link_describe(s->link, r->way, sizeof(r->way));
    return true;
}

/* One row of the table for each baseline. */
struct row {
    const char *bench, *against[BASES_MAX];
    double goal[BASES_MAX];
    double per_s; /* 0: seconds; else that many units a second */
    const char *unit;
};

static bool run_case(const struct bench_out *o, const struct link_params *p, enum tp_way way,
                     struct pair_params pp, const struct row *row)
{
    const uint64_t bytes = now.bytes;
    struct result r = { 0 };
    char cases[512], label[96];

    pp.way = way;
    pp.host = p->host;
    now.rounds = p->rounds;
    if (!pair_run(&pp, measure, serve, &r, sizeof(r))) {
        log_error("%s of %llu bytes over %s failed", row->bench, (unsigned long long)bytes,
                  tp_way_name(way));
        return false;
    }
    for (unsigned k = 0; k < VB_MAX(now.nbases, 1u); k++) {
        const bool rate = row->per_s > 0;

        snprintf(cases, sizeof(cases),
                 "\"transport\": \"%s\", \"bytes\": %llu, \"against\": \"%s\", \"netns\": %s, "
                 "\"link\": \"%s\"",
                 tp_way_name(way), (unsigned long long)bytes,
                 row->against[k] != NULL ? row->against[k] : "",
                 pp.hosts != NULL ? "true" : "false", r.way);
        snprintf(label, sizeof(label), "%s %s %llu B%s%s", row->bench, tp_way_name(way),
                 (unsigned long long)bytes, row->against[k] != NULL ? " / " : "",
                 row->against[k] != NULL ? row->against[k] : "");
        bench_print(o, &(struct bench_row){ .bench = row->bench,
                                            .cases = cases,
                                            .value = rate ? row->per_s / r.value : r.value,
                                            .unit = row->unit,
                                            .baseline = now.nbases == 0 ? -1
                                                        : rate          ? row->per_s / r.base[k]
                                                                        : r.base[k],
                                            .goal = row->goal[k],
                                            .more_is_better = rate,
                                            .noisy = r.spread[k] > 0.1,
                                            .first = r.first,
                                            .label = label,
                                            .series = tp_way_name(way),
                                            .bytes = bytes });
    }
    return true;
}

static bool usable(const struct link_params *p, enum tp_way way, const char *bench)
{
    if (!p->way[way])
        return false;
    if (way == TP_RDMA && access("/sys/class/infiniband", F_OK) != 0) {
        fprintf(stderr, "%s rdma: left out, this host has no RDMA device\n", bench);
        return false;
    }
    return true;
}

bool perf_link_lat(const struct bench_out *o, const struct link_params *p)
{
    static const uint64_t sizes[] = { 8, 64, 512, 4096 };
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const bool map = way == TP_MAP;
        const struct pair_params pp = { .bytes = 1 << 20, .spin_ns = POLL_NS, .raw = !map };
        const struct row row = { .bench = "link-lat",
                                 .against = { map ? "two cache lines" : "ucx" },
                                 .goal = { map ? 1.5 : 1.03 },
                                 .unit = "s" };

        if (!usable(p, way, row.bench))
            continue;
        for (size_t i = 0; i < (p->bytes != 0 ? 1 : VB_ARRAY_LEN(sizes)); i++) {
            now.bytes = p->bytes != 0 ? p->bytes : sizes[i];
            now.nbases = 1;
            now.ours = ping;
            now.base[0] = map ? lines : ucx_ping;
            ok &= run_case(o, p, way, pp, &row);
        }
    }
    return ok;
}

static bool bw_case(const struct bench_out *o, const struct link_params *p, enum tp_way way,
                    struct pair_params pp, uint64_t bytes)
{
    const bool map = way == TP_MAP, tcp = way == TP_TCP, large = bytes >= 1 << 20;
    const struct row row = { .bench = "link-bw",
                             .against = { map   ? "memcpy"
                                          : tcp ? "sockets"
                                                : "ucx",
                                          tcp ? "ucx" : NULL },
                             .goal = { !tcp    ? (large ? 0.98 : 0.92)
                                       : large ? 0.95
                                               : -1,
                                       large ? 0.98 : 0.92 },
                             .per_s = (double)bytes,
                             .unit = "B/s" };

    now.bytes = bytes;
    now.window = WINDOW;
    now.nbases = tcp ? 2 : 1;
    now.ours = stream;
    now.base[0] = map ? copy : tcp ? sockets : ucx_best;
    now.base[1] = ucx_best;
    pp.bytes = bytes;
    pp.spin_ns = POLL_NS;
    pp.raw = !map;
    pp.sockets = tcp;
    return run_case(o, p, way, pp, &row);
}

bool perf_link_bw(const struct bench_out *o, const struct link_params *p)
{
    static const uint64_t kib[] = { 64, 256, 1024, 4096, 16384, 65536 };
    struct netns ns = { 0 };
    struct pair_params pp = { 0 };
    bool ok = true;

    if (p->netns) {
        if (!netns_make(&ns))
            return false;
        pp.netns[0] = ns.fd[0];
        pp.netns[1] = ns.fd[1];
        pp.hosts = NETNS_PASSIVE;
    }
    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        if ((p->netns && way != TP_TCP) || !usable(p, way, "link-bw"))
            continue;
        if (p->bytes != 0)
            ok &= bw_case(o, p, way, pp, p->bytes);
        for (size_t i = 0; p->bytes == 0 && i < VB_ARRAY_LEN(kib); i++)
            ok &= bw_case(o, p, way, pp, kib[i] << 10);
    }
    netns_drop(&ns);
    return ok;
}

bool perf_link_rate(const struct bench_out *o, const struct link_params *p)
{
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const bool map = way == TP_MAP;
        const struct pair_params pp = { .bytes = 1 << 20, .spin_ns = POLL_NS, .raw = !map };
        const struct row row = { .bench = "link-rate",
                                 .against = { map ? NULL : "ucx" },
                                 .goal = { map ? -1 : 0.80 },
                                 .per_s = 1,
                                 .unit = "1/s" };

        if (!usable(p, way, row.bench))
            continue;
        now.bytes = p->bytes != 0 ? p->bytes : 8;
        now.window = DEEP;
        now.nbases = map ? 0 : 1;
        now.ours = stream;
        now.base[0] = ucx_stream;
        ok &= run_case(o, p, way, pp, &row);
    }
    return ok;
}

bool perf_wake(const struct bench_out *o, const struct link_params *p)
{
    bool ok = true;

    for (enum tp_way way = TP_MAP; way < TP_LOOP; way++) {
        const struct pair_params pp = { .bytes = 1 << 20 };
        const struct row row = { .bench = "wake",
                                 .against = { "eventfd" },
                                 .goal = { way == TP_MAP ? 1.10 : -1 },
                                 .unit = "s" };

        if (!usable(p, way, row.bench))
            continue;
        bell[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        bell[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        now.bytes = 8;
        now.nbases = 1;
        now.ours = sleepy_ping;
        now.base[0] = bells;
        ok &= run_case(o, p, way, pp, &row);
        close(bell[0]);
        close(bell[1]);
    }
    return ok;
}
