/*
 * table.h - the chunk table: where every variable, range and chunk lies. A pure function of the job
 * file, computed alike by every task; hello compares its hash.
 *
 * A class of variables is laid out on one line, in the order in which the forward pass needs them,
 * each variable at a multiple of 64 bytes. The line is cut into one contiguous range per ps, equal
 * but for rounding to whole pages (so that a worker can map the ranges side by side), and each range
 * into equal chunks: the unit of transfer, ownership and version. Elements are float.
 */
#ifndef PS_TABLE_H
#define PS_TABLE_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_ALIGN = 64, PS_PAGE = 4096 };
#define PS_HUGE_PAGE (UINT64_C(2) << 20) /* ranges of 128 MiB and more are rounded to these */
#define PS_CHUNK_MAX (UINT64_C(1) << 20)
#define PS_CHUNK_MIN (UINT64_C(64) << 10)
#define PS_LINE_MAX (UINT64_C(1) << 46)

struct ps_var {
    const char *name; /* borrowed for as long as the table lives */
    uint64_t elems;
    uint64_t offset; /* bytes, in the line; set by ps_table_make */
};

struct ps_chunk {
    uint64_t offset, bytes; /* in the line */
    uint32_t ps, lane;
    uint32_t first_var, nvars; /* the variables it overlaps */
};

struct ps_table {
    uint32_t nvars, nps, nlanes, nchunks;
    uint64_t line_bytes;  /* all variables, padded to PS_ALIGN */
    uint64_t range_bytes; /* distance from one ps's range to the next; whole pages */
    uint64_t page_bytes;  /* what ranges are rounded to */
    struct ps_var *var;
    struct ps_chunk *chunk; /* by offset */
};

struct ps_table_params {
    const struct ps_var *var; /* name and elems; copied */
    uint32_t nvars, nps;
    uint32_t nlanes;      /* per ps; 0: 1 */
    uint64_t chunk_bytes; /* multiple of PS_ALIGN; 0: an eighth of the range within the limits */
};

/* gives: ps_table_fini. VB_INVAL: no variables, an empty one, or sizes that overflow (err says). */
VB_MUST_CHECK enum vb_st ps_table_make(const struct ps_table_params *p, struct ps_table *out,
                                       struct vb_err *err);
void ps_table_fini(struct ps_table *t); /* takes zeroed */

/* Bytes of this ps's range that carry variables (the last ranges may be short or empty). */
uint64_t ps_range_used(const struct ps_table *t, uint32_t ps);
/* Bytes of the region that holds the range: whole pages, at least one. */
uint64_t ps_range_region(const struct ps_table *t, uint32_t ps);
/* First chunk of a ps and how many; they are neighbours. */
uint32_t ps_range_chunks(const struct ps_table *t, uint32_t ps, uint32_t *first_out);

/* The chunks that a variable overlaps: first and count. */
uint32_t ps_var_chunks(const struct ps_table *t, uint32_t var, uint32_t *first_out);

/* One line of text that differs whenever the layout does; goes into the configuration's hash. */
void ps_table_text(const struct ps_table *t, char *buf, size_t buf_bytes);

#endif
