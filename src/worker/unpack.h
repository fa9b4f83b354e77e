/*
 * unpack.h - reads a file, or memory in its place, as a stream of bytes; unpacks gzip when it
 * starts like that. Several gzip members in a row are one stream, their checksums are verified.
 * Thread: one at a time; blocks on the disk. Failures are as in idx.h.
 */
#ifndef WORKER_UNPACK_H
#define WORKER_UNPACK_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

struct unpack;

/* gives: unpack_close. name and err must outlive it. */
VB_MUST_CHECK enum vb_st unpack_file(const char *path, struct vb_err *err, struct unpack **out);
VB_MUST_CHECK enum vb_st unpack_memory(const char *name, const void *file, uint64_t file_bytes,
                                       struct vb_err *err, struct unpack **out);
void unpack_close(struct unpack *u); /* takes NULL */

/* Reads as many bytes as asked for, fewer only at the end of the stream. */
VB_MUST_CHECK enum vb_st unpack_read(struct unpack *u, void *to, uint64_t bytes, uint64_t *got_out);

uint64_t unpack_file_bytes(const struct unpack *u); /* before unpacking */
bool unpack_is_gzip(const struct unpack *u);

/* The last four bytes of a file: what gzip says of the length of its last member, modulo 2^32.
 * false: there are none. */
bool unpack_trailer(const struct unpack *u, uint32_t *length_out);

#endif
