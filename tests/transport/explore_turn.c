/*
 * Every interleaving of the protocol of ucx_turn.c, on processors that hold stores back in a buffer (TSO):
 * a port that sends, a port that waits and leaves (the driver), the communication thread, and UCX, whose
 * event may come at any moment. Lost is a state in which nobody will move again and there is a message in
 * a ring that nobody has taken to UCX, or an event of UCX that nobody has looked at; nor may two ever be
 * inside the turn.
 *
 * Each thread is a small program of the steps that the code takes, named like its functions. Left out are
 * commands and failures (`attention`), which the communication thread looks for before it sleeps, and that
 * RDMA has to be armed. Each mutant leaves one step out and must be found out.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum var { RING, TAKEN, PENDING, TURN, WANTED, DRIVER, WATCHED, OFFS, ARMED, NVARS };
enum { NOBODY = 0, DRIVES = 1, OFF = 2 }; /* of DRIVER */
enum { SENDER, PORT, COMM, NTHREADS };
enum { BUFFER = 3, STATES_MAX = 1 << 22, SLOTS = 1 << 23, SENDS = 1, EVENTS = 1, WAITS = 1 };

enum op {
    PUT,      /* a message into the ring */
    STORE,    /* a: variable, b: value */
    FENCE,    /* until the own buffer is empty */
    TRY,      /* the turn; not got: to a */
    DRIVE,    /* become the driver */
    GATE,     /* gate_set: the gate follows DRIVER */
    WORK,     /* work(); a: with UCX's progress; 2: if nobody drives */
    GIVE,     /* TURN = 0 */
    POST,     /* WANTED: wake the communication thread; a: whatever WANTED is */
    AGAIN,    /* PENDING: to a */
    DONE,     /* was anything done in this turn? to a */
    REST,     /* one of a and b, any */
    LEAVE,    /* counts a wait; the last: to a */
    SEND_END, /* counts a send; not the last: to a */
    LOOK,     /* look_after: may take DRIVER from a port that is off */
    EARLY,    /* driven and the gate is closed: to a */
    WATCH,    /* watches(), first half */
    WATCH2,   /* its second look at OFF */
    ARMED_IF, /* may_rest: driven: to a */
    SLEEP_PORT,
    SLEEP_COMM,
    SEEN_OFF, /* ucx_leave: WATCHED, else wake the communication thread */
    JUMP,
    END
};
struct step {
    enum op op;
    int a, b;
};

enum mutant {
    NONE,
    NO_FENCE_IN_GIVE,
    NO_FENCE_IN_TURN,
    PENDING_CLEARED_LAST,
    WANTED_IGNORED,
    GATE_AFTER_GIVE,
    LEFT_WITHOUT_TURN,
    OFF_UNSEEN,
    NO_SECOND_LOOK_AT_OFF,
    NMUTANTS
};
static const char *const mutant_names[NMUTANTS] = {
    [NONE] = "the code",
    [NO_FENCE_IN_GIVE] = "no fence in give",
    [NO_FENCE_IN_TURN] = "no fence in ucx_turn",
    [PENDING_CLEARED_LAST] = "pending cleared after the work",
    [WANTED_IGNORED] = "wanted not looked at",
    [GATE_AFTER_GIVE] = "the gate not set before letting go",
    [LEFT_WITHOUT_TURN] = "the driver leaves without a turn",
    [OFF_UNSEEN] = "off without looking whether it is watched",
    [NO_SECOND_LOOK_AT_OFF] = "watches without its second look",
};

/* ucx_send: the ring, then ucx_turn without progress. */
static const struct step sender[] = {
    /* 0 */ { PUT, 0, 0 },
    /* 1 */ { STORE, PENDING, 1 },
    /* 2 */ { FENCE, NO_FENCE_IN_TURN, 0 },
    /* 3 */ { TRY, 10, 0 },
    /* 4 */ { GATE, 0, 0 },
    /* 5 */ { WORK, 0, 0 },
    /* 6 */ { GATE, 0, 0 },
    /* 7 */ { GIVE, 0, 0 },
    /* 8 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 9 */ { POST, 0, 12 },
    /* 10 */ { SEND_END, 0, 0 },
    /* 11 */ { END, 0, 0 },
    /* 12 */ { AGAIN, 14, 10 },
    /* 13 */ { JUMP, 10, 0 },
    /* 14 */ { TRY, 10, 0 },
    /* 15 */ { JUMP, 5, 0 },
};
/* tp_wait: ucx_progress as the driver, ucx_watch and sleep, ucx_leave in either way. */
static const struct step port[] = {
    /* 0 */ { DRIVE, 0, 0 },
    /* 1 */ { STORE, PENDING, 1 },
    /* 2 */ { FENCE, NO_FENCE_IN_TURN, 0 },
    /* 3 */ { TRY, 12, 0 },
    /* 4 */ { GATE, 0, 0 },
    /* 5 */ { WORK, 1, 0 },
    /* 6 */ { GATE, 0, 0 },
    /* 7 */ { GIVE, 0, 0 },
    /* 8 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 9 */ { POST, 0, 10 },
    /* 10 */ { AGAIN, 11, 12 },
    /* 11 */ { TRY, 12, 5 },
    /* 12 */ { REST, 13, 15 }, /* a message was for this port, or nothing was */
    /* 13 */ { REST, 17, 29 }, /* it leaves: off for a moment, or properly */
    /* 14 */ { END, 0, 0 },
    /* 15 */ { SLEEP_PORT, 0, 0 },
    /* 16 */ { JUMP, 1, 0 },
    /* 17 */ { STORE, OFFS, 1 },
    /* 18 */ { STORE, DRIVER, OFF },
    /* 19 */ { FENCE, 0, 0 },
    /* 20 */ { SEEN_OFF, 0, 0 },
    /* 21 */ { LEAVE, 14, 0 },
    /* 22 */ { TRY, 21, 0 },
    /* 23 */ { GATE, 0, 0 },
    /* 24 */ { WORK, 0, 0 },
    /* 25 */ { GATE, 0, 0 },
    /* 26 */ { GIVE, 0, 0 },
    /* 27 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 28 */ { POST, 0, 32 },
    /* 29 */ { STORE, DRIVER, NOBODY },
    /* 30 */ { STORE, PENDING, 1 },
    /* 31 */ { FENCE, NO_FENCE_IN_TURN, 22 },
    /* 32 */ { AGAIN, 33, 21 },
    /* 33 */ { TRY, 21, 24 },
};
/* loop() of ucx_node.c: ucx_turn_comm, arm, once more, ucx_may_rest, sleep. */
static const struct step comm[] = {
    /* 0 */ { LOOK, 0, 0 },
    /* 1 */ { EARLY, 13, 0 },
    /* 2 */ { TRY, 16, 0 },
    /* 3 */ { GATE, 0, 0 },
    /* 4 */ { WORK, 2, 0 },
    /* 5 */ { GATE, 0, 0 },
    /* 6 */ { GIVE, 0, 0 },
    /* 7 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 8 */ { POST, 0, 9 },
    /* 9 */ { AGAIN, 10, 11 },
    /* 10 */ { TRY, 11, 4 },
    /* 11 */ { DONE, 12, 13 },
    /* 12 */ { JUMP, 34, 0 },
    /* 13 */ { REST, 20, 20 }, /* nothing was due: the first time arm, the second time rest */
    /* 14 */ { END, 0, 0 },
    /* 15 */ { END, 0, 0 },
    /* 16 */ { STORE, WANTED, 1 },
    /* 17 */ { FENCE, 0, 0 },
    /* 18 */ { TRY, 13, 0 },
    /* 19 */ { JUMP, 3, 0 },
    /* 20 */ { STORE, ARMED, 1 },
    /* 21 */ { FENCE, 0, 0 },
    /* 22 */ { WATCH, 0, 0 },
    /* 23 */ { FENCE, 0, 0 },
    /* 24 */ { WATCH2, 0, 0 },
    /* 25 */ { ARMED_IF, 32, 0 },
    /* 26 */ { TRY, 36, 0 },
    /* 27 */ { GATE, 0, 0 },
    /* 28 */ { GIVE, 0, 0 },
    /* 29 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 30 */ { POST, 0, 31 },
    /* 31 */ { AGAIN, 39, 32 },
    /* 32 */ { SLEEP_COMM, 0, 0 },
    /* 33 */ { JUMP, 34, 0 },
    /* 34 */ { STORE, ARMED, 0 },
    /* 35 */ { JUMP, 0, 0 },
    /* 36 */ { STORE, WANTED, 1 },
    /* 37 */ { FENCE, 0, 0 },
    /* 38 */ { TRY, 32, 27 },
    /* 39 */ { TRY, 32, 40 },
    /* 40 */ { WORK, 0, 0 },
    /* 41 */ { GATE, 0, 0 },
    /* 42 */ { GIVE, 0, 0 },
    /* 43 */ { FENCE, NO_FENCE_IN_GIVE, 0 },
    /* 44 */ { POST, 0, 45 },
    /* 45 */ { AGAIN, 39, 34 },
};
static const struct step *const program[NTHREADS] = { sender, port, comm };

struct state {
    unsigned char v[NVARS];
    unsigned char pc[NTHREADS], nheld[NTHREADS];
    struct {
        unsigned char var, value;
    } held[NTHREADS][BUFFER];
    unsigned char event, events, gate, posted; /* of the kernel: seen at once */
    unsigned char sends, waits, inside;
    unsigned char done, second, timed, offs_seen; /* the communication thread's own */
};

static struct state states[STATES_MAX];
static uint32_t slot[SLOTS];
static unsigned nstates;
static enum mutant mutant;

static bool visit(const struct state *s)
{
    const unsigned char *b = (const unsigned char *)s;
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < sizeof(*s); i++)
        h = (h ^ b[i]) * 1099511628211u;
    for (h ^= h >> 29;; h++) {
        uint32_t *at = &slot[h % SLOTS];

        if (*at != 0 && memcmp(&states[*at - 1], s, sizeof(*s)) == 0)
            return true;
        if (*at == 0 && nstates == STATES_MAX)
            return false;
        if (*at == 0) {
            states[nstates++] = *s;
            *at = nstates;
            return true;
        }
    }
}

/* What this thread sees: its own stores first. */
static unsigned load(const struct state *s, unsigned t, enum var v)
{
    for (unsigned i = s->nheld[t]; i > 0; i--)
        if (s->held[t][i - 1].var == v)
            return s->held[t][i - 1].value;
    return s->v[v];
}

static bool store(struct state *s, unsigned t, enum var v, unsigned value)
{
    if (s->nheld[t] == BUFFER)
        return false;
    s->held[t][s->nheld[t]].var = (unsigned char)v;
    s->held[t][s->nheld[t]++].value = (unsigned char)value;
    return true;
}

static void drain(struct state *s, unsigned t)
{
    s->v[s->held[t][0].var] = s->held[t][0].value;
    memmove(&s->held[t][0], &s->held[t][1], (BUFFER - 1) * sizeof(s->held[t][0]));
    memset(&s->held[t][--s->nheld[t]], 0, sizeof(s->held[t][0]));
}

/* wake_post: a fence, then the eventfd if the sleeper has armed. */
static void post(struct state *s)
{
    s->posted |= s->v[ARMED];
}

static void work(struct state *s, unsigned t, int progress)
{
    s->done |= t == COMM && s->v[RING] != s->v[TAKEN];
    s->v[TAKEN] = s->v[RING];
    if (progress == 1 || (progress == 2 && load(s, t, DRIVER) == NOBODY)) {
        s->done |= t == COMM && s->event > 0;
        s->event = 0;
    }
}

/* The steps of the communication thread alone. false: it cannot move. */
static bool comm_step(struct state *s, const struct step *x)
{
    const bool driven = load(s, COMM, DRIVER) != NOBODY;

    s->pc[COMM]++;
    switch (x->op) {
    case LOOK:
        s->done = 0;
        return true;
    case EARLY:
        if (driven && s->gate == 0)
            s->pc[COMM] = (unsigned char)x->a;
        return true;
    case DONE:
        s->pc[COMM] = (unsigned char)(s->done ? x->a : x->b);
        s->second = s->done ? 0 : s->second;
        return true;
    case WATCH:
        s->timed = load(s, COMM, OFFS) != s->offs_seen;
        s->offs_seen = (unsigned char)load(s, COMM, OFFS);
        return store(s, COMM, WATCHED, s->timed);
    case WATCH2:
        if (s->timed || load(s, COMM, DRIVER) != OFF || mutant == NO_SECOND_LOOK_AT_OFF)
            return true;
        s->timed = 1;
        return store(s, COMM, WATCHED, 1);
    case ARMED_IF:
        if (driven)
            s->pc[COMM] = (unsigned char)x->a;
        return true;
    default: /* SLEEP_COMM */
        if (s->posted == 0 && s->timed == 0 && (s->gate == 0 || s->event == 0))
            return false;
        s->posted = 0;
        s->second = 0;
        return true;
    }
}

static bool step(struct state *s, unsigned t, int choice)
{
    const struct step *x = &program[t][s->pc[t]];
    const bool settled = s->nheld[t] == 0;

    if (x->op >= DONE && t == COMM && x->op != JUMP && x->op != REST)
        return comm_step(s, x);
    switch (x->op) {
    case PUT:
        if (!store(s, t, RING, (load(s, t, RING) + 1) & 3))
            return false;
        break;
    case STORE:
        if (!store(s, t, (enum var)x->a,
                   x->a == OFFS ? (load(s, t, OFFS) + 1u) & 3 : (unsigned)x->b))
            return false;
        break;
    case FENCE:
        if (!settled && (x->a == 0 || (int)mutant != x->a))
            return false;
        s->pc[t] = (unsigned char)(x->b != 0 ? x->b : s->pc[t] + 1);
        if (t == PORT && x->b == 22 && mutant == LEFT_WITHOUT_TURN)
            s->pc[t] = 21;
        if (t == COMM && s->pc[t] == 22 && s->second == 0) {
            s->second = 1; /* armed: look at everything once more */
            s->pc[t] = 0;
        }
        return true;
    case TRY:
        if (load(s, t, TURN) != 0) { /* a plain look comes first */
            s->pc[t] = (unsigned char)x->a;
            return true;
        }
        if (!settled)
            return false; /* an exchange */
        s->v[TURN] = 1;
        s->inside++;
        s->pc[t] = (unsigned char)(x->b != 0 ? x->b : s->pc[t] + 1);
        return true;
    case DRIVE:
        if (!settled)
            return false;
        s->v[DRIVER] = DRIVES;
        break;
    case GATE:
        if (!settled)
            return false; /* a system call */
        if (mutant != GATE_AFTER_GIVE || program[t][s->pc[t] + 1].op != GIVE)
            s->gate = s->v[DRIVER] == NOBODY;
        break;
    case WORK:
        if (mutant != PENDING_CLEARED_LAST) {
            if (!settled)
                return false;
            s->v[PENDING] = 0;
            work(s, t, x->a);
        } else if (!settled) {
            return false;
        } else if (choice == 0 && s->inside < 8) {
            work(s, t, x->a);
            s->inside += 8; /* a moment between the work and the clearing */
            return true;
        } else {
            s->v[PENDING] = 0;
            s->inside -= 8;
        }
        break;
    case GIVE:
        if (!store(s, t, TURN, 0))
            return false;
        s->inside--;
        break;
    case POST:
        if (load(s, t, WANTED) != 0 && mutant != WANTED_IGNORED) {
            if (!settled)
                return false;
            s->v[WANTED] = 0;
            post(s);
        }
        s->pc[t] = (unsigned char)x->b;
        return true;
    case AGAIN:
        s->pc[t] = (unsigned char)(load(s, t, PENDING) != 0 ? x->a : x->b);
        return true;
    case REST:
        s->pc[t] = (unsigned char)(choice == 0 ? x->a : x->b);
        if (t == COMM)
            s->pc[t] = s->second ? 22 : 20;
        return true;
    case LEAVE:
        s->pc[t] = (unsigned char)(++s->waits == WAITS ? x->a : 0);
        return true;
    case SEND_END:
        s->pc[t] = (unsigned char)(++s->sends == SENDS ? s->pc[t] + 1 : 0);
        return true;
    case SLEEP_PORT:
        if (s->event == 0)
            return false;
        break;
    case SEEN_OFF:
        if (load(s, t, WATCHED) == 0 && mutant != OFF_UNSEEN)
            post(s);
        break;
    case JUMP:
        s->pc[t] = (unsigned char)x->a;
        s->second = t == COMM && x->a == 0 ? 0 : s->second; /* from the top */
        return true;
    default:
        return false; /* END */
    }
    s->pc[t]++;
    return true;
}

/* look_after may find the port off for long or not, and takes its part then. */
static bool take_over(struct state *s)
{
    if (program[COMM][s->pc[COMM]].op != LOOK || s->v[DRIVER] != OFF || s->nheld[COMM] > 0)
        return false;
    s->v[DRIVER] = NOBODY;
    s->done = 0;
    s->pc[COMM]++;
    return true;
}

/* All that may happen next. false: no more room. */
static bool expand(const struct state *s, bool *bad)
{
    struct state n = *s;
    bool fits = true, moves = false;

    for (unsigned t = 0; t < NTHREADS; t++) {
        for (int choice = 0; choice < 2; choice++) {
            n = *s;
            if (step(&n, t, choice)) {
                moves = true;
                fits &= visit(&n);
            }
        }
        n = *s;
        if (n.nheld[t] > 0) {
            drain(&n, t);
            moves = true;
            fits &= visit(&n);
        }
    }
    n = *s;
    if (take_over(&n)) {
        moves = true;
        fits &= visit(&n);
    }
    n = *s;
    if (n.events < EVENTS) {
        n.events++;
        n.event = 1;
        moves = true;
        fits &= visit(&n);
    }
    *bad = (s->inside & 7) > 1 || (!moves && (s->v[RING] != s->v[TAKEN] || s->event > 0));
    return fits;
}

/* How many states are wrong; -1: too many states. */
static long explore(enum mutant m)
{
    struct state s = { 0 };
    long nbad = 0;

    mutant = m;
    nstates = 0;
    memset(slot, 0, sizeof(slot));
    s.gate = 1;
    (void)visit(&s);
    for (unsigned i = 0; i < nstates; i++) {
        bool bad;

        s = states[i];
        if (!expand(&s, &bad))
            return -1;
        nbad += bad;
        if (nbad > 0 && m != NONE)
            break;
    }
    return nbad;
}

int main(void)
{
    bool ok = true;

    for (enum mutant m = NONE; m < NMUTANTS; m++) {
        const long nbad = explore(m);

        printf("%s: %u states, %ld wrong\n", mutant_names[m], nstates, nbad);
        ok &= m == NONE ? nbad == 0 : nbad > 0;
    }
    return ok ? 0 : 1;
}
