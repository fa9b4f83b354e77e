/*
 * feed.h - a data set in memory and the micro-batches made of it.
 *
 * Samples are bytes (pixels) and one label each; a sample's features are x * scale - shift. The order of
 * a data epoch is a keyed permutation of all samples: disjoint between workers by construction.
 *
 * Thread: one.
 */
#ifndef WORKER_FEED_H
#define WORKER_FEED_H

#include "base/random.h"
#include "base/util.h"
#include "verbena/status.h"

struct feed_params {
    const char *images, *labels; /* IDX files, plain or gzip */
    double divide_by, mean,
        std;           /* x = (pixel / divide_by - mean) / std; 0 for divide_by and std: 1 */
    uint64_t classes;  /* labels must be below */
    uint64_t max_rows; /* of a micro-batch */
};

struct feed {
    uint64_t n, features, max_rows;
    uint8_t *pixels, *label;
    float scale, shift;
    float *x;   /* [max_rows][features] */
    int32_t *y; /* [max_rows] */
};

/* gives: feed_close. VB_INVAL/VB_IO: err names the file and what is wrong. */
VB_MUST_CHECK enum vb_st feed_open(const struct feed_params *p, struct feed *out,
                                   struct vb_err *err);
void feed_close(struct feed *f); /* takes zeroed */

/* Fills x and y with positions [from, from + rows) of the permutation; NULL: of the files' order. */
void feed_rows(struct feed *f, const struct vb_perm *order, uint64_t from, uint64_t rows);

/* Positions of micro-batch v of nv in a batch of `rows` samples: [*from, *from + returned). */
uint64_t feed_micro_batch(uint64_t rows, uint64_t v, uint64_t nv, uint64_t *from_out);

#endif
