/*
 * mutants.h - wrong rules in place of those in engine_rules.h, one at a time: whoever compiles the engine
 * with this in front chooses by ps_mutant.
 */
#ifndef TESTS_PS_MUTANTS_H
#define TESTS_PS_MUTANTS_H

#include "ps/engine_rules.h"

enum ps_mutant {
    NO_MUTANT,
    WINDOW_ABOVE,
    WINDOW_NARROW,
    WINDOW_WIDE,
    RELEASE_EQUAL,
    NOT_OWN,
    TWICE,
    GONE_COUNT,
    NOBODY_COUNTS,
    LATER_COUNT,
    LATE_KEPT,
    REDUCING_KEPT,
    REDUCED_ANY,
    REDUCED_EARLY,
    SET_ANY_ORDER,
    SET_UNCOUNTED,
    NMUTANTS
};

/* clang-format off */
__attribute__((unused)) static const char *const mutant_name[NMUTANTS] = {
    [NO_MUTANT] = "the rules as they are",
    [WINDOW_ABOVE] = "a read waits for R > c - s",
    [WINDOW_NARROW] = "a read waits for R >= c - s + 1",
    [WINDOW_WIDE] = "a read waits for R >= c - s - 1 only",
    [RELEASE_EQUAL] = "reads are released when R == c - s",
    [NOT_OWN] = "a read does not wait for own pushes",
    [TWICE] = "duplicates are applied",
    [GONE_COUNT] = "finished and lost workers hold others up",
    [NOBODY_COUNTS] = "nobody holds others up",
    [LATER_COUNT] = "pushes of later clocks count for a tick",
    [LATE_KEPT] = "late gradients are kept",
    [REDUCING_KEPT] = "gradients are kept while the step is reduced",
    [REDUCED_ANY] = "the value of any step is taken",
    [REDUCED_EARLY] = "a value is taken before the step is complete",
    [SET_ANY_ORDER] = "sets are applied in any order",
    [SET_UNCOUNTED] = "a set may hold workers that are not counted",
};
/* clang-format on */

extern enum ps_mutant ps_mutant;

static inline bool mutant_window(uint64_t low, uint64_t clock, uint32_t s)
{
    const uint64_t bound = s == PS_UNBOUNDED || clock <= s ? 0 : clock - s;

    if (ps_mutant == WINDOW_ABOVE)
        return low > bound;
    if (ps_mutant == WINDOW_NARROW)
        return s == PS_UNBOUNDED || low + s >= clock + 1;
    if (ps_mutant == WINDOW_WIDE)
        return low + 1 >= bound;
    return ps_rule_window(low, clock, s);
}
#define ps_rule_window mutant_window

static inline bool mutant_release(uint64_t low, uint64_t clock, uint32_t s)
{
    const uint64_t bound = s == PS_UNBOUNDED || clock <= s ? 0 : clock - s;

    return ps_mutant == RELEASE_EQUAL ? low == bound : mutant_window(low, clock, s);
}
#define ps_rule_release mutant_release

static inline bool mutant_own(uint64_t next, uint64_t clock)
{
    return ps_mutant == NOT_OWN || ps_rule_own(next, clock);
}
#define ps_rule_own mutant_own

static inline bool mutant_again(uint64_t clock, uint64_t next)
{
    return ps_mutant != TWICE && ps_rule_again(clock, next);
}
#define ps_rule_again mutant_again

static inline bool mutant_holds_up(bool live)
{
    return ps_mutant == GONE_COUNT || (ps_mutant != NOBODY_COUNTS && ps_rule_holds_up(live));
}
#define ps_rule_holds_up mutant_holds_up

static inline uint64_t mutant_beyond(uint64_t next, uint64_t tick)
{
    return ps_mutant == LATER_COUNT ? 0 : ps_rule_beyond(next, tick);
}
#define ps_rule_beyond mutant_beyond

static inline bool mutant_in_time(uint64_t clock, uint64_t epoch, bool reducing)
{
    return (ps_mutant == LATE_KEPT || clock == epoch) && (ps_mutant == REDUCING_KEPT || !reducing);
}
#define ps_rule_in_time mutant_in_time

static inline bool mutant_reduced(bool reducing, uint64_t epoch, uint64_t clock)
{
    return (ps_mutant == REDUCED_EARLY || reducing) && (ps_mutant == REDUCED_ANY || clock == epoch);
}
#define ps_rule_reduced mutant_reduced

static inline bool mutant_set_next(uint64_t clock, uint64_t step)
{
    return ps_mutant == SET_ANY_ORDER || ps_rule_set_next(clock, step);
}
#define ps_rule_set_next mutant_set_next

static inline bool mutant_set_member(uint64_t counted, uint64_t clock)
{
    return ps_mutant == SET_UNCOUNTED || ps_rule_set_member(counted, clock);
}
#define ps_rule_set_member mutant_set_member

#endif
