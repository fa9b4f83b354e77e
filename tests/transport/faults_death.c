/*
 * A peer that dies, or stops, in the middle of a stream of messages both ways. Every send that was
 * accepted ends exactly once with a status, within its deadline; then its op is freed and the node
 * closed at once. Each round has two processes of its own. VB_LONG: 200 rounds of a million messages.
 *
 * Now and then an assertion of UCX's own breaks when a peer dies; then the node cannot be closed, but the
 * sends have ended all the same. Such rounds are counted.
 *
 * The back ends need not notice the death themselves: whoever holds the control connection sees it
 * end and fails the link, as these tests do. A stopped peer is failed after a silence.
 */
#include "far.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/util.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGION = 4 << 20, BIG_REGION = 104 << 20, END_S = 10, CLOSE_S = 15, LEFT_BEHIND = 3 };

struct round {
    enum tp_way way;
    uint64_t seed;
    unsigned messages;
    uint64_t size; /* 0: many sizes */
    bool stops;    /* the victim stops instead of dying */
};

struct out {
    struct tp_op op;
    bool busy;
};

static struct far f;
static const struct round *r;
static unsigned busy, ended[2], received, dies_at;
static struct out **out; /* by number of the message */

static void on_msg(void *arg, const struct tp_rx *rx)
{
    MUST(rx->hdr_bytes == 8);
    if (++received == dies_at)
        raise(r->stops ? SIGSTOP : SIGKILL);
}

static void *place(void *arg, struct tp_link *link, const void *hdr, uint32_t hdr_bytes,
                   uint64_t payload_bytes)
{
    return payload_bytes <= f.bytes ? f.dst : NULL;
}

static void on_done(struct tp_op *op, enum vb_st st)
{
    struct out *o = container_of(op, struct out, op);
    uint64_t number;

    memcpy(&number, op->hdr, sizeof(number));
    MUST(o->busy && out[number] == o && (st == VB_OK || st == VB_UNREACHABLE));
    MUST(st == VB_OK || tp_link_failed(f.link));
    ended[st != VB_OK]++;
    busy--;
    out[number] = NULL;
    memset(o, 0xee, sizeof(*o));
    free(o);
}

static uint64_t size_of(uint64_t number)
{
    static const uint64_t sizes[] = { 0, 8, 100, 4096, 8192, 65535, 65536, 300000 };
    const uint64_t x = vb_random_u64(r->seed, 1, number);

    return r->size != 0 ? r->size : x % 64 < 8 ? sizes[x % 8] : x % 64 < 32 ? 8 : 0;
}

/* False: not now. */
static bool send_one(uint64_t number)
{
    struct out *o = calloc(1, sizeof(*o));
    const struct tp_op op = { .done = on_done, .bytes = size_of(number), .hdr_bytes = 8 };

    MUST(o != NULL);
    o->op = op;
    memcpy(o->op.hdr, &number, sizeof(number));

    const enum vb_st st = tp_send(f.port, f.link, 0, &o->op);

    MUST(st == VB_OK || st == VB_AGAIN || st == VB_UNREACHABLE);
    if (st != VB_OK) {
        free(o);
        return false;
    }
    o->busy = true;
    out[number] = o;
    busy++;
    return true;
}

static void open_end(int fd, bool victim)
{
    vb_log_init();
    alarm(120);
    out = calloc(r->messages, sizeof(*out));
    MUST(out != NULL);
    far_open(&f, victim ? "b" : "a", r->size != 0 ? BIG_REGION : REGION,
             &(struct tp_port_params){ .on_msg = on_msg, .place = place });
    far_join(&f, fd, r->way, victim == (r->seed % 2 != 0), "127.0.0.1");
}

/* Sends and receives until it dies; if nothing arrives any more, a little later. */
static int victim_main(int fd, void *arg)
{
    r = arg;
    dies_at = (unsigned)(1 + vb_random_u64(r->seed, 2, 0) % r->messages);
    open_end(fd, true);
    for (unsigned sent = 0;; tp_wait(f.port, vb_now_ns() + 10 * VB_MS)) {
        while (sent < r->messages && send_one(sent))
            sent++;
        if (far_gone(&f))
            raise(SIGKILL);
    }
    return 1;
}

static void fail_when_lost(uint64_t *heard_ns, unsigned *heard)
{
    const uint64_t now = vb_now_ns();

    if (received + ended[0] != *heard) {
        *heard = received + ended[0];
        *heard_ns = now;
    }
    if (far_gone(&f) || now - *heard_ns > VB_SEC)
        tp_link_fail(f.link);
}

static int survivor_main(int fd, void *arg)
{
    uint64_t heard_ns = vb_now_ns(), lost_ns;
    unsigned sent = 0, heard = 0;

    r = arg;
    open_end(fd, false);
    while (!tp_link_failed(f.link)) {
        while (sent < r->messages && send_one(sent))
            sent++;
        tp_wait(f.port, vb_now_ns() + VB_MS);
        fail_when_lost(&heard_ns, &heard);
    }
    lost_ns = vb_now_ns();
    while (busy > 0 && vb_now_ns() < lost_ns + END_S * VB_SEC)
        tp_wait(f.port, vb_now_ns() + VB_MS);
    MUST(busy == 0 && ended[0] + ended[1] == sent && !send_one(0));
    free(out);
    lost_ns = vb_now_ns();

    const bool rests = tp_node_close(f.node);

    MUST(vb_now_ns() < lost_ns + CLOSE_S * VB_SEC && (rests || r->way == TP_TCP));
    if (!rests)
        _exit(LEFT_BEHIND); /* what was left behind is no leak */
    return 0;
}

static unsigned left_behind;

static int round_run(const struct round *round)
{
    struct round copy = *round;
    int fd[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);

    const pid_t victim = far_start(fd[0], victim_main, &copy);

    close(fd[0]);

    const pid_t survivor = far_start(fd[1], survivor_main, &copy);

    close(fd[1]);

    const int code = far_wait(survivor);

    kill(victim, SIGKILL);
    far_wait(victim);
    if (code == LEFT_BEHIND) {
        left_behind++;
        return 0;
    }
    if (code != 0)
        printf("FAIL way %d, seed %llu, %s: %d\n", (int)copy.way, (unsigned long long)copy.seed,
               copy.stops ? "stopped" : "killed", code);
    return code != 0;
}

int main(void)
{
    static const enum tp_way ways[] = { TP_MAP, TP_TCP };
    const unsigned rounds = far_rounds(10, 200), messages = far_rounds(20000, 1000000);
    int bad = 0;

    for (unsigned w = 0; w < VB_ARRAY_LEN(ways); w++) {
        for (unsigned i = 0; i < rounds; i++)
            bad += round_run(&(struct round){ .way = ways[w], .seed = i, .messages = messages });
        for (unsigned i = 0; i < 2; i++) {
            bad += round_run(
                &(struct round){ .way = ways[w], .seed = i, .messages = 10000, .stops = true });
            bad += round_run(
                &(struct round){ .way = ways[w], .seed = i, .messages = 20, .size = 100 << 20 });
        }
    }
    printf("%d rounds went wrong, in %u UCX broke\n", bad, left_behind);
    return bad != 0 || left_behind > rounds / 5;
}
