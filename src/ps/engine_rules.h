/*
 * engine_rules.h - the conditions on which everything rests, one each, so that tests can put a wrong one
 * in its place and must find it out (tests/ps/mutants.h).
 */
#ifndef PS_ENGINE_RULES_H
#define PS_ENGINE_RULES_H

#include "ps/engine.h"

/* low: the clock up to which all live workers' pushes are in. */
static inline bool ps_rule_window(uint64_t low, uint64_t clock, uint32_t s)
{
    return s == PS_UNBOUNDED || low >= (clock > s ? clock - s : 0);
}

/* The minimum has passed: it may have jumped. */
static inline bool ps_rule_release(uint64_t low, uint64_t clock, uint32_t s)
{
    return ps_rule_window(low, clock, s);
}

/* next: the clock up to which the reader's own pushes are in. */
static inline bool ps_rule_own(uint64_t next, uint64_t clock)
{
    return next >= clock;
}

/* Has this push been seen before? */
static inline bool ps_rule_again(uint64_t clock, uint64_t next)
{
    return clock < next;
}

/* Does this worker hold others up? */
static inline bool ps_rule_holds_up(bool live)
{
    return live;
}

/* The most pushes of a chunk, with next as above, that are of clocks after the tick. */
static inline uint64_t ps_rule_beyond(uint64_t next, uint64_t tick)
{
    return next > tick + 1 ? next - (tick + 1) : 0;
}

/* Is a gradient, new from its worker, for the step that is being collected? */
static inline bool ps_rule_in_time(uint64_t clock, uint64_t epoch, bool reducing)
{
    return clock == epoch && !reducing;
}

/* Is the value of that step what this chunk waits for? */
static inline bool ps_rule_reduced(bool reducing, uint64_t epoch, uint64_t clock)
{
    return reducing && clock == epoch;
}

/* Sets are applied in order. */
static inline bool ps_rule_set_next(uint64_t clock, uint64_t step)
{
    return clock == step;
}

/* counted: the clock up to which the worker's ticks have taken effect. */
static inline bool ps_rule_set_member(uint64_t counted, uint64_t clock)
{
    return counted > clock;
}

#endif
