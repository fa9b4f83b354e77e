/*
 * idx.h - reads IDX files, the format of MNIST and its kin: big-endian magic 00 00 08 ndims, ndims
 * sizes of 32 bits, then the elements, row-major, unsigned bytes. Plain or compressed by gzip, told
 * by the first bytes.
 *
 * Files are hostile: nothing is allocated for a size that the file cannot hold (deflate makes at
 * most 1032 bytes of one), and the file must end where its header says. Thread: any; blocks on the
 * disk.
 *
 * VB_IO: the file cannot be read. VB_INVAL: it is not what it should be. VB_NOMEM. err is one line:
 * path, what, what to do.
 */
#ifndef WORKER_IDX_H
#define WORKER_IDX_H

#include "base/util.h"
#include "verbena/status.h"

#include <stddef.h>
#include <stdint.h>

enum { IDX_DIMS_MAX = 4 };

struct idx {
    uint32_t ndims;             /* 1 to IDX_DIMS_MAX */
    uint64_t dim[IDX_DIMS_MAX]; /* each at least 1 */
    uint64_t bytes;             /* their product */
    uint8_t *data;              /* NULL after idx_probe */
};

/*
 * Reads the header and compares it with the file's size, without unpacking the body: microseconds.
 * (For a gzip file whose last four bytes do not confirm the size the body is unpacked after all, to
 * name what is wrong.)
 */
VB_MUST_CHECK enum vb_st idx_probe(const char *path, struct idx *out, struct vb_err *err);

/* Reads all of it. gives: idx_fini. */
VB_MUST_CHECK enum vb_st idx_load(const char *path, struct idx *out, struct vb_err *err);

/* As idx_load, from a whole file in memory; name stands for the path in err. */
VB_MUST_CHECK enum vb_st idx_parse(const char *name, const void *file, size_t file_bytes,
                                   struct idx *out, struct vb_err *err);

void idx_fini(struct idx *x); /* takes zeroed */

#endif
