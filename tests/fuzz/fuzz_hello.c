#include "cluster/hello.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Nobody without the secret comes in, whatever is sent to either role. The first byte chooses it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct cl_addr addr[3] = { { "a", 1 }, { "a", 2 }, { "b", 1 } };
    static const struct cl_spec spec = { .nps = 2, .nworkers = 1, .addr = addr };
    const struct hello_self self = { .spec = &spec, .rank = 1, .secret = { 1 } };
    struct hello h;

    if (bytes == 0 || sodium_init() < 0)
        return 0;
    if (data[0] & 1)
        hello_start(&h, &self, 0);
    else
        hello_accept(&h, &self);
    for (size_t at = 1, n = 1; n > 0 && h.state == HELLO_GOING; at += n) {
        n = hello_input(&h, data + at, bytes - at);
        if (n > bytes - at || h.out_bytes > sizeof(h.out))
            abort();
        h.out_bytes = 0;
    }
    if (h.state == HELLO_PROVED || h.state == HELLO_IN)
        abort();
    return 0;
}
