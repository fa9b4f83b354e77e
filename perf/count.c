/*
 * count.c - a library to be preloaded: stands in front of the functions that count.h names, counts, and
 * calls them. A lock inside libc that sleeps is not seen.
 */
#include "perf/count.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct vb_counts before; /* until the shared place is there */
static struct vb_counts *counts = &before;
static uintptr_t program_begin, program_end;

EXPORT struct vb_counts *vb_counts_shared(void);
struct vb_counts *vb_counts_shared(void)
{
    return counts;
}

static void count(atomic_ulong *c, unsigned long n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* The first object is the program. */
static int note_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];

        if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0)
            continue;
        program_begin = info->dlpi_addr + h->p_vaddr;
        program_end = program_begin + h->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    void *page = (void *)syscall(SYS_mmap, NULL, sizeof(struct vb_counts), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)dl_iterate_phdr(note_program, NULL);
    if (page != MAP_FAILED)
        counts = page;
}

/* The next function of that name, as whatever type is asked for. */
static void find(void *out, const char *name, const char *library)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (f == NULL && library != NULL)
        f = dlsym(dlopen(library, RTLD_LAZY), name);
    if (f == NULL)
        abort();
    __builtin_memcpy(out, &f, sizeof(f));
}

/* library: where it is when nothing that is linked has it; NULL: the C library has it. */
#define COUNTED(counter, library, type, name, params, args)                                        \
    EXPORT type name params;                                                                       \
    type name params                                                                               \
    {                                                                                              \
        static type(*next) params;                                                                 \
                                                                                                   \
        if (next == NULL)                                                                          \
            find(&next, #name, library);                                                           \
        count(&counts->counter, 1);                                                                \
        return next args;                                                                          \
    }

/* ---- memory; dlsym may allocate itself, so these go by the names that glibc keeps for such cases ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

EXPORT void *malloc(size_t n)
{
    count(&counts->mallocs, 1);
    return __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    count(&counts->mallocs, 1);
    return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
    count(&counts->mallocs, 1);
    return __libc_realloc(p, n);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
    count(&counts->mallocs, 1);
    return __libc_memalign(align, n);
}

EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
    count(&counts->mallocs, 1);
    *out = __libc_memalign(align, n);
    return *out != NULL ? 0 : 12; /* ENOMEM */
}

COUNTED(mmaps, NULL, void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
        (at, n, prot, flags, fd, offset))

/* ---- registering ---- */

COUNTED(registers, "libucp.so.0", int, ucp_mem_map, (void *ctx, const void *params, void *mem_out),
        (ctx, params, mem_out))
COUNTED(registers, "libibverbs.so.1", void *, ibv_reg_mr,
        (void *pd, void *at, size_t bytes, int access), (pd, at, bytes, access))
COUNTED(registers, "libibverbs.so.1", void *, ibv_reg_mr_iova2,
        (void *pd, void *at, size_t bytes, uint64_t iova, unsigned access),
        (pd, at, bytes, iova, access))

/* ---- system calls ---- */

COUNTED(syscalls, NULL, ssize_t, read, (int fd, void *at, size_t n), (fd, at, n))
COUNTED(syscalls, NULL, ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n))
COUNTED(syscalls, NULL, ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
COUNTED(syscalls, NULL, ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
COUNTED(syscalls, NULL, ssize_t, send, (int fd, const void *at, size_t n, int flags),
        (fd, at, n, flags))
COUNTED(syscalls, NULL, ssize_t, recv, (int fd, void *at, size_t n, int flags), (fd, at, n, flags))
COUNTED(syscalls, NULL, ssize_t, sendto,
        (int fd, const void *at, size_t n, int flags, __CONST_SOCKADDR_ARG to, socklen_t bytes),
        (fd, at, n, flags, to, bytes))
COUNTED(syscalls, NULL, ssize_t, recvfrom,
        (int fd, void *at, size_t n, int flags, __SOCKADDR_ARG from, socklen_t *bytes),
        (fd, at, n, flags, from, bytes))
COUNTED(syscalls, NULL, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags),
        (fd, m, flags))
COUNTED(syscalls, NULL, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
COUNTED(syscalls, NULL, int, poll, (struct pollfd * f, nfds_t n, int ms), (f, n, ms))
COUNTED(syscalls, NULL, int, ppoll,
        (struct pollfd * f, nfds_t n, const struct timespec *t, const sigset_t *mask),
        (f, n, t, mask))
COUNTED(syscalls, NULL, int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms),
        (fd, e, n, ms))
COUNTED(syscalls, NULL, int, epoll_ctl, (int fd, int op, int of, struct epoll_event *e),
        (fd, op, of, e))
COUNTED(syscalls, NULL, int, nanosleep, (const struct timespec *t, struct timespec *left),
        (t, left))
COUNTED(syscalls, NULL, int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec *t, struct timespec *left),
        (clock, flags, t, left))
COUNTED(syscalls, NULL, int, sched_yield, (void), ())

EXPORT int ioctl(int fd, unsigned long request, ...);
int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int fd, unsigned long request, ...);
    va_list ap;

    va_start(ap, request);

    void *arg = va_arg(ap, void *);

    va_end(ap);
    if (next == NULL)
        find(&next, "ioctl", NULL);
    count(&counts->syscalls, 1);
    return next(fd, request, arg);
}

EXPORT long syscall(long number, ...);
long syscall(long number, ...)
{
    static long (*next)(long number, ...);
    va_list ap;
    long a[6];

    va_start(ap, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (next == NULL)
        find(&next, "syscall", NULL);
    count(&counts->syscalls, 1);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- copies ---- */

static void count_copy(const void *caller, size_t n)
{
    const uintptr_t at = (uintptr_t)caller;

    if (n >= VB_COUNT_COPY && at >= program_begin && at < program_end)
        count(&counts->copied_bytes, n);
}

/* Loops that the compiler leaves alone: it would make calls of memcpy and memmove of them. */
static void *move(void *to, const void *from, size_t n)
{
    volatile char *t = to;
    const volatile char *f = from;

    if ((uintptr_t)t > (uintptr_t)f && (uintptr_t)t < (uintptr_t)f + n) {
        while (n-- > 0)
            t[n] = f[n];
        return to;
    }
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(t), "+S"(f), "+c"(n) : : "memory");
#else
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
#endif
    return to;
}

#define COPIED(name)                                                                               \
    EXPORT void *name(void *to, const void *from, size_t n)                                        \
    {                                                                                              \
        count_copy(__builtin_return_address(0), n);                                                \
        return move(to, from, n);                                                                  \
    }

COPIED(memcpy)
COPIED(memmove)
