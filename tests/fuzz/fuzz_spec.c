#include "alloc.h"
#include "cluster/spec.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever parses must be written and read back alike. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct vb_err err;
    struct cl_spec a, b;

    alloc_fails_by(data, bytes);

    const bool parsed = cl_spec_parse((const char *)data, bytes, &a, &err) == VB_OK;

    if (alloc_has_failed() && parsed)
        abort(); /* nothing that it allocates can be done without */
    if (!parsed)
        return 0;
    char *text = cl_spec_json(&a);
    size_t n = 0;

    while (text[n] != '\0')
        n++;
    if (cl_spec_parse(text, n, &b, &err) != VB_OK || cl_ntasks(&a) != cl_ntasks(&b))
        abort();
    free(text);
    cl_spec_fini(&a);
    cl_spec_fini(&b);
    return 0;
}
