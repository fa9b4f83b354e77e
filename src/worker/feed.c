#include "worker/feed.h"

#include "kernels/kn.h"
#include "worker/idx.h"

#include <inttypes.h>
#include <string.h>

/* Takes the data of a loaded file. */
static enum vb_st load(const char *path, uint32_t min_dims, uint64_t *n_out, uint64_t *row_out,
                       uint8_t **data_out, struct vb_err *err)
{
    struct idx x = { 0 };
    const enum vb_st st = idx_load(path, &x, err);

    if (st != VB_OK)
        return st;
    if (x.ndims < min_dims || x.dim[0] == 0) {
        vb_err_set(err, "%s: no samples in it", path);
        idx_fini(&x);
        return VB_INVAL;
    }
    *n_out = x.dim[0];
    *row_out = 1;
    for (uint32_t i = 1; i < x.ndims; i++)
        *row_out *= x.dim[i]; /* the file is that large: it fits */
    *data_out = x.data;
    return VB_OK;
}

static enum vb_st check_labels(const struct feed_params *p, const struct feed *f, uint64_t nlabels,
                               struct vb_err *err)
{
    if (nlabels != f->n) {
        vb_err_set(err, "%s has %" PRIu64 " labels for %" PRIu64 " images in %s", p->labels,
                   nlabels, f->n, p->images);
        return VB_INVAL;
    }
    for (uint64_t i = 0; i < f->n; i++)
        if (f->label[i] >= p->classes) {
            vb_err_set(
                err, "%s: label %u at position %" PRIu64 ", but the model has %" PRIu64 " outputs",
                p->labels, f->label[i], i, p->classes);
            return VB_INVAL;
        }
    return VB_OK;
}

enum vb_st feed_open(const struct feed_params *p, struct feed *out, struct vb_err *err)
{
    const double by = p->divide_by != 0 ? p->divide_by : 1, std = p->std != 0 ? p->std : 1;
    struct feed f = { .max_rows = p->max_rows,
                      .scale = (float)(1 / (by * std)),
                      .shift = (float)(p->mean / std) };
    uint64_t nlabels = 0, one = 0;
    enum vb_st st = load(p->images, 2, &f.n, &f.features, &f.pixels, err);

    if (st == VB_OK)
        st = load(p->labels, 1, &nlabels, &one, &f.label, err);
    if (st == VB_OK)
        st = check_labels(p, &f, nlabels, err);
    if (st != VB_OK)
        goto fail;
    f.x = calloc(p->max_rows * f.features + 1, sizeof(*f.x));
    f.y = calloc(p->max_rows + 1, sizeof(*f.y));
    if (f.x == NULL || f.y == NULL) {
        st = VB_NOMEM;
        goto fail;
    }
    *out = f;
    return VB_OK;

fail:
    feed_close(&f);
    return st;
}

void feed_close(struct feed *f)
{
    free(f->pixels);
    free(f->label);
    free(f->x);
    free(f->y);
    *f = (struct feed){ 0 };
}

void feed_rows(struct feed *f, const struct vb_perm *order, uint64_t from, uint64_t rows)
{
    const struct kn_ops *kn = kn_best();

    for (uint64_t r = 0; r < rows; r++) {
        const uint64_t at = order != NULL ? vb_perm_at(order, from + r) : from + r;

        kn->from_u8(f->x + r * f->features, f->pixels + at * f->features, f->scale, f->shift,
                    f->features);
        f->y[r] = f->label[at];
    }
}

uint64_t feed_micro_batch(uint64_t rows, uint64_t v, uint64_t nv, uint64_t *from_out)
{
    const uint64_t from = v * rows / nv; /* v < nv <= rows <= 2^31: no overflow */

    *from_out = from;
    return (v + 1) * rows / nv - from;
}
