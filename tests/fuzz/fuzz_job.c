#include "cmd/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever loads has a canonical text; whatever does not has one line that says why. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct job job;
    struct vb_err err = { "" };

    if (job_init(&job) != VB_OK)
        abort();
    if (job_parse(&job, "job.yaml", (const char *)data, bytes, &err) == VB_OK) {
        char *text = job_canonical(&job);

        if (text == NULL || job.nlayers == 0)
            abort();
        free(text);
    } else if (err.text[0] == '\0') {
        abort();
    }
    job_fini(&job);
    return 0;
}
