#include "alloc.h"
#include "cmd/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever loads has a canonical text; whatever does not has one line that says why. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct job job;
    struct vb_err err = { "" };

    if (job_init(&job) != VB_OK)
        abort();
    alloc_fails_by(data, bytes);

    const enum vb_st st = job_parse(&job, "job.yaml", (const char *)data, bytes, &err);
    const bool failed = alloc_has_failed();

    if (st == VB_OK) {
        char *text = job_canonical(&job);

        if (text == NULL || job.model->nlayers == 0)
            abort();
        free(text);
    } else if (err.text[0] == '\0' && !failed) {
        abort();
    }
    job_fini(&job);
    return 0;
}
