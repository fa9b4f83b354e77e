/*
 * explore.h - for models of a protocol: the states that can be reached, each looked at once, and whether
 * the code still has the steps of the model.
 */
#ifndef TESTS_TRANSPORT_EXPLORE_H
#define TESTS_TRANSPORT_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { EXPLORE_WORDS = 1 << 25, EXPLORE_SLOTS = 1 << 23 };

static struct {
    unsigned words, n; /* of one state; states found */
    uint64_t states[EXPLORE_WORDS];
    uint32_t slot[EXPLORE_SLOTS]; /* number of a state + 1, by hash */
} explored;

/* bytes: of one state, whole words of 8 without padding. */
static inline void explore_begin(size_t bytes)
{
    explored.words = (unsigned)(bytes / 8);
    explored.n = 0;
    memset(explored.slot, 0, sizeof(explored.slot));
}

static inline const void *explore_state(unsigned i)
{
    return &explored.states[(size_t)i * explored.words];
}

/* False: no more room. */
static inline bool explore_visit(const void *state)
{
    const size_t bytes = 8 * (size_t)explored.words;
    uint64_t word, h = 0;

    for (size_t i = 0; i < bytes; i += 8) {
        memcpy(&word, (const char *)state + i, 8);
        h = (h ^ word ^ h >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (h >>= 32;; h++) {
        uint32_t *at = &explored.slot[h % EXPLORE_SLOTS];

        if (*at != 0 && memcmp(explore_state(*at - 1), state, bytes) == 0)
            return true;
        if (*at != 0)
            continue;
        if (explored.n == EXPLORE_SLOTS / 2 ||
            (explored.n + 1) * (size_t)explored.words > EXPLORE_WORDS)
            return false;
        memcpy(&explored.states[(size_t)explored.n * explored.words], state, bytes);
        *at = ++explored.n;
        return true;
    }
}

/* Do these texts stand in the file after `from`, in this order? */
static inline bool explore_stands(const char *folder, const char *name, const char *from,
                                  const char *const *step)
{
    static char text[1 << 16];
    char path[4096];

    snprintf(path, sizeof(path), "%s/src/transport/%s", folder, name);
    FILE *f = fopen(path, "r");

    if (f == NULL)
        return false;
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    const char *at = strstr(text, from);

    if (at == NULL)
        printf("%s: there is no %s: is the model still right?\n", name, from);
    for (; at != NULL && *step != NULL; step++) {
        at = strstr(at, *step);
        if (at == NULL)
            printf("%s: after %s there is no %s: is the model still right?\n", name, from, *step);
    }
    return at != NULL;
}

#endif
