/*
 * tp_loop.h - the knobs of the loop back end: two nodes in one process and one thread.
 *
 * With loop_seed 0 every message is there at the peer's next progress, in order. With another seed
 * the knobs of the sending link apply, by random numbers of (seed, link, channel, message) alone, so
 * a run repeats exactly. Time is counted in steps: one per progress of any port of the receiving
 * node.
 */
#ifndef TRANSPORT_TP_LOOP_H
#define TRANSPORT_TP_LOOP_H

#include "transport/tp.h"

struct tp_loop_knobs {
    bool place;           /* payloads go where `place` says; else they are viewed. For any seed */
    float delay;          /* probability that a message waits 1..delay_steps steps */
    uint32_t delay_steps; /* 0: 8 */
    float reorder;        /* probability that later messages of its channel may overtake it; it
                             is delayed then */
    float duplicate;      /* probability that it arrives twice */
    float drop;           /* probability that it never arrives */
};

/* For what this link sends from now on. thread: the only one. */
void tp_loop_set(struct tp_link *l, const struct tp_loop_knobs *knobs);
/* Steps of this node so far. */
uint64_t tp_loop_steps(const struct tp_node *n);

#endif
