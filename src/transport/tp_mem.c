/*
 * Why a peer's file cannot hurt: F_SEAL_SHRINK keeps its end where it is; its blocks are counted, so
 * no page is missing; F_SEAL_FUTURE_WRITE also forbids punching holes into it later. A ring has to
 * be writable for us; a hole in it reads as zeroes, an ordinary page of ours.
 */
#include "transport/tp_mem.h"

#include "base/util.h"
#include "transport/mem_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define LOG_MOD "transport"
#include "base/log.h"

enum { ASK_BYTES = 1 << 20 }; /* smaller pieces are not worth a question */

static int seals_of(enum tp_mem_kind kind)
{
    return F_SEAL_SHRINK | F_SEAL_GROW | (kind == TP_MEM_RING ? 0 : F_SEAL_FUTURE_WRITE);
}

/* Leaves errno when it fails. */
static bool try_new(enum tp_mem_kind kind, uint64_t bytes, unsigned flags, void **base_out,
                    int *fd_out)
{
    static const char *const names[] = { [TP_MEM_REGION] = "verbena-region",
                                         [TP_MEM_HUGE] = "verbena-region",
                                         [TP_MEM_WORDS] = "verbena-words",
                                         [TP_MEM_RING] = "verbena-ring" };
    const int fd = memfd_create(names[kind], MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    void *base = MAP_FAILED;

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        goto fail;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        goto fail;
    if (flags == 0 && bytes >= TP_HUGE_BYTES)
        madvise(base, bytes, MADV_HUGEPAGE); /* a wish; many kernels say no */
    if (madvise(base, bytes, MADV_POPULATE_WRITE) != 0 ||
        fcntl(fd, F_ADD_SEALS, seals_of(kind)) != 0)
        goto fail;
    *base_out = base;
    *fd_out = fd;
    return true;

fail:;
    const int saved = errno;

    if (base != MAP_FAILED)
        munmap(base, bytes);
    if (fd >= 0)
        close(fd);
    errno = saved;
    return false;
}

/* Large pages are not of the control group's memory. */
static bool fits(uint64_t bytes)
{
    struct mem_limit m;

    if (bytes < ASK_BYTES || !mem_limit_read("/proc/self/cgroup", "/sys/fs/cgroup", &m) ||
        bytes <= m.left)
        return true;
    log_error("no %llu bytes of shared memory: %s is %llu bytes, %llu of them are left",
              (unsigned long long)bytes, m.file, (unsigned long long)m.limit,
              (unsigned long long)m.left);
    return false;
}

enum vb_st tp_mem_new(enum tp_mem_kind kind, uint64_t bytes, void **base_out, int *fd_out)
{
    if (bytes == 0 || bytes > INT64_MAX)
        return VB_INVAL;
    if (kind == TP_MEM_HUGE && bytes % TP_HUGE_BYTES == 0 &&
        try_new(kind, bytes, MFD_HUGETLB | MFD_HUGE_2MB, base_out, fd_out))
        return VB_OK;
    if (!fits(bytes))
        return VB_NOMEM;
    if (try_new(kind, bytes, 0, base_out, fd_out))
        return VB_OK;
    log_error("no %llu bytes of shared memory: %m", (unsigned long long)bytes);
    return VB_NOMEM;
}

enum vb_st tp_mem_check(enum tp_mem_kind kind, int fd, uint64_t bytes)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;

    if (seals < 0 || (seals & seals_of(kind)) != seals_of(kind))
        return VB_PROTO;
    if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size != bytes || bytes == 0 ||
        (uint64_t)st.st_blocks < (bytes + 511) / 512)
        return VB_PROTO;
    if (fstatfs(fd, &fs) != 0)
        return VB_PROTO;
    if (fs.f_type != TMPFS_MAGIC && (kind != TP_MEM_REGION || fs.f_type != HUGETLBFS_MAGIC))
        return VB_PROTO;
    return VB_OK;
}

enum vb_st tp_mem_map(enum tp_mem_kind kind, int fd, uint64_t offset, uint64_t bytes, void *at,
                      void **base_out)
{
    const bool ring = kind == TP_MEM_RING;
    void *base = mmap(at, bytes, ring ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, (off_t)offset);

    if (base == MAP_FAILED) {
        log_error("cannot map %llu bytes of a peer: %m", (unsigned long long)bytes);
        return VB_NOMEM;
    }
    /* the pages exist; this only fills our page tables before the first message needs them */
    if (madvise(base, bytes, ring ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
        log_error("cannot populate %llu bytes of a peer: %m", (unsigned long long)bytes);
        if (at == NULL)
            munmap(base, bytes);
        return VB_NOMEM;
    }
    *base_out = base;
    return VB_OK;
}
