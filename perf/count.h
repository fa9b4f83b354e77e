/*
 * count.h - what count.c counts while it is preloaded (LD_PRELOAD): calls by any code of the process and
 * of those that it has forked since, all in one place that they share.
 */
#ifndef PERF_COUNT_H
#define PERF_COUNT_H

#include <stdatomic.h>

struct vb_counts {
    atomic_ulong mallocs;      /* malloc, calloc, realloc, aligned_alloc, posix_memalign */
    atomic_ulong mmaps;        /* mmap */
    atomic_ulong registers;    /* ucp_mem_map, ibv_reg_mr, ibv_reg_mr_iova2 */
    atomic_ulong syscalls;     /* reading, writing, sending, receiving, polling, sleeping, ioctl */
    atomic_ulong copied_bytes; /* memcpy and memmove of VB_COUNT_COPY bytes or more, called by the
                                  program itself, not by a library */
};
enum { VB_COUNT_COPY = 1024 };

/* Found by dlsym; not there: not preloaded. */
#define VB_COUNTS_SYMBOL "vb_counts_shared"

#endif
