#include "kernels/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever decodes is finite, and can be sent on with nothing lost. The head: kind, share, n. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct kn_codec_turn turn = { .chunk = 1, .clock = 2 };
    uint16_t n;

    if (bytes < 4)
        return 0;
    const struct kn_codec c = { .kind = (enum kn_codec_kind)(data[0] % (KN_CODEC_RANDOMK + 1)),
                                .share = (double)data[1] / 255.0 };

    memcpy(&n, data + 2, sizeof(n));
    n %= 4096;
    data += 4;
    bytes -= 4;
    /* of the exact size, so that a step outside is seen */
    float *x = malloc(n * sizeof(*x)), *residual = calloc(n, sizeof(*residual));
    void *message = malloc(bytes), *again = malloc(kn_codec_bytes(&c, n));

    memcpy(message, data, bytes);
    if (kn_decode(x, message, bytes, n, &c, &turn) == VB_OK) {
        for (size_t i = 0; i < n; i++)
            if (!isfinite(x[i]))
                abort();
        if (kn_encode(again, residual, x, n, &c, &turn) != VB_OK)
            abort();
        if (kn_decode(x, again, kn_codec_bytes(&c, n), n, &c, &turn) != VB_OK)
            abort();
    }
    free(x);
    free(residual);
    free(message);
    free(again);
    return 0;
}
