/*
 * alloc.h - allocations of our own code that fail. The linker sends its calls here (--wrap); libraries keep
 * theirs.
 */
#ifndef TESTS_FUZZ_ALLOC_H
#define TESTS_FUZZ_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From now on the input's last byte says which allocation fails: the first 16 values; others: none. */
void alloc_fails_by(const uint8_t *data, size_t bytes);
/* None fails any more. Has one? */
bool alloc_has_failed(void);

#endif
