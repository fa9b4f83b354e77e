/* The IDX reader on arbitrary bytes: it ends, stays in bounds, and holds what it says. */
#include "worker/idx.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct vb_err err = { "" };
    struct idx x = { 0 };
    uint64_t elems = 1, sum = 0;

    if (idx_parse("fuzz", data, bytes, &x, &err) != VB_OK) {
        if (err.text[0] == '\0' || x.data != NULL)
            abort();
        return 0;
    }
    for (uint32_t i = 0; i < x.ndims; i++)
        elems *= x.dim[i];
    if (elems != x.bytes || x.bytes == 0)
        abort();
    for (uint64_t i = 0; i < x.bytes; i++)
        sum += x.data[i];
    idx_fini(&x);
    return sum == UINT64_MAX; /* never, but every byte was read */
}
