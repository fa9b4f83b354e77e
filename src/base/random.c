#include "base/random.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t vb_random_u64(uint64_t seed, uint64_t stream, uint64_t i)
{
    const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t key = mix(mix(seed + gamma) ^ (stream * gamma + 1));

    return mix(key + (i + 1) * gamma);
}

float vb_random_f32(uint64_t seed, uint64_t stream, uint64_t i)
{
    return (float)(vb_random_u64(seed, stream, i) >> 40) * 0x1p-24f;
}

uint64_t vb_hash_str(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        h = (h ^ *c) * UINT64_C(0x100000001b3);
    return h;
}

struct vb_perm vb_perm_make(uint64_t n, uint64_t seed, uint64_t data_epoch)
{
    struct vb_perm p = { .n = n, .half_bits = 1 };

    while (p.half_bits < 32 && (n - 1) >> (2 * p.half_bits) != 0)
        p.half_bits++;
    for (unsigned r = 0; r < 4; r++)
        p.key[r] = vb_random_u64(seed, vb_hash_str("permutation") + data_epoch, r);
    return p;
}

uint64_t vb_perm_at(const struct vb_perm *p, uint64_t i)
{
    const uint64_t mask = (UINT64_C(1) << p->half_bits) - 1;

    do {
        uint64_t left = i >> p->half_bits, right = i & mask;

        for (unsigned r = 0; r < 4; r++) {
            const uint64_t next = left ^ (mix(right + p->key[r]) & mask);

            left = right;
            right = next;
        }
        i = left << p->half_bits | right;
    } while (i >= p->n);
    return i;
}
