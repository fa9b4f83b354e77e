#include "alloc.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

enum { NEVER = 16 };

static unsigned left = NEVER;
static bool failed;

static bool fails(void)
{
    if (left == NEVER || left-- > 0)
        return false;
    left = NEVER;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return fails() ? NULL : __real_realloc(p, bytes);
}

void alloc_fails_by(const uint8_t *data, size_t bytes)
{
    left = bytes > 0 && data[bytes - 1] < NEVER ? data[bytes - 1] : NEVER;
    failed = false;
}

bool alloc_has_failed(void)
{
    left = NEVER;
    return failed;
}
