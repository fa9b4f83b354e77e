#include "sim/recurrence.h"

#include "base/util.h"

#include <stdlib.h>

enum vb_st rec_run(const struct rec_params *p, double *end_out)
{
    /* of the clocks that somebody may still wait for: when the last worker has ended it */
    const uint64_t window = VB_MIN((uint64_t)p->staleness, p->clocks) + 1;
    double *fin = calloc(p->nworkers, sizeof(*fin)), *last = calloc(window, sizeof(*last));
    enum vb_st st = p->nworkers > 0 && p->clocks > 0 ? VB_NOMEM : VB_INVAL;

    *end_out = 0;
    if (fin == NULL || last == NULL || st == VB_INVAL)
        goto out;
    for (uint64_t c = 0; c < p->clocks; c++) {
        const double gate = c >= window ? last[c % window] + p->release : 0;
        double end = 0;

        for (uint32_t w = 0; w < p->nworkers; w++) {
            fin[w] = VB_MAX(fin[w], gate) + p->compute(p->arg, w, c);
            end = VB_MAX(end, fin[w]);
        }
        last[c % window] = end;
        *end_out = VB_MAX(*end_out, end);
    }
    st = VB_OK;
out:
    free(fin);
    free(last);
    return st;
}
