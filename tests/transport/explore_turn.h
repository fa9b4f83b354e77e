/*
 * explore_turn.h - the model of ucx_turn.c: its variables, UCX, and the functions that take the turn. What
 * threads do otherwise is in explore_turn.c.
 *
 * A thread's place is `pc` and, inside one of those functions, `call`. Steps that touch nothing shared are
 * part of the one before. A fence empties the thread's buffer of stores, an exchange too; a load sees the
 * own buffer first.
 */
#ifndef TESTS_TRANSPORT_EXPLORE_TURN_H
#define TESTS_TRANSPORT_EXPLORE_TURN_H

#include "explore.h"

#include <assert.h>

enum { PORTS_MAX = 2, COMM = PORTS_MAX, NTHREADS, BUFFER = 3 };

/* UCX's descriptor, of one of three kinds:
 *   LEVEL   a socket: readable as long as there is an event
 *   SIGNAL  an event of UCX's own: readable until it is armed, which then says no
 *   CQ      a completion queue: readable by the first event after it was armed, until it is armed again,
 *           which then says no */
enum { LEVEL, SIGNAL, CQ };
enum { NOBODY = 0, OFF = 1 }; /* of DRIVER, as in the code */

enum var {
    PENDING,
    TURN,
    WANTED,
    DRIVER,
    WATCHED,
    OFFS,
    GATE_OPEN,
    ATTENTION,
    RING, /* of each port: there is something */
    ARMED = RING + PORTS_MAX,
    NVARS = ARMED + NTHREADS
};

/* pc of a port: tp_wait, wait_once and sleep_armed; and of the communication thread: loop */
enum { IDLE, SEND, ARM, DRIVE, DRIVES, TAKE, WATCH, SLEEP, SLEEP_FD, LEAVE, LEAVES };
enum { OFF_SET = LEAVES + 1, OFF_SEEN, OFF_POST };
enum { C_LOOK = OFF_POST + 1, C_DRIVEN, C_GATE, C_TURN, C_ARM, C_WATCHES, C_WATCHES_AGAIN };
enum { C_REST_GATE = C_WATCHES_AGAIN + 1, C_REST, C_DOZE, C_SLEEP };

/* call: ucx_turn (from PENDING_SET), ucx_turn_comm, ucx_watch, ucx_may_rest (from TRY) */
enum { NO_CALL, PENDING_SET, TRY, WANT, TRY_AGAIN, GATE, ARM_UCX, CLEAR, WORK, CLEAR_LATE, TELL };
enum { GATE_LAST = TELL + 1, GIVE, WANTED_SEEN, PENDING_SEEN, RETAKE };

enum mutant {
    NONE,
    NO_FENCE_IN_GIVE,
    NO_FENCE_IN_TURN,
    NO_FENCE_IN_WANT,
    NO_FENCE_IN_LEAVE,
    NO_FENCE_IN_WATCHES,
    PENDING_LAST,
    WANTED_IGNORED,
    GATE_NOT_SET,
    GATE_NOT_ARMED,
    LEAVES_LAST,
    NO_SECOND_LOOK,
    OFF_UNSEEN,
    WATCHES_ONCE,
    REST_WITHOUT_GATE,
    REST_TRUSTS_DRIVER,
    REST_NO_PROGRESS,
    WATCH_NO_PROGRESS,
    NMUTANTS
};

struct state {
    unsigned char v[NVARS];
    struct thread {
        unsigned char pc, call, progress, busy, nheld, held[BUFFER]; /* held: 8 * var + value */
    } t[NTHREADS];
    unsigned char gate, posted, readable; /* the kernel's: epoll set, eventfds, UCX's descriptor */
    unsigned char event, notify, arrived, dirty; /* of whoever has the turn; sets of ports */
    unsigned char found, sends[PORTS_MAX], waits[PORTS_MAX]; /* the ports' */
    unsigned char timed, offs_seen;                          /* the communication thread's */
    unsigned char events, attends, inside, lost, fill;
};
static_assert(sizeof(struct state) % 8 == 0, "whole words");

static unsigned nports, way;
static enum mutant mutant;

static unsigned load(const struct state *s, unsigned i, unsigned var)
{
    for (unsigned k = s->t[i].nheld; k > 0; k--)
        if (s->t[i].held[k - 1] / 8 == var)
            return s->t[i].held[k - 1] % 8;
    return s->v[var];
}

static void drain(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    s->v[t->held[0] / 8] = t->held[0] % 8;
    memmove(&t->held[0], &t->held[1], BUFFER - 1);
    t->held[BUFFER - 1] = 0;
    t->nheld--;
}

static void fence(struct state *s, unsigned i, enum mutant without)
{
    while (s->t[i].nheld > 0 && (mutant == NONE || mutant != without))
        drain(s, i);
}

static void store(struct state *s, unsigned i, unsigned var, unsigned value)
{
    struct thread *t = &s->t[i];

    if (t->nheld == BUFFER)
        drain(s, i);
    t->held[t->nheld++] = (unsigned char)(8 * var + value);
}

static void post(struct state *s, unsigned i, unsigned to)
{
    fence(s, i, NONE);
    s->posted |= (unsigned char)(s->v[ARMED + to] << to);
}

static bool take(struct state *s, unsigned i)
{
    if (load(s, i, TURN) != 0)
        return false;
    fence(s, i, NONE); /* an exchange */
    s->v[TURN] = 1;
    s->lost |= s->inside++ > 0;
    return true;
}

/* Will it wait, or does it? Only then does it matter what has arrived for it. */
static bool waits(const struct state *s, unsigned p)
{
    return s->waits[p] > 0 || s->t[p].pc > SEND;
}

static bool progress(struct state *s)
{
    const bool any = s->event != 0;

    for (unsigned p = 0; p < nports; p++)
        if ((s->event >> p & 1) != 0 && waits(s, p)) {
            s->arrived |= (unsigned char)(1u << p);
            s->dirty |= (unsigned char)(1u << p);
        }
    s->event = 0;
    if (way == LEVEL)
        s->readable = 0;
    return any;
}

static bool arm(struct state *s)
{
    if (way == LEVEL)
        return true;
    if (s->readable) {
        s->readable = 0;
        return false;
    }
    s->notify = way == CQ;
    return way != CQ || !progress(s);
}

static void gate_set(struct state *s, unsigned i)
{
    const bool open = load(s, i, DRIVER) == NOBODY;

    if (open == load(s, i, GATE_OPEN))
        return;
    s->gate = open;
    store(s, i, GATE_OPEN, open);
    fence(s, i, NO_FENCE_IN_GIVE);
    if (open && way == CQ && mutant != GATE_NOT_ARMED && !arm(s))
        post(s, i, COMM);
}

static void work(struct state *s, struct thread *t)
{
    if (t->progress)
        t->busy |= progress(s);
    for (unsigned p = 0; p < nports; p++) {
        t->busy |= s->v[RING + p];
        s->v[RING + p] = 0;
    }
    if (t->pc == SEND || t->pc == LEAVES || (t->pc == DRIVES && way == CQ))
        t->busy = 0; /* nobody asks */
}

static void goes(struct thread *t, unsigned pc, unsigned call)
{
    t->pc = (unsigned char)pc;
    t->call = (unsigned char)call;
    t->progress = pc == DRIVES;
    t->busy = 0;
}

/* The wait of a port is over. */
static void computes(struct state *s, unsigned i)
{
    const unsigned char keep = (unsigned char)~(1u << i);

    goes(&s->t[i], IDLE, NO_CALL);
    if (waits(s, i))
        return;
    s->arrived &= keep;
    s->posted &= keep;
    s->found &= keep;
}

static void disarm(struct state *s, unsigned i, unsigned pc)
{
    store(s, i, ARMED + i, 0);
    fence(s, i, NONE);
    goes(&s->t[i], pc, NO_CALL);
}

/* The end of a round in loop. */
static void comm_again(struct state *s)
{
    s->timed = 0;
    s->posted &= (unsigned char)~(1u << COMM);
    disarm(s, COMM, C_LOOK);
}

/* ucx_turn_comm is over. */
static void comm_turned(struct state *s, bool busy)
{
    const bool second = load(s, COMM, ARMED + COMM) != 0;

    if (busy && second)
        comm_again(s);
    else if (busy || !second)
        goes(&s->t[COMM], busy ? C_LOOK : C_ARM, NO_CALL);
    else /* of two ports none is ever off */
        goes(&s->t[COMM], nports == 1 ? C_WATCHES : C_REST_GATE, NO_CALL);
}

static void returns(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];
    const bool busy = t->busy != 0;

    if (t->pc == C_TURN)
        comm_turned(s, busy);
    else if (t->pc == C_REST)
        busy ? comm_again(s) : goes(t, C_SLEEP, NO_CALL);
    else if (t->pc == WATCH)
        busy ? disarm(s, i, DRIVE) : goes(t, SLEEP_FD, NO_CALL);
    else if (t->pc == DRIVES) {
        s->found |= (unsigned char)((way != CQ && busy) << i);
        goes(t, TAKE, NO_CALL);
    } else {
        if (t->pc == LEAVES && mutant == LEAVES_LAST)
            store(s, i, DRIVER, NOBODY);
        computes(s, i);
    }
}

/* From the flag `turn` to what the function does first with it. */
static void try(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    if (take(s, i)) {
        t->call =
            t->pc == WATCH || (t->pc == C_REST && mutant == REST_WITHOUT_GATE) ? ARM_UCX : GATE;
    } else if (i == COMM && t->call == TRY) {
        t->call = WANT;
    } else if (t->pc == C_REST) {
        goes(t, C_DOZE, NO_CALL);
    } else {
        t->busy = t->pc == WATCH;
        returns(s, i);
    }
}

/* Before a sleep. */
static void arm_ucx(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    t->busy = !arm(s);
    t->progress = t->busy && mutant != (i == COMM ? REST_NO_PROGRESS : WATCH_NO_PROGRESS);
    t->call = t->busy ? CLEAR : GATE_LAST;
}

/* The steps of work. */
static void work_step(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    switch (t->call) {
    case CLEAR:
        if (t->pc == C_TURN)
            t->progress = load(s, i, DRIVER) == NOBODY;
        fence(s, i, NONE); /* an exchange */
        if (mutant != PENDING_LAST)
            s->v[PENDING] = 0;
        t->call = WORK;
        return;
    case WORK:
        work(s, t);
        if (i == COMM || t->pc == WATCH)
            t->progress = 0;
        t->call = mutant == PENDING_LAST ? CLEAR_LATE : s->dirty != 0 ? TELL : GATE_LAST;
        return;
    case CLEAR_LATE:
        s->v[PENDING] = 0;
        t->call = TELL;
        return;
    default:
        for (unsigned p = 0; p < nports; p++)
            if (s->dirty >> p & 1)
                post(s, i, p);
        s->dirty = 0;
        t->call = GATE_LAST;
    }
}

/* The steps of give. */
static void give_step(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    switch (t->call++) {
    case GATE_LAST:
        if (mutant != GATE_NOT_SET)
            gate_set(s, i);
        return;
    case GIVE:
        store(s, i, TURN, 0);
        s->inside--;
        fence(s, i, NO_FENCE_IN_GIVE);
        return;
    case WANTED_SEEN:
        if (load(s, i, WANTED) == 0 || mutant == WANTED_IGNORED)
            return;
        fence(s, i, NONE); /* an exchange */
        s->v[WANTED] = 0;
        post(s, i, COMM);
        return;
    case PENDING_SEEN:
        if (load(s, i, PENDING) == 0)
            returns(s, i);
        return;
    default: /* RETAKE */
        if (take(s, i))
            t->call = CLEAR;
        else
            returns(s, i);
    }
}

static void call_step(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];

    switch (t->call) {
    case PENDING_SET:
        store(s, i, PENDING, 1);
        fence(s, i, NO_FENCE_IN_TURN);
        t->call = TRY;
        return;
    case WANT:
        store(s, i, WANTED, 1);
        fence(s, i, NO_FENCE_IN_WANT);
        t->call = TRY_AGAIN;
        return;
    case TRY:
    case TRY_AGAIN:
        try(s, i);
        return;
    case GATE:
        gate_set(s, i);
        if (t->pc == C_REST) {
            t->call = load(s, i, GATE_OPEN) != 0 ? ARM_UCX : GATE_LAST;
            return;
        }
        if (i == COMM) { /* ucx_control */
            t->busy = s->v[ATTENTION];
            s->v[ATTENTION] = 0;
        }
        t->call = CLEAR;
        return;
    case ARM_UCX:
        arm_ucx(s, i);
        return;
    default:
        t->call >= GATE_LAST ? give_step(s, i) : work_step(s, i);
    }
}

#endif
