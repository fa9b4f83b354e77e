/*
 * table.h - the chunk table: where every variable, range and chunk lies. A pure function of the job
 * file, computed alike by every task; hello compares its hash.
 *
 * Variables that share mode, optimizer and codecs are a class (class.h). Each class is laid out on one
 * line, in the order in which the forward pass needs them, each variable at a multiple of 64 bytes. A
 * line is cut into one contiguous range per ps, equal but for rounding to whole pages (so that a worker
 * can map the ranges side by side), and each range into equal chunks: the unit of transfer, ownership and
 * version. A worker's window has the lines of all classes one after another; a ps's region has its
 * ranges of them. Elements are float.
 */
#ifndef PS_TABLE_H
#define PS_TABLE_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_ALIGN = 64, PS_PAGE = 4096, PS_CLASSES_MAX = 16 };
#define PS_HUGE_PAGE (UINT64_C(2) << 20) /* ranges of 128 MiB and more are rounded to these */
#define PS_CHUNK_MAX (UINT64_C(1) << 20)
#define PS_CHUNK_MIN (UINT64_C(64) << 10)
#define PS_LINE_MAX (UINT64_C(1) << 46)

struct ps_var {
    const char *name; /* borrowed for as long as the table lives */
    uint64_t elems;
    uint32_t cls;    /* its class; neighbours, in the order of their classes */
    uint32_t need;   /* when the forward pass needs it: its place among all; rising in a class */
    uint64_t offset; /* bytes, in the window; set by ps_table_make */
};

struct ps_chunk {
    uint64_t offset, bytes; /* in the window */
    uint64_t at;            /* in the region of its ps */
    uint32_t ps, lane;
    uint32_t nth; /* of its lane's chunks */
    uint32_t cls;
    uint32_t need;             /* its place in the order in which the forward pass needs chunks */
    uint32_t first_var, nvars; /* the variables it overlaps */
};

struct ps_line {
    uint64_t offset;      /* in the window */
    uint64_t bytes;       /* its variables, padded to PS_ALIGN */
    uint64_t range_bytes; /* distance from one ps's range to the next; whole pages */
};

struct ps_table {
    uint32_t nvars, nps, nlanes, nchunks, nclasses;
    uint64_t line_bytes;   /* to the end of the last line */
    uint64_t window_bytes; /* to the end of its last range; whole pages */
    uint64_t page_bytes;   /* what ranges are rounded to */
    struct ps_line line[PS_CLASSES_MAX];
    struct ps_var *var;
    struct ps_chunk *chunk; /* by offset */
};

struct ps_table_params {
    const struct ps_var *var; /* name, elems, class and need; copied */
    uint32_t nvars, nps;
    uint32_t nlanes;      /* per ps; 0: 1 */
    uint64_t chunk_bytes; /* multiple of PS_ALIGN; 0: an eighth of the range within the limits */
};

/* gives: ps_table_fini. VB_INVAL: no variables, an empty one, classes out of
 * order, or sizes that overflow (err says). */
VB_MUST_CHECK enum vb_st ps_table_make(const struct ps_table_params *p, struct ps_table *out,
                                       struct vb_err *err);
void ps_table_fini(struct ps_table *t); /* takes zeroed */

/* Bytes of this ps's range of a class that carry variables (the last ranges may be short or empty). */
uint64_t ps_range_used(const struct ps_table *t, uint32_t cls, uint32_t ps);
/* The same in whole pages. */
uint64_t ps_range_pages(const struct ps_table *t, uint32_t cls, uint32_t ps);
/* Where the range of a class begins in the region of its ps; of nclasses: the region's bytes. */
uint64_t ps_range_at(const struct ps_table *t, uint32_t cls, uint32_t ps);
/* How many chunks a lane has; they are those of this ps and lane, in the order of the table. */
uint32_t ps_lane_chunks(const struct ps_table *t, uint32_t ps, uint32_t lane);

/* The chunks that a variable overlaps: first and count. */
uint32_t ps_var_chunks(const struct ps_table *t, uint32_t var, uint32_t *first_out);

/* One line of text that differs whenever the layout does; goes into the configuration's hash. */
void ps_table_text(const struct ps_table *t, char *buf, size_t buf_bytes);

#endif
