/*
 * spec.h - what the engine owes its workers, said from outside: it knows all that workers have done, also
 * what is still under way, and judges what the engine does. Shares nothing with the engine. Tiny: sets of
 * workers and of clocks are the bits of a byte.
 */
#ifndef TESTS_PS_SPEC_H
#define TESTS_PS_SPEC_H

#include <stdbool.h>
#include <stdint.h>

enum { SPEC_W = 3, SPEC_K = 2, SPEC_OVER = 255 };
enum spec_mode { SPEC_SYNC, SPEC_NAMED, SPEC_BOUNDED };

/* A clock in asked, told, reduced: that clock + 1; 0: none. */
struct spec {
    uint8_t mode, s, nw, nk;
    uint8_t live;                  /* not lost */
    uint8_t named, counted;        /* SPEC_NAMED: of the step in flight */
    uint8_t clock[SPEC_W];         /* works at. SPEC_OVER: has finished */
    uint8_t entry[SPEC_W][SPEC_K]; /* counts from this clock on */
    uint8_t sent[SPEC_W][SPEC_K];  /* clocks that it has pushed */
    uint8_t in[SPEC_W][SPEC_K];    /* of these, have arrived */
    uint8_t used[SPEC_W][SPEC_K];  /* of these, have been applied */
    uint8_t asked[SPEC_W][SPEC_K], told[SPEC_W][SPEC_K];
    uint8_t epoch[SPEC_K];
    uint8_t two_phase, reduced, partial, of[SPEC_K]; /* chunks that wait for a value, and of whom */
};

/* What happens. */
void spec_joins(struct spec *s, unsigned w, unsigned clock);
void spec_dies(struct spec *s, unsigned w);
void spec_pushes(struct spec *s, unsigned w, unsigned k, unsigned clock);
void spec_moves(struct spec *s, unsigned w, unsigned clock); /* it will push nothing before */
void spec_arrives(struct spec *s, unsigned w, unsigned k, unsigned clock);
void spec_asks(struct spec *s, unsigned w, unsigned k, unsigned clock);
void spec_first_value(struct spec *s);

/* What the engine does about it. NULL: right; else what is wrong. set: whose gradients. */
const char *spec_applied(struct spec *s, unsigned k, unsigned clock, unsigned set);
const char *spec_told(struct spec *s, unsigned w, unsigned k, unsigned clock, unsigned behind);
const char *spec_dropped(struct spec *s, unsigned w, unsigned k, unsigned clock);
const char *spec_partial(struct spec *s, unsigned k, unsigned clock, unsigned set);
const char *spec_counted(struct spec *s, unsigned w, unsigned clock);

/* Nothing is under way: is there anything that it should have done? */
const char *spec_owes(const struct spec *s);

#endif
