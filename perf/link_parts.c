#include "perf/link_parts.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "perf/bench.h"
#include "perf/raw_socket.h"
#include "perf/raw_ucx.h"
#include "perf/raw_verbs.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

enum what {
    PING = 1,
    LINES,
    UCX_PING,
    STREAM,
    SOCKETS,
    UCX_STREAM,
    UCX_PUT,
    REST,
    VERBS_PING,
    VERBS_WRITE
};

struct link_now link_now;

/* ---- a message there and back ---- */

double link_ping(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, PING, n, link_now.bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!pair_say(s, link_now.bytes) || !pair_await(s, s->received + 1))
            return -1;
    return (bench_now_s() - begun) / 2;
}

static void pong(struct pair *s, const struct pair_order *o)
{
    for (uint64_t i = 0; i < o->n; i++)
        if (!pair_await(s, s->received + 1) || !pair_say(s, o->bytes))
            return;
}

static void wait_line(atomic_uint *line, unsigned want)
{
    while (atomic_load_explicit(line, memory_order_acquire) != want)
        __builtin_ia32_pause();
}

double link_lines(struct pair *s, uint64_t n)
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

double link_ucx_ping(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, UCX_PING, n, link_now.bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!raw_ucx_send(s->raw, link_now.bytes, 1, 1) ||
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

double link_stream(struct pair *s, uint64_t n)
{
    static struct out out[LINK_DEEP];
    const double begun = bench_now_s();

    pair_order(s, STREAM, n, link_now.bytes);
    for (uint64_t i = 0; i < n; i++) {
        struct out *x = &out[i % link_now.window];

        while (x->busy)
            if (tp_wait(s->port, vb_now_ns() + 20 * VB_SEC) == 0)
                return -1;
        x->op.done = sent;
        x->busy = true;
        if (!pair_send(s, &x->op, link_now.bytes))
            return -1;
    }
    return pair_await(s, s->received + 1) ? bench_now_s() - begun : -1;
}

static void stream_in(struct pair *s, const struct pair_order *o)
{
    if (pair_await(s, s->received + o->n))
        (void)pair_say(s, 0);
}

double link_sockets(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();
    char byte;

    pair_order(s, SOCKETS, n, link_now.bytes);
    if (!raw_socket_send(s->tcp, s->src, link_now.bytes, n) ||
        !raw_socket_recv(s->tcp, &byte, 1, 1))
        return -1;
    return bench_now_s() - begun;
}

static void sockets_in(struct pair *s, const struct pair_order *o)
{
    if (raw_socket_recv(s->tcp, s->dst, o->bytes, o->n))
        (void)raw_socket_send(s->tcp, s->src, 1, 1);
}

double link_ucx_stream(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, UCX_STREAM, n, link_now.bytes);
    if (!raw_ucx_send(s->raw, link_now.bytes, n, link_now.window) ||
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

    pair_order(s, UCX_PUT, n, link_now.bytes);
    if (!raw_ucx_put(s->raw, link_now.bytes, n, link_now.window))
        return -1;

    const double took = bench_now_s() - begun;

    return raw_ucx_send(s->raw, 8, 1, 1) ? took : -1;
}

static void ucx_put_in(struct pair *s, const struct pair_order *o)
{
    (void)raw_ucx_await(s->raw, raw_ucx_received(s->raw) + 1);
}

/* The better of UCX's two ways to have bytes land where they shall. Few are no proof of it: the more there
 * are, the later word counts. */
double link_ucx_best(struct pair *s, uint64_t n)
{
    static uint64_t seen;
    static bool puts;

    if (n <= seen)
        return puts ? ucx_put(s, n) : link_ucx_stream(s, n);

    const double am = link_ucx_stream(s, n), put = ucx_put(s, n);

    seen = n;
    puts = put > 0 && put < am;
    return puts ? put : am;
}

double link_copy(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++) {
        memcpy(s->dst, s->src, link_now.bytes);
        __asm__ volatile("" ::: "memory");
    }
    return bench_now_s() - begun;
}

/* ---- verbs ---- */

double link_verbs_ping(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, VERBS_PING, n, link_now.bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!raw_verbs_send(s->verbs, link_now.bytes) || !raw_verbs_recv(s->verbs))
            return -1;
    return (bench_now_s() - begun) / 2;
}

static void verbs_pong(struct pair *s, const struct pair_order *o)
{
    for (uint64_t i = 0; i < o->n; i++)
        if (!raw_verbs_recv(s->verbs) || !raw_verbs_send(s->verbs, o->bytes))
            return;
}

/* The other side has nothing to do but to be told when it is over. */
double link_verbs_write(struct pair *s, uint64_t n)
{
    const double begun = bench_now_s();

    pair_order(s, VERBS_WRITE, n, link_now.bytes);
    if (!raw_verbs_write(s->verbs, link_now.bytes, n, link_now.window))
        return -1;

    const double took = bench_now_s() - begun;

    return raw_verbs_send(s->verbs, 8) ? took : -1;
}

static void verbs_write_in(struct pair *s, const struct pair_order *o)
{
    (void)raw_verbs_recv(s->verbs);
}

/* ---- a sleeping peer ---- */

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

double link_bells(struct pair *s, uint64_t n)
{
    double took = 0;

    pair_order(s, REST, n, 0);
    for (uint64_t i = 0; i < n; i++) {
        let_it_sleep();

        const double begun = bench_now_s();

        ring(link_now.bell[0]);
        hear(link_now.bell[1]);
        took += bench_now_s() - begun;
    }
    return took / 2;
}

static void bells_back(struct pair *s, const struct pair_order *o)
{
    for (uint64_t i = 0; i < o->n; i++) {
        hear(link_now.bell[0]);
        ring(link_now.bell[1]);
    }
}

double link_sleepy_ping(struct pair *s, uint64_t n)
{
    double took = 0;

    pair_order(s, PING, n, 8);
    for (uint64_t i = 0; i < n; i++) {
        let_it_sleep();

        const double begun = bench_now_s();

        if (!pair_say(s, 8) || !pair_await(s, s->received + 1))
            return -1;
        took += bench_now_s() - begun;
    }
    return took / 2;
}

void link_serve(struct pair *s, const struct pair_order *o)
{
    static void (*const part_of[])(struct pair * s, const struct pair_order *o) = {
        [PING] = pong,
        [LINES] = lines_back,
        [UCX_PING] = ucx_pong,
        [STREAM] = stream_in,
        [SOCKETS] = sockets_in,
        [UCX_STREAM] = ucx_stream_in,
        [UCX_PUT] = ucx_put_in,
        [REST] = bells_back,
        [VERBS_PING] = verbs_pong,
        [VERBS_WRITE] = verbs_write_in,
    };

    if (o->what < VB_ARRAY_LEN(part_of) && part_of[o->what] != NULL)
        part_of[o->what](s, o);
}
