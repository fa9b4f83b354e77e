/*
 * Every interleaving of the protocol of ucx_turn.c, on processors that hold stores back in a buffer (TSO):
 * one or two ports that send, wait and leave, the communication thread, and UCX, whose events come at any
 * moment. Lost is a state in which nobody will move again while something lies in a ring, UCX has an event
 * that nobody has progressed, a port sleeps over what has arrived for it, or the communication thread over
 * `attention`. Nor may two ever be inside the turn. Waking itself is explore_wake's: here a post, and the
 * end of a sleep, are one step.
 *
 * Left out: setting up and stopping, the end of UCX (`broken`), what is due at a certain time.
 * argv[1], the source folder: main looks whether the steps still stand there in this order.
 */
#include "explore_turn.h"

#include "base/util.h"

#include <stdlib.h>

struct size {
    unsigned ports, sends[PORTS_MAX], waits[PORTS_MAX], events, attends;
};

enum { WAITS, ATTENDS, ASLEEP, BOTH, CROWD, NSIZES };
static const struct size sizes[NSIZES] = {
    [WAITS] = { 1, { 0, 0 }, { 2, 0 }, 2, 0 },  [ATTENDS] = { 1, { 1, 0 }, { 1, 0 }, 1, 1 },
    [ASLEEP] = { 2, { 0, 0 }, { 1, 0 }, 2, 0 }, [BOTH] = { 2, { 0, 0 }, { 1, 1 }, 1, 0 },
    [CROWD] = { 2, { 0, 1 }, { 1, 0 }, 2, 0 },
};

/* Where each is found out. */
static const struct {
    const char *what;
    unsigned size, way;
} mutants[NMUTANTS] = {
    [NO_FENCE_IN_GIVE] = { "no fence in give", WAITS, LEVEL },
    [NO_FENCE_IN_TURN] = { "no fence in ucx_turn", WAITS, LEVEL },
    [NO_FENCE_IN_WANT] = { "no fence in take_or_want", WAITS, CQ },
    [NO_FENCE_IN_LEAVE] = { "no fence in ucx_leave", WAITS, LEVEL },
    [NO_FENCE_IN_WATCHES] = { "no fence in watches", WAITS, LEVEL },
    [PENDING_LAST] = { "pending cleared after the work", ATTENDS, LEVEL },
    [WANTED_IGNORED] = { "wanted not looked at", WAITS, CQ },
    [GATE_NOT_SET] = { "gate not set before letting go", WAITS, LEVEL },
    [GATE_NOT_ARMED] = { "gate opened without arming", WAITS, CQ },
    [LEAVES_LAST] = { "driver cleared after the turn", WAITS, LEVEL },
    [NO_SECOND_LOOK] = { "no second look of the communication thread", ATTENDS, LEVEL },
    [OFF_UNSEEN] = { "off without looking at watched", WAITS, LEVEL },
    [WATCHES_ONCE] = { "watches without its second look", WAITS, LEVEL },
    [REST_TRUSTS_DRIVER] = { "rest while there is a driver but the gate is open", CROWD, CQ },
    [REST_WITHOUT_GATE] = { "rest arms what a driver sleeps on", ASLEEP, CQ },
    [REST_NO_PROGRESS] = { "no progress where rest could not arm", WAITS, SIGNAL },
    [WATCH_NO_PROGRESS] = { "no progress where ucx_watch could not arm", WAITS, SIGNAL },
};

static bool idle(struct state *s, unsigned i, unsigned choice)
{
    struct thread *t = &s->t[i];

    if (choice == 0 && s->sends[i] > 0) {
        s->sends[i]--;
        store(s, i, RING + i, 1);
        fence(s, i, NO_FENCE_IN_TURN);
        goes(t, SEND, PENDING_SET);
    } else if (choice == 1 && s->waits[i] > 0) {
        s->waits[i]--;
        goes(t, ARM, NO_CALL);
    } else {
        return false;
    }
    return true;
}

/* drives */
static void drive(struct state *s, unsigned i)
{
    const unsigned me = 2 * (i + 1), is = load(s, i, DRIVER);

    if (is != me && is != (me | OFF) && is != NOBODY) {
        goes(&s->t[i], TAKE, NO_CALL);
        return;
    }
    if (is != me) {
        fence(s, i, NONE); /* an exchange */
        s->v[DRIVER] = (unsigned char)me;
    }
    goes(&s->t[i], DRIVES, PENDING_SET);
}

/* What has arrived; else on to sleep: sleep_armed after its progress, the first of ucx_watch. */
static void look(struct state *s, unsigned i)
{
    struct thread *t = &s->t[i];
    const bool armed = load(s, i, ARMED + i) != 0;

    if (s->arrived >> i & 1) {
        s->arrived &= (unsigned char)~(1u << i);
        armed ? disarm(s, i, LEAVE) : goes(t, LEAVE, NO_CALL);
    } else if (!armed) {
        goes(t, ARM, NO_CALL);
    } else if (load(s, i, DRIVER) != 2 * (i + 1)) {
        goes(t, SLEEP, NO_CALL);
    } else {
        s->found >> i & 1 ? goes(t, SLEEP_FD, NO_CALL) : goes(t, WATCH, TRY);
        s->found &= (unsigned char)~(1u << i);
    }
}

/* ucx_leave */
static bool leave(struct state *s, unsigned i, unsigned choice)
{
    struct thread *t = &s->t[i];

    if (load(s, i, DRIVER) != 2 * (i + 1)) {
        computes(s, i);
        return choice == 0;
    }
    if (choice == 0) {
        if (mutant != LEAVES_LAST)
            store(s, i, DRIVER, NOBODY);
        fence(s, i, NO_FENCE_IN_TURN);
        goes(t, LEAVES, PENDING_SET);
    } else {
        store(s, i, OFFS, (load(s, i, OFFS) + 1) % 8);
        fence(s, i, NO_FENCE_IN_LEAVE);
        goes(t, OFF_SET, NO_CALL);
    }
    return choice == 0 || (choice == 1 && nports == 1);
}

/* False: it cannot move, or not in this way. */
static bool port_step(struct state *s, unsigned i, unsigned choice)
{
    struct thread *t = &s->t[i];
    const bool posted = s->posted >> i & 1;

    if (t->pc == IDLE)
        return idle(s, i, choice);
    if (t->pc == LEAVE)
        return leave(s, i, choice);
    if (choice > 0)
        return false;
    switch (t->pc) {
    case ARM:
        store(s, i, ARMED + i, 1);
        fence(s, i, NONE);
        t->pc = DRIVE;
        return true;
    case DRIVE:
        drive(s, i);
        return true;
    case TAKE:
        look(s, i);
        return true;
    case SLEEP:
    case SLEEP_FD:
        if (!posted && (t->pc == SLEEP || !s->readable))
            return false;
        s->posted &= (unsigned char)~(1u << i);
        disarm(s, i, DRIVE);
        return true;
    case OFF_SET:
        store(s, i, DRIVER, 2 * (i + 1) | OFF);
        fence(s, i, NO_FENCE_IN_LEAVE);
        mutant == OFF_UNSEEN ? computes(s, i) : goes(t, OFF_SEEN, NO_CALL);
        return true;
    case OFF_SEEN:
        load(s, i, WATCHED) != 0 ? computes(s, i) : goes(t, OFF_POST, NO_CALL);
        return true;
    default: /* OFF_POST */
        post(s, i, COMM);
        computes(s, i);
        return true;
    }
}

/* watches */
static void watch(struct state *s, bool again)
{
    const unsigned offs = load(s, COMM, OFFS);

    if (!again) {
        s->timed = offs != s->offs_seen;
        s->offs_seen = (unsigned char)offs;
        store(s, COMM, WATCHED, s->timed);
        fence(s, COMM, NO_FENCE_IN_WATCHES);
    } else if (!s->timed && (load(s, COMM, DRIVER) & OFF) != 0 && mutant != WATCHES_ONCE) {
        s->timed = 1;
        store(s, COMM, WATCHED, 1);
    }
}

static bool comm_step(struct state *s, unsigned choice)
{
    struct thread *t = &s->t[COMM];
    const bool driven = load(s, COMM, DRIVER) != NOBODY;

    if (t->pc == C_LOOK && choice == 1) { /* look_after finds the port off for long */
        if ((load(s, COMM, DRIVER) & OFF) == 0)
            return false;
        fence(s, COMM, NONE); /* an exchange */
        s->v[DRIVER] = (s->v[DRIVER] & OFF) != 0 ? NOBODY : s->v[DRIVER];
        t->pc = C_DRIVEN;
        return true;
    }
    if (choice > 0)
        return false;
    switch (t->pc) {
    case C_LOOK:
    case C_DRIVEN:
        driven ? goes(t, C_GATE, NO_CALL) : goes(t, C_TURN, TRY);
        return true;
    case C_GATE:
        if (load(s, COMM, GATE_OPEN) == 0 && s->v[ATTENTION] == 0)
            comm_turned(s, false);
        else
            goes(t, C_TURN, TRY);
        return true;
    case C_ARM:
        store(s, COMM, ARMED + COMM, 1);
        fence(s, COMM, NONE);
        t->pc = mutant == NO_SECOND_LOOK ? C_WATCHES : C_LOOK;
        return true;
    case C_WATCHES:
    case C_WATCHES_AGAIN:
        watch(s, t->pc == C_WATCHES_AGAIN);
        t->pc += s->timed && t->pc == C_WATCHES ? 2 : 1;
        return true;
    case C_REST_GATE:
        (mutant == REST_TRUSTS_DRIVER ? driven : load(s, COMM, GATE_OPEN) == 0)
            ? goes(t, C_SLEEP, NO_CALL)
            : goes(t, C_REST, TRY);
        return true;
    case C_DOZE: /* not at the gate */
        if ((s->posted >> COMM & 1) == 0 && !s->timed)
            return false;
        comm_again(s);
        return true;
    default: /* C_SLEEP */
        if ((s->posted >> COMM & 1) == 0 && !s->timed && !(s->gate && s->readable))
            return false;
        comm_again(s);
        return true;
    }
}

static bool step(struct state *s, unsigned i, unsigned choice)
{
    if (s->t[i].call == NO_CALL)
        return i == COMM ? comm_step(s, choice) : port_step(s, i, choice);
    if (choice == 0)
        call_step(s, i);
    return choice == 0;
}

/* What comes from outside: an event for a port, or something for the communication thread to attend to. */
static bool outside(struct state *s, unsigned choice)
{
    if (choice == nports) {
        if (s->attends == 0)
            return false;
        s->attends--;
        s->v[ATTENTION] = 1;
        s->posted |= (unsigned char)(s->v[ARMED + COMM] << COMM);
        return true;
    }
    if (s->events == 0)
        return false;
    s->events--;
    s->event |= (unsigned char)(1u << choice);
    s->readable |= way != CQ || s->notify;
    s->notify = 0;
    return true;
}

/* Does something lie there that somebody should take? */
static bool lies(const struct state *s)
{
    bool any = s->event != 0 || s->v[ATTENTION] != 0;

    for (unsigned p = 0; p < nports; p++)
        any |= s->v[RING + p] != 0 || ((s->arrived >> p & 1) != 0 && s->t[p].pc != IDLE);
    return any;
}

/* All that may happen next. False: no more room. */
static bool expand(const struct state *s, bool *lost)
{
    bool fits = true, moves = false;
    struct state n;

    for (unsigned i = 0; i < NTHREADS; i++) {
        for (unsigned choice = 0; choice < 3; choice++) {
            n = *s;
            if (!step(&n, i, choice))
                continue;
            moves |= s->t[i].pc != IDLE; /* one that computes may do so for ever */
            fits &= explore_visit(&n);
        }
        n = *s;
        if (n.t[i].nheld == 0)
            continue;
        drain(&n, i);
        moves = true;
        fits &= explore_visit(&n);
    }
    for (unsigned choice = 0; choice <= nports; choice++) {
        n = *s;
        if (outside(&n, choice))
            fits &= explore_visit(&n);
    }
    *lost = s->lost || (!moves && lies(s));
    return fits;
}

/* How many states are wrong; of a mutant, only the first. -1: too many states. */
static long explore(enum mutant m, unsigned kind, const struct size *size)
{
    struct state s = { .gate = 1, .notify = kind == CQ };
    long nlost = 0;

    mutant = m;
    way = kind;
    nports = size->ports;
    s.v[GATE_OPEN] = 1;
    s.events = (unsigned char)size->events;
    s.attends = (unsigned char)size->attends;
    for (unsigned p = 0; p < PORTS_MAX; p++) {
        s.t[p].pc = IDLE;
        s.sends[p] = (unsigned char)size->sends[p];
        s.waits[p] = (unsigned char)size->waits[p];
    }
    s.t[COMM].pc = C_LOOK;
    explore_begin(sizeof(s));
    (void)explore_visit(&s);
    for (unsigned i = 0; i < explored.n && (m == NONE || nlost == 0); i++) {
        bool lost;

        memcpy(&s, explore_state(i), sizeof(s));
        if (!expand(&s, &lost))
            return -1;
        nlost += lost;
    }
    return nlost;
}

static bool code_is_as_modelled(const char *folder)
{
    static const char *const give[] = { "gate_set(",  "turn, false", "full_fence()", "->wanted",
                                        "wake_post(", "->pending",   "take(",        NULL };
    static const char *const want[] = { "take(", "wanted, true", "full_fence()", "take(", NULL };
    static const char *const gate[] = { "->gate_open",     "epoll_ctl(",
                                        "gate_open, open", "open && un->way != TP_TCP && !armed(",
                                        "wake_post(",      NULL };
    static const char *const work[] = { "pending, false", "progress_and_rings", "tell_ports(",
                                        NULL };
    static const char *const turn[] = { "pending, true",      "full_fence()", "take(", "gate_set(",
                                        "work(un, progress)", "give(",        NULL };
    static const char *const comm[] = { "look_after(",   "ucx_is_driven(",
                                        "->gate_open",   "->attention",
                                        "take_or_want(", "gate_set(",
                                        "ucx_control",   "work(un, !ucx_is_driven(",
                                        "give(",         NULL };
    static const char *const watches[] = {
        "->offs", "watched, active", "full_fence()", "->driver", "OFF", "watched, true", NULL
    };
    static const char *const rest[] = {
        "watches(",    "->gate_open", "take_or_want(",  "wake.efd", "gate_set(",
        "->gate_open", "armed(",      "work(un, true)", "give(",    "work(un, false)",
        NULL
    };
    static const char *const watch[] = { "TP_WATCH_NONE",   "->found", "found = false",  "take(",
                                         "TP_WATCH_BUSY",   "armed(",  "work(un, true)", "give(",
                                         "work(un, false)", NULL };
    static const char *const leave[] = { "driver, NOBODY", "ucx_turn(", "->offs",     "| OFF",
                                         "full_fence()",   "->watched", "wake_post(", NULL };
    static const char *const loop[] = { "ucx_turn_comm(", "wake_arm(", "ucx_turn_comm(",
                                        "ucx_may_rest(",  "poll(",     "wake_disarm(",
                                        "read(",          NULL };
    static const char *const sleep[] = { "wake_arm(",    "progress(p, true)", "->watch(",
                                         "wake_disarm(", "wake_sleep(",       NULL };
    static const struct {
        const char *file, *from, *const *step;
    } all[] = { { "ucx_turn.c", "\nstatic bool give(", give },
                { "ucx_turn.c", "\nstatic bool take_or_want(", want },
                { "ucx_turn.c", "\nstatic void gate_set(", gate },
                { "ucx_turn.c", "\nstatic bool work(", work },
                { "ucx_turn.c", "\nbool ucx_turn(", turn },
                { "ucx_turn.c", "\nbool ucx_turn_comm(", comm },
                { "ucx_turn.c", "\nstatic bool watches(", watches },
                { "ucx_turn.c", "\nbool ucx_may_rest(", rest },
                { "ucx_turn.c", "\nint ucx_watch(", watch },
                { "ucx_turn.c", "\nvoid ucx_leave(", leave },
                { "ucx_node.c", "\nstatic void loop(", loop },
                { "tp_port.c", "\nstatic unsigned sleep_armed(", sleep } };
    bool ok = true;

    for (unsigned i = 0; i < VB_ARRAY_LEN(all); i++)
        ok &= explore_stands(folder, all[i].file, all[i].from, all[i].step);
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = argc < 2 || code_is_as_modelled(argv[1]);

    for (unsigned z = 0; z < NSIZES; z++) {
        for (unsigned kind = z < BOTH ? LEVEL : CQ; kind <= CQ;
             kind++) { /* it has the most states */
            const long nwrong = explore(NONE, kind, &sizes[z]);

            printf("the code, size %u, way %u: %u states, %ld wrong\n", z, kind, explored.n,
                   nwrong);
            ok &= nwrong == 0;
        }
    }
    for (enum mutant m = NONE + 1; m < NMUTANTS; m++) {
        const long nwrong = explore(m, mutants[m].way, &sizes[mutants[m].size]);

        printf("%s: %u states, %ld wrong\n", mutants[m].what, explored.n, nwrong);
        ok &= nwrong > 0;
    }
    return ok ? 0 : 1;
}
