/*
 * Witness test: the parameters of a row are the set of updates that have been applied to it, one slot for
 * each (worker, clock), so that every answered read can be asked what it has seen:
 *   pre-window    all updates of clocks < c - s of those that live
 *   own writes    all of the reader's updates of clocks < c
 *   upper bound   none that has not been sent
 *   exactly once  none twice
 *   prefix        of each worker, none before all that it sent earlier
 * Shards, each an engine with rows, and workers run under a scheduler that follows a seed: messages of a
 * worker overtake each other, some come twice, workers are fast and slow, some die or end early.
 * Arguments: reads in all (default: 10^4 for each point of the grid, with VB_LONG 10^6), seed.
 */
#include "ps/engine.h"

#include "base/random.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 8, SHARDS = 4, ROWS = 2, RING = 64, MSGS = 64, ACTIONS = 48, EPISODE = 4000 };

struct slots {                    /* of one worker in one row; a clock's slot is clock % RING */
    uint64_t base;                /* clocks below are in for good: once, or skipped */
    uint8_t sent[RING], in[RING]; /* how often */
};

struct msg {
    struct ps_event ev;
    uint32_t shard;
};

struct worker {
    bool runs, live, ended;
    uint64_t clock, last; /* works at; ends there */
    uint32_t weight, nmsgs;
    uint64_t may[SHARDS][ROWS], asked[SHARDS][ROWS]; /* clock + 1 */
    bool done[SHARDS][ROWS];
    uint64_t count[SHARDS];
    struct msg msg[MSGS]; /* under way */
};

static struct point {
    uint32_t s, nworkers, nshards;
} at;

static struct {
    struct worker worker[WORKERS];
    struct slots slots[SHARDS][ROWS][WORKERS];
    struct ps_engine *engine[SHARDS];
    uint64_t memory[SHARDS][1024];
    uint64_t seed, random, reads, violations;
    bool reached;      /* a read was as far behind as it may */
    const char *first; /* violation */
} run;

#ifdef TESTS_PS_MUTANTS_H
enum ps_mutant ps_mutant;
#endif

static uint64_t draw(uint64_t n)
{
    return vb_random_u64(run.seed, 1, run.random++) % n;
}

static void violation(const char *what)
{
    run.violations++;
    if (run.first == NULL)
        run.first = what;
}

/* ---- what a read has seen ---- */

static void close_slots(struct slots *s, const struct worker *w)
{
    for (;; s->base++) {
        const uint32_t i = s->base % RING;

        if (s->base >= w->clock || s->in[i] < s->sent[i])
            return;
        s->in[i] = s->sent[i] = 0;
    }
}

static void check_read(uint32_t shard, uint32_t row, uint32_t reader, uint64_t clock)
{
    run.reads++;
    for (uint32_t v = 0; v < at.nworkers; v++) {
        const struct worker *w = &run.worker[v];
        struct slots *s = &run.slots[shard][row][v];
        bool gap = false;

        close_slots(s, w);
        for (uint64_t t = s->base; t <= w->clock; t++) {
            const uint8_t sent = s->sent[t % RING], in = s->in[t % RING];
            const bool open = in == 0 && (sent != 0 || (w->runs && w->clock <= t));

            if (open && w->live && t + at.s < clock)
                violation("pre-window");
            if (open && v == reader && t < clock)
                violation("own writes");
            if (in > sent)
                violation(sent == 0 ? "upper bound" : "exactly once");
            if (in > 0 && gap)
                violation("prefix");
            gap |= sent > 0 && in == 0;
        }
    }
}

static void applied(uint32_t shard, uint32_t row, uint32_t v, uint64_t clock)
{
    struct slots *s = &run.slots[shard][row][v];

    if (clock < s->base)
        violation("exactly once");
    else if (clock > run.worker[v].clock)
        violation("upper bound");
    else
        s->in[clock % RING]++;
}

static void look_at(uint32_t shard, const struct ps_action *a)
{
    for (uint32_t v = 0; v < at.nworkers; v++) {
        struct worker *w = &run.worker[v];

        if (a->kind == PS_ACT_APPLY && ps_engine_has(run.engine[shard], a->chunk, v))
            applied(shard, a->chunk, v, a->clock);
        if (a->kind != PS_ACT_PUBLISH || (a->worker != PS_ALL && a->worker != v) || !w->live ||
            !ps_engine_live(run.engine[shard], v))
            continue;
        if (a->behind > at.s)
            violation("staleness");
        run.reached |= a->behind == at.s;
        check_read(shard, a->chunk, v, a->clock);
        w->may[shard][a->chunk] = VB_MAX(w->may[shard][a->chunk], a->clock + 1);
    }
}

static void feed(uint32_t shard, const struct ps_event *ev)
{
    struct ps_action a[ACTIONS];
    size_t n = 0;

    if (ps_engine_step(run.engine[shard], ev, a, &n) != VB_OK)
        violation("an honest message was refused");
    for (size_t i = 0; i < n; i++)
        look_at(shard, &a[i]);
}

/* ---- the scheduler ---- */

static void send(struct worker *w, uint32_t shard, struct ps_event ev)
{
    ev.worker = (uint32_t)(w - run.worker);
    w->msg[w->nmsgs++] = (struct msg){ .ev = ev, .shard = shard };
}

static bool deliver(struct worker *w)
{
    if (w->nmsgs == 0)
        return false;
    /* mostly one of the oldest, so that none is late for ever */
    const uint32_t i = (uint32_t)draw(draw(4) != 0 ? VB_MIN(w->nmsgs, 3u) : w->nmsgs);
    const struct msg m = w->msg[i];

    if (w->nmsgs > MSGS / 2 || draw(8) != 0) { /* else it comes again */
        w->nmsgs--;
        memmove(&w->msg[i], &w->msg[i + 1], (w->nmsgs - i) * sizeof(m));
    }
    feed(m.shard, &m.ev);
    return true;
}

static void next_clock(struct worker *w)
{
    for (uint32_t i = 0; i < at.nshards; i++) {
        send(w, i,
             (struct ps_event){ .kind = PS_EV_TICK, .clock = w->clock, .count = w->count[i] });
        memset(w->done[i], 0, sizeof(w->done[i]));
    }
    w->clock++;
    if (w->clock < w->last)
        return;
    w->runs = false;
    for (uint32_t i = 0; i < at.nshards; i++)
        send(w, i,
             (struct ps_event){
                 .kind = PS_EV_FINISHED, .clock = w->clock - 1, .count = w->count[i] });
}

/* Pushes or skips a row, or asks for it. False: that row has to wait. */
static bool work_on(struct worker *w, uint32_t shard, uint32_t row)
{
    struct ps_event ev = { .kind = PS_EV_PUSH, .chunk = row, .clock = w->clock, .samples = 1 };
    struct slots *s = &run.slots[shard][row][w - run.worker];

    if (w->done[shard][row])
        return false;
    if (at.s > 0 && draw(8) == 0) {
        w->done[shard][row] = true;
        return true;
    }
    if (w->may[shard][row] == w->clock + 1) {
        w->done[shard][row] = true;
        w->asked[shard][row] = w->clock + 2;
        w->count[shard]++;
        s->sent[w->clock % RING]++;
        send(w, shard, ev);
        if (draw(4) == 0) { /* it is implied, and may be asked for as well */
            ev.kind = PS_EV_READ;
            ev.clock++;
            send(w, shard, ev);
        }
        return true;
    }
    if (w->asked[shard][row] > w->clock)
        return false;
    w->asked[shard][row] = w->clock + 1;
    ev.kind = PS_EV_READ;
    send(w, shard, ev);
    return true;
}

static bool act(struct worker *w)
{
    const uint32_t n = at.nshards * ROWS, from = (uint32_t)draw(n);
    bool all = true;

    if (!w->runs || w->nmsgs > MSGS - 2 * SHARDS - 2)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = (from + i) % n;

        if (work_on(w, j / ROWS, j % ROWS))
            return true;
        all &= w->done[j / ROWS][j % ROWS];
    }
    if (all)
        next_clock(w);
    return all;
}

static void die(struct worker *w)
{
    const struct ps_event ev = { .kind = PS_EV_LOST, .worker = (uint32_t)(w - run.worker) };

    w->runs = w->live = false;
    for (uint32_t i = 0; i < at.nshards; i++)
        feed(i, &ev);
}

static bool anybody(void)
{
    for (uint32_t v = 0; v < at.nworkers; v++)
        if (deliver(&run.worker[v]) || act(&run.worker[v]))
            return true;
    return false;
}

static bool runs(void)
{
    for (uint32_t v = 0; v < at.nworkers; v++)
        if (run.worker[v].runs)
            return true;
    return false;
}

static void start(void)
{
    const struct ps_engine_params p = { .nworkers = at.nworkers,
                                        .nchunks = ROWS,
                                        .mode = PS_SSP,
                                        .staleness_lo = at.s,
                                        .staleness_hi = at.s };

    memset(run.worker, 0, sizeof(run.worker));
    memset(run.slots, 0, sizeof(run.slots));
    if (ps_engine_bytes(&p) > sizeof(run.memory[0]) || ps_engine_max_actions(&p) > ACTIONS)
        abort();
    for (uint32_t v = 0; v < at.nworkers; v++)
        run.worker[v] = (struct worker){ .runs = true,
                                         .live = true,
                                         .last = 20 + draw(EPISODE / (at.nshards * ROWS)),
                                         .weight = 1 + (uint32_t)draw(16) };
    for (uint32_t i = 0; i < at.nshards; i++) {
        run.engine[i] = ps_engine_init(run.memory[i], &p);
        for (uint32_t v = 0; v < at.nworkers; v++)
            feed(i, &(struct ps_event){ .kind = PS_EV_JOINED, .worker = v });
        for (uint32_t k = 0; k < ROWS; k++)
            feed(i, &(struct ps_event){ .kind = PS_EV_INIT, .chunk = k });
    }
}

/* One life of the cluster, or until so many reads. */
static void episode(uint64_t reads)
{
    start();
    while (run.reads < reads && run.violations < 100 && runs()) {
        struct worker *w = &run.worker[draw(at.nworkers)];

        if (draw(16) >= w->weight)
            continue; /* a slow one */
        if (w->live && at.nworkers > 1 && draw(20000) == 0) {
            die(w);
            continue;
        }
        if (draw(2) == 0 ? deliver(w) || act(w) : act(w) || deliver(w))
            continue;
        if (!anybody()) {
            violation("it stands still");
            return;
        }
    }
}

static void grid_point(uint64_t reads)
{
    const uint64_t until = run.reads + reads;

    for (run.seed++, run.random = 0; run.reads < until && run.violations == 0; run.seed++)
        episode(until);
}

static bool grid(uint64_t reads)
{
    static const uint32_t bounds[] = { 0, 1, 2, 3, 7 };

    for (uint32_t i = 0; i < VB_ARRAY_LEN(bounds); i++) {
        run.reached = false;
        for (at.nworkers = 1; at.nworkers <= WORKERS; at.nworkers++)
            for (at.nshards = 1; at.nshards <= SHARDS; at.nshards++) {
                at.s = bounds[i];
                grid_point(reads);
                if (run.violations > 0) {
                    printf("s = %u, %u workers, %u shards, seed %" PRIu64 ": %s\n", at.s,
                           at.nworkers, at.nshards, run.seed - 1, run.first);
                    return false;
                }
            }
        if (!run.reached) {
            printf("s = %u: no read was ever that far behind\n", bounds[i]);
            return false;
        }
    }
    return true;
}

#ifdef TESTS_PS_MUTANTS_H
int main(void)
{
    static const enum ps_mutant wrong[] = { WINDOW_WIDE,   RELEASE_EQUAL, NOT_OWN,    TWICE,
                                            NOBODY_COUNTS, GONE_COUNT,    LATER_COUNT };
    bool all = true;

    for (uint32_t i = 0; i < VB_ARRAY_LEN(wrong); i++) {
        run.violations = run.reads = run.seed = 0;
        run.first = NULL;
        ps_mutant = wrong[i];
        printf("%s: ", mutant_name[wrong[i]]);
        if (grid(10000)) {
            printf("SURVIVES\n");
            all = false;
        }
    }
    return all ? 0 : 1;
}
#else
int main(int argc, char **argv)
{
    const uint64_t points = UINT64_C(5) * WORKERS * SHARDS;
    uint64_t each = getenv("VB_LONG") != NULL ? 1000000 : 10000;

    if (argc > 1)
        each = (strtoull(argv[1], NULL, 10) + points - 1) / points;
    if (argc > 2)
        run.seed = strtoull(argv[2], NULL, 10);
    const bool ok = grid(each);

    printf("%" PRIu64 " reads checked, %" PRIu64 " violations\n", run.reads, run.violations);
    return ok ? 0 : 1;
}
#endif
