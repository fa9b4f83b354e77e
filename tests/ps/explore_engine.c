/*
 * Every interleaving of a few workers that push, skip, read, tick, finish, die and join, with messages
 * delivered in any order, some twice, against the specification in spec.c. The engine's memory is part
 * of the state; a state seen before, by a hash of 64 bits, is not looked at again.
 *
 * Answers reach their worker at once: one that comes later is the same as a worker that acts later.
 * Compiled with the mutants in front, it must find out each of them.
 */
#include "explore_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef TESTS_PS_MUTANTS_H
enum ps_mutant ps_mutant;
#endif

bool look(const struct world *x)
{
    bool moved = false, waits = false;

    if (!visit(x))
        return true;
    probe(x);
    if (quiet(x))
        blame(spec_owes(&x->spec));
    for (unsigned w = 0; w < cfg.nw && fault == NULL; w++) {
        waits |= x->env.state[w] == RUNS;
        for (unsigned k = 0; k < cfg.nk; k++)
            if (!try_push(x, w, k, &moved))
                return false;
        if (!try_next(x, w, &moved) || !try_deliver(x, w, &moved) || !try_end(x, w, &moved))
            return false;
    }
    if (fault == NULL && !try_coordinate(x, &moved))
        return false;
    if (waits && !moved)
        blame("it stands still");
    return fault == NULL;
}

static bool explore(const struct config *c)
{
    static struct world x;

    world_make(&x, c);
    return fault == NULL && look(&x);
}

/* clang-format off */
static const struct config configs[] = {
    { "sync, 2 workers, two phases", .mode = PS_SYNC, .two_phase = 1, .nw = 2, .nk = 2, .clocks = 2, .dups = 1, .deaths = 1 },
    { "s = 1, 2 workers", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 1, .clocks = 3, .reads = 1, .uneven = 1 },
    { "3 workers, 1 backup, two phases", .mode = PS_BACKUP, .two_phase = 1, .backups = 1, .nw = 3, .nk = 1, .clocks = 2 },
    { "s = 1, 2 workers, 2 chunks, skips", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 2, .clocks = 2, .skips = 1 },
    { "s = 2, 2 workers, deaths", .mode = PS_SSP, .s = 2, .nw = 2, .nk = 1, .clocks = 3, .deaths = 1 },
    { "sync, 3 workers, duplicates, deaths", .mode = PS_SYNC, .nw = 3, .nk = 1, .clocks = 2, .dups = 1, .deaths = 1 },
    { "3 workers, 1 backup, duplicates", .mode = PS_BACKUP, .backups = 1, .nw = 3, .nk = 1, .clocks = 2, .dups = 1 },
    { "s = 1, 2 workers, duplicates", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 1, .clocks = 3, .dups = 1 },
    /* up to here each mutant must have been found out */
    { "sync, 2 workers, 2 chunks, uneven", .mode = PS_SYNC, .nw = 2, .nk = 2, .clocks = 3, .dups = 1, .deaths = 1, .uneven = 1 },
    { "sync, 2 workers and a joiner", .mode = PS_SYNC, .nw = 3, .nk = 1, .clocks = 4, .absent = 1, .joins = 1 },
    { "s = 2, 2 workers, reads", .mode = PS_SSP, .s = 2, .nw = 2, .nk = 1, .clocks = 4, .reads = 1 },
    { "s = 1, 2 workers, skips, duplicates", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 1, .clocks = 3, .skips = 1, .dups = 1 },
    { "s = 1, 2 workers, uneven, one returns", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 1, .clocks = 3, .deaths = 1, .joins = 1, .uneven = 1 },
    { "s = 1, 2 workers and a joiner", .mode = PS_SSP, .s = 1, .nw = 3, .nk = 1, .clocks = 2, .absent = 1, .joins = 1 },
    { "s = 1, 2 workers, 2 chunks, duplicates", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 2, .clocks = 2, .dups = 1 },
    { "3 workers, 1 backup, deaths", .mode = PS_BACKUP, .backups = 1, .nw = 3, .nk = 1, .clocks = 3, .deaths = 1 },
    { "2 workers and a joiner, 1 backup", .mode = PS_BACKUP, .backups = 1, .nw = 3, .nk = 1, .clocks = 3, .absent = 1, .joins = 1 },
    { "2 workers, 1 backup, 2 chunks", .mode = PS_BACKUP, .backups = 1, .nw = 2, .nk = 2, .clocks = 3 },
    { "3 workers, 1 backup, two phases, deaths", .mode = PS_BACKUP, .two_phase = 1, .backups = 1, .nw = 3, .nk = 1, .clocks = 2, .deaths = 1 },
    /* with VB_LONG */
    { "s = 1, 2 workers, 4 clocks, duplicates", .mode = PS_SSP, .s = 1, .nw = 2, .nk = 1, .clocks = 4, .dups = 1 },
    { "s = 2, 2 workers, skips, deaths", .mode = PS_SSP, .s = 2, .nw = 2, .nk = 1, .clocks = 3, .skips = 1, .deaths = 1 },
    { "s = 1, 3 workers, deaths", .mode = PS_SSP, .s = 1, .nw = 3, .nk = 1, .clocks = 2, .deaths = 1 },
    { "3 workers, 1 backup, duplicates, deaths", .mode = PS_BACKUP, .backups = 1, .nw = 3, .nk = 1, .clocks = 2, .dups = 1, .deaths = 1 },
};
/* clang-format on */
enum { FOR_MUTANTS = 8, FOR_ALL = 19, NCONFIGS = sizeof(configs) / sizeof(configs[0]) };

#ifndef TESTS_PS_MUTANTS_H
static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_trace(void)
{
    for (unsigned i = 0; i < depth; i++)
        printf("    %s\n", trace[i]);
}

static bool the_rules(void)
{
    const unsigned n = getenv("VB_LONG") != NULL ? NCONFIGS : FOR_ALL;
    uint64_t total = 0;

    for (unsigned i = 0; i < n; i++) {
        const double start = seconds();
        const bool ok = explore(&configs[i]);
        const uint64_t n_states = states_seen();

        total += n_states;
        printf("%9lu states, %5.2f s: %s%s%s\n", n_states, seconds() - start, configs[i].what,
               ok ? "" : ": ", ok ? "" : fault);
        if (!ok) {
            show_trace();
            return false;
        }
    }
    printf("%9lu states in all, nothing is wrong\n", total);
    return true;
}
#else
static bool every_mutant(void)
{
    bool all = true;

    for (ps_mutant = NO_MUTANT + 1; ps_mutant < NMUTANTS; ps_mutant++) {
        unsigned i = 0;

        while (i < FOR_MUTANTS && explore(&configs[i]))
            i++;
        printf("%s: %s%s%s\n", mutant_name[ps_mutant], i < FOR_MUTANTS ? fault : "SURVIVES",
               i < FOR_MUTANTS ? "; " : "", i < FOR_MUTANTS ? configs[i].what : "");
        all &= i < FOR_MUTANTS;
    }
    return all;
}
#endif

int main(void)
{
    bool ok = false;

    setvbuf(stdout, NULL, _IOLBF, 0);
#ifdef TESTS_PS_MUTANTS_H
    ok = every_mutant();
#else
    ok = the_rules();
#endif
    states_forget();
    return ok ? 0 : 1;
}
