/*
 * random.h - numbers from a key and a position, so that nothing depends on who asks or when.
 *
 * Generator: splitmix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014) over a keyed counter. Permutation: a four-round balanced Feistel network
 * over the smallest even number of bits that holds n, walked until the result is below n (Black and
 * Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Pure functions, any thread.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* 64 random bits for position i of the stream (seed, stream). */
uint64_t vb_random_u64(uint64_t seed, uint64_t stream, uint64_t i);

/* Uniform in [0, 1), 24 bits, exact in float. */
float vb_random_f32(uint64_t seed, uint64_t stream, uint64_t i);

/* A stable number for a name, to be used as a stream (FNV-1a, 64 bits). */
uint64_t vb_hash_str(const char *text);

struct vb_perm {
    uint64_t n, key[4];
    unsigned half_bits;
};

/* The permutation of [0, n) with this key; n >= 1. */
struct vb_perm vb_perm_make(uint64_t n, uint64_t seed, uint64_t data_epoch);

/* Where position i < n goes: a bijection of [0, n). */
uint64_t vb_perm_at(const struct vb_perm *p, uint64_t i);

#endif
