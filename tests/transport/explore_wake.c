/*
 * Every interleaving of a waiter and one to three posters, on processors that hold stores back in a
 * buffer (TSO). Lost is a wake-up when the waiter sleeps, nobody else will move again, and there is
 * work that it has not seen.
 *
 * The steps are those of the code; argv[1], the source folder: main looks whether they still stand
 * there in this order.
 *   waiter: wait_once in tp_port.c            poster: a send or tp_wake, then wake_post in wake.c
 *     LOOK      progress and take_nudge,        PUBLISH  the release store: a slot's number, nudged
 *               one ring after another          FENCE    full_fence
 *     ARM       wake_arm: armed = 1             PEEK     load of armed; 0: that was all
 *     FENCE     wake_arm: full_fence            WRITE    write to the eventfd
 *     LOOK2     sleep_armed: progress, watch, nudged
 *     DISARM    found: wake_disarm, return
 *     SLEEP     wake_sleep: ppoll
 *     DISARM2   wake_sleep: wake_disarm
 *     READ      wake_sleep: read of the eventfd, then from the top
 * Each mutant leaves one of them out or changes their order, and must be found out.
 */
#include "base/util.h"
#include "explore.h"

enum { POSTERS_MAX = 3, BUFFER = 3 };

enum { LOOK, ARM, FENCE, LOOK2, DISARM, SLEEP, DISARM2, READ };
enum { PUBLISH, POST_FENCE, PEEK, WRITE };

enum mutant {
    NONE,
    READ_FIRST,
    NO_WAITER_FENCE,
    NO_POSTER_FENCE,
    NO_SECOND_LOOK,
    ARM_LAST,
    PEEK_FIRST,
    EMPTIED,
    DISARM_LAST,
    NMUTANTS
};

static const struct {
    const char *what;
    bool good;
} mutants[NMUTANTS] = {
    [NONE] = { "the code", true },
    [READ_FIRST] = { "eventfd read before disarming", true },
    [NO_WAITER_FENCE] = { "no fence in the waiter", false },
    [NO_POSTER_FENCE] = { "no fence in the poster", false },
    [NO_SECOND_LOOK] = { "no second look", false },
    [ARM_LAST] = { "armed after the second look", false },
    [PEEK_FIRST] = { "armed read before the work is published", false },
    [EMPTIED] = { "eventfd emptied after the second look", false },
    [DISARM_LAST] = { "disarmed after the second look", false },
};

struct state {
    unsigned pc, at;             /* waiter; at: the ring that it looks at next */
    bool found, armed, readable; /* readable: the eventfd */
    unsigned nheld, held; /* its stores to armed that memory has not seen, the oldest lowest */
    struct poster {
        unsigned pc, sent, out, seen; /* messages stored, out of its buffer, seen by the waiter */
    } p[POSTERS_MAX];
};

static unsigned nposters, nmessages;
static enum mutant mutant;

static uint64_t pack(const struct state *s)
{
    uint64_t x = s->pc | s->at << 3 | (unsigned)s->found << 5 | (unsigned)s->armed << 6 |
                 (unsigned)s->readable << 7 | s->nheld << 8 | s->held << 10;

    for (unsigned i = 0; i < nposters; i++) {
        const struct poster *p = &s->p[i];

        x |= (uint64_t)(p->pc | p->sent << 2 | p->out << 4 | p->seen << 6) << (16 + 8 * i);
    }
    return x;
}

static struct state unpack(uint64_t x)
{
    struct state s = { .pc = x & 7,
                       .at = x >> 3 & 3,
                       .found = x >> 5 & 1,
                       .armed = x >> 6 & 1,
                       .readable = x >> 7 & 1,
                       .nheld = x >> 8 & 3,
                       .held = x >> 10 & 7 };

    for (unsigned i = 0; i < nposters; i++) {
        const uint64_t b = x >> (16 + 8 * i);

        s.p[i] = (struct poster){ b & 3, b >> 2 & 3, b >> 4 & 3, b >> 6 & 3 };
    }
    return s;
}

/* False: no more room. */
static bool visit(const struct state *s)
{
    const uint64_t x = pack(s);

    return explore_visit(&x);
}

/* A store to armed goes into the buffer; false: it is full. */
static bool store_armed(struct state *s, bool value)
{
    if (s->nheld == BUFFER)
        return false;
    s->held |= (unsigned)value << s->nheld++;
    return true;
}

/* One ring, or the flag of tp_wake. True: that was the last. */
static bool look(struct state *s)
{
    struct poster *p = &s->p[s->at];

    s->found |= p->out > p->seen;
    p->seen = p->out;
    if (++s->at < nposters)
        return false;
    s->at = 0;
    return true;
}

static unsigned after_look(struct state *s)
{
    const bool found = s->found;

    s->found = false;
    return found ? LOOK : mutant == ARM_LAST ? LOOK2 : ARM;
}

static unsigned after_second_look(struct state *s)
{
    const bool found = s->found;

    s->found = false;
    if (found)
        return DISARM;
    if (mutant == ARM_LAST)
        return ARM;
    if (mutant == EMPTIED)
        s->readable = false;
    return SLEEP;
}

/* False: it cannot move. */
static bool waiter_step(struct state *s)
{
    switch (s->pc) {
    case LOOK:
        if (look(s))
            s->pc = after_look(s);
        return true;
    case ARM:
        s->pc = FENCE;
        return store_armed(s, true);
    case FENCE:
        s->pc = mutant == NO_SECOND_LOOK || mutant == ARM_LAST ? SLEEP : LOOK2;
        return s->nheld == 0 || mutant == NO_WAITER_FENCE;
    case LOOK2:
        if (look(s))
            s->pc = after_second_look(s);
        return s->pc != SLEEP || mutant != DISARM_LAST || store_armed(s, false);
    case DISARM:
        s->pc = LOOK;
        return store_armed(s, false);
    case SLEEP:
        s->pc = mutant == READ_FIRST ? READ : DISARM2;
        return s->readable;
    case DISARM2:
        s->pc = mutant == READ_FIRST ? LOOK : READ;
        return store_armed(s, false);
    default:
        s->readable = false;
        s->pc = mutant == READ_FIRST ? DISARM2 : LOOK;
        return true;
    }
}

static bool poster_step(struct state *s, struct poster *p)
{
    const unsigned first = mutant == PEEK_FIRST ? PEEK : PUBLISH;

    switch (p->pc) {
    case PUBLISH:
        if (p->sent == nmessages)
            return false;
        p->sent++;
        p->pc = POST_FENCE;
        return true;
    case POST_FENCE:
        p->pc = mutant == PEEK_FIRST ? PUBLISH : PEEK;
        return p->sent == p->out || mutant == NO_POSTER_FENCE;
    case PEEK:
        if (mutant == PEEK_FIRST && p->sent == nmessages)
            return false;
        p->pc = s->armed ? WRITE : PUBLISH;
        return true;
    default:
        s->readable = true;
        p->pc = first;
        return true;
    }
}

/* Everything that may happen next. False: no more room. */
static bool expand(const struct state *s, bool *lost)
{
    struct state t = *s;
    bool moves = false, fits = true, work = false;

    if (waiter_step(&t))
        fits &= visit(&t);
    if (s->nheld > 0) {
        t = *s;
        t.armed = t.held & 1;
        t.held >>= 1;
        t.nheld--;
        moves = true;
        fits &= visit(&t);
    }
    for (unsigned i = 0; i < nposters; i++) {
        work |= s->p[i].out > s->p[i].seen;
        t = *s;
        if (poster_step(&t, &t.p[i])) {
            moves = true;
            fits &= visit(&t);
        }
        t = *s;
        if (t.p[i].out < t.p[i].sent) {
            t.p[i].out++;
            moves = true;
            fits &= visit(&t);
        }
    }
    *lost = s->pc == SLEEP && !s->readable && !moves && work;
    return fits;
}

/* How many wake-ups are lost, of all the ways it can go; -1: too many states. */
static long explore(enum mutant m, unsigned posters, unsigned messages)
{
    struct state s = { 0 };
    long nlost = 0;

    mutant = m;
    nposters = posters;
    nmessages = messages;
    explore_begin(sizeof(uint64_t));
    for (unsigned i = 0; m == PEEK_FIRST && i < posters; i++)
        s.p[i].pc = PEEK;
    (void)visit(&s);
    for (unsigned i = 0; i < explored.n; i++) {
        uint64_t x;
        bool lost;

        memcpy(&x, explore_state(i), sizeof(x));
        s = unpack(x);
        if (!expand(&s, &lost))
            return -1;
        nlost += lost;
    }
    return nlost;
}

static bool code_is_as_modelled(const char *folder)
{
    static const char *const post[] = { "full_fence()", "->armed", "== 0", "write(", NULL };
    static const char *const arm[] = { "armed, 1", "full_fence()", NULL };
    static const char *const sleep[] = { "ppoll(", "wake_disarm(", "read(", NULL };
    static const char *const wait[] = { "progress(p,", "take_nudge(", "sleep_armed(", NULL };
    static const char *const second[] = { "wake_arm(",    "progress(p, true)", "->watch(", "nudged",
                                          "wake_disarm(", "wake_sleep(",       NULL };
    static const char *const nudge[] = { "nudged, true", "wake_post(", NULL };
    static const char *const send[] = { "word[0]", "memory_order_release", "wake_post(", NULL };

    return explore_stands(folder, "wake.c", "\nvoid wake_post(", post) &&
           explore_stands(folder, "wake.c", "\nvoid wake_arm(", arm) &&
           explore_stands(folder, "wake.c", "\nvoid wake_sleep(", sleep) &&
           explore_stands(folder, "tp_port.c", "\nstatic unsigned wait_once(", wait) &&
           explore_stands(folder, "tp_port.c", "\nstatic unsigned sleep_armed(", second) &&
           explore_stands(folder, "tp_port.c", "\nvoid tp_wake(", nudge) &&
           explore_stands(folder, "map_ring.c", "\nenum vb_st map_send(", send);
}

int main(int argc, char **argv)
{
    static const unsigned size[][2] = { { 1, 3 }, { 2, 2 }, { 3, 1 }, { 3, 2 } };
    bool ok = argc < 2 || code_is_as_modelled(argv[1]);

    for (enum mutant m = NONE; m < NMUTANTS; m++) {
        long nlost = 0;

        for (unsigned i = 0; i < VB_ARRAY_LEN(size) && nlost == 0; i++) {
            nlost = explore(m, size[i][0], size[i][1]);
            if (mutants[m].good || nlost != 0)
                printf("%s, %u posters of %u messages: %u states, %ld lost wake-ups\n",
                       mutants[m].what, size[i][0], size[i][1], explored.n, nlost);
        }
        ok &= mutants[m].good ? nlost == 0 : nlost > 0;
    }
    return ok ? 0 : 1;
}
