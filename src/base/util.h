/*
 * util.h - checked arithmetic, cleanup attributes, container_of. Header only.
 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define VB_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define VB_MIN(a, b) ((a) < (b) ? (a) : (b))
#define VB_MAX(a, b) ((a) > (b) ? (a) : (b))

/* false: the result does not fit, *out is not to be used. */
static inline bool vb_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool vb_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Is [offset, offset + bytes) inside [0, limit)? Safe for any values. */
static inline bool vb_inside(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return bytes <= limit && offset <= limit - bytes;
}

/* x rounded up to a multiple of the power of two a. The caller keeps x below 2^63. */
static inline uint64_t vb_round_up(uint64_t x, uint64_t a)
{
    return (x + a - 1) & ~(a - 1);
}

/* Scratch that lives and dies in one function. */
static inline void vb_auto_free(void *p)
{
    free(*(void **)p);
}
static inline void vb_auto_close(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define AUTO_FREE __attribute__((cleanup(vb_auto_free)))
#define AUTO_CLOSE __attribute__((cleanup(vb_auto_close)))

/* The reason of a failure in one line for a person: what, where, what to do. */
struct vb_err {
    char text[512];
};
__attribute__((format(printf, 2, 3))) void vb_err_set(struct vb_err *err, const char *fmt, ...);

/* Lower-case hex of n bytes into out[2n + 1]. */
void vb_hex(char *out, const void *bytes, size_t n);

#endif
