/*
 * engine_rig.h - one engine at a time, events in, actions as text out.
 */
#ifndef TESTS_PS_ENGINE_RIG_H
#define TESTS_PS_ENGINE_RIG_H

#include "ps/engine.h"

#include <criterion/criterion.h>

enum { W = 3, K = 2, RIG_ACTIONS = 64 };

static uint64_t rig_memory[1024];

struct rig {
    struct ps_engine *e;
    struct ps_action a[RIG_ACTIONS];
    size_t n;
};

static inline struct rig rig_make(struct ps_engine_params p)
{
    struct rig r = { 0 };

    cr_assert(ps_engine_max_actions(&p) <= RIG_ACTIONS);
    cr_assert(ps_engine_bytes(&p) > 0 && ps_engine_bytes(&p) <= sizeof(rig_memory));
    r.e = ps_engine_init(rig_memory, &p);
    return r;
}

static inline enum vb_st feed(struct rig *r, struct ps_event ev)
{
    return ps_engine_step(r->e, &ev, r->a, &r->n);
}

/* The actions of the last event, a letter each. */
static inline const char *acts(const struct rig *r)
{
    static char text[RIG_ACTIONS + 1];

    for (size_t i = 0; i < r->n; i++)
        text[i] = "SKDPAUC"[r->a[i].kind];
    text[r->n] = '\0';
    return text;
}

/* Feeds it and expects these actions. */
#define GIVES(r, ev, text)                                                                         \
    do {                                                                                           \
        cr_assert_eq(feed((r), (ev)), VB_OK);                                                      \
        cr_assert_str_eq(acts(r), (text));                                                         \
    } while (0)

static inline struct ps_event push(uint32_t w, uint32_t k, uint64_t clock)
{
    return (struct ps_event){
        .kind = PS_EV_PUSH, .worker = w, .chunk = k, .clock = clock, .samples = 10 + w
    };
}

static inline struct ps_event tick(uint32_t w, uint64_t clock, uint64_t count)
{
    return (struct ps_event){ .kind = PS_EV_TICK, .worker = w, .clock = clock, .count = count };
}

static inline struct ps_event finish(uint32_t w, uint64_t clock, uint64_t count)
{
    return (struct ps_event){ .kind = PS_EV_FINISHED, .worker = w, .clock = clock, .count = count };
}

static inline struct ps_event want(uint32_t w, uint32_t k, uint64_t clock)
{
    return (struct ps_event){ .kind = PS_EV_READ, .worker = w, .chunk = k, .clock = clock };
}

static inline struct ps_event joined(uint32_t w, uint64_t clock)
{
    return (struct ps_event){ .kind = PS_EV_JOINED, .worker = w, .clock = clock };
}

static inline struct ps_event lost(uint32_t w)
{
    return (struct ps_event){ .kind = PS_EV_LOST, .worker = w };
}

static inline struct ps_event init(uint32_t k)
{
    return (struct ps_event){ .kind = PS_EV_INIT, .chunk = k };
}

/* All workers in, all chunks with a value. */
static inline struct rig rig_started(struct ps_engine_params p)
{
    struct rig r = rig_make(p);

    for (uint32_t w = 0; w < W; w++)
        cr_assert_eq(feed(&r, joined(w, 0)), VB_OK);
    for (uint32_t k = 0; k < K; k++) {
        GIVES(&r, init(k), "SU");
        cr_assert_eq(r.a[1].clock, 0);
        cr_assert_eq(r.a[1].worker, PS_ALL);
    }
    return r;
}

#endif
