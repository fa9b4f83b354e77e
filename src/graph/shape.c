#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>

size_t gr_dtype_bytes(enum gr_dtype t)
{
    static const size_t bytes[] = { [GR_F32] = 4, [GR_I32] = 4, [GR_I64] = 8, [GR_BOOL] = 1 };

    return bytes[t];
}

const char *gr_dtype_name(enum gr_dtype t)
{
    static const char *const name[] = {
        [GR_F32] = "f32", [GR_I32] = "i32", [GR_I64] = "i64", [GR_BOOL] = "bool"
    };

    return name[t];
}

uint64_t gr_elems(struct gr_shape s, uint64_t batch)
{
    uint64_t n = 1;
    bool zero = false, fits = true;

    for (uint32_t i = 0; i < s.rank; i++) {
        const uint64_t dim = s.dim[i] == GR_BATCH ? batch : s.dim[i];

        zero = zero || dim == 0;
        fits = fits && vb_mul(n, dim, &n);
    }
    return zero ? 0 : fits ? n : UINT64_MAX;
}

bool gr_shape_eq(struct gr_shape a, struct gr_shape b)
{
    if (a.rank != b.rank)
        return false;
    for (uint32_t i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i])
            return false;
    return true;
}

void gr_shape_str(struct gr_shape s, char *buf, size_t buf_bytes)
{
    size_t at = 0;

    for (uint32_t i = 0; i <= s.rank && at < buf_bytes; i++) {
        const char *before = i == 0 ? "[" : ", ";

        if (i == s.rank)
            at += (size_t)snprintf(buf + at, buf_bytes - at, s.rank == 0 ? "[]" : "]");
        else if (s.dim[i] == GR_BATCH)
            at += (size_t)snprintf(buf + at, buf_bytes - at, "%sbatch", before);
        else
            at += (size_t)snprintf(buf + at, buf_bytes - at, "%s%" PRIu64, before, s.dim[i]);
    }
}
