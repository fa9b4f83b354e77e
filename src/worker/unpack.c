#include "worker/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { IN_BYTES = 64 << 10 };
#define SOME_BYTES (UINT64_C(1) << 30) /* zlib counts with 32 bits */

struct unpack {
    const char *name;
    struct vb_err *err;
    int fd;             /* -1: memory */
    const uint8_t *mem; /* what of it is not read yet: left bytes */
    uint64_t left, file_bytes;
    bool gzip, member_done;
    z_stream z; /* next_in, avail_in: what of `in` is not used yet, for plain files too */
    uint8_t in[IN_BYTES];
};

void unpack_close(struct unpack *u)
{
    if (u == NULL)
        return;
    if (u->gzip)
        inflateEnd(&u->z);
    if (u->fd >= 0)
        close(u->fd);
    free(u);
}

/* Makes sure that `want` bytes of input wait, fewer only at the end of the file. */
static enum vb_st refill(struct unpack *u, size_t want)
{
    if (u->z.avail_in >= want)
        return VB_OK;
    if (u->z.avail_in > 0)
        memmove(u->in, u->z.next_in, u->z.avail_in);
    u->z.next_in = u->in;
    while (u->z.avail_in < want) {
        uint8_t *to = u->in + u->z.avail_in;
        const size_t room = sizeof(u->in) - u->z.avail_in;
        ssize_t n = 0;

        if (u->fd >= 0) {
            n = read(u->fd, to, room);
        } else if (u->left > 0) {
            n = (ssize_t)VB_MIN(room, u->left);
            memcpy(to, u->mem, (size_t)n);
            u->mem += n;
            u->left -= (uint64_t)n;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            vb_err_set(u->err, "%s: reading failed: %s", u->name, strerror(errno));
            return VB_IO;
        }
        if (n == 0)
            return VB_OK;
        u->z.avail_in += (uInt)n;
    }
    return VB_OK;
}

static bool at_gzip_magic(const struct unpack *u)
{
    return u->z.avail_in >= 2 && u->z.next_in[0] == 0x1f && u->z.next_in[1] == 0x8b;
}

static enum vb_st start(struct unpack *u)
{
    const enum vb_st st = refill(u, 2);

    if (st != VB_OK || !at_gzip_magic(u))
        return st;
    if (inflateInit2(&u->z, 15 + 16) != Z_OK) { /* the largest window, gzip framing only */
        vb_err_set(u->err, "%s: out of memory for unpacking", u->name);
        return VB_NOMEM;
    }
    u->gzip = true;
    return VB_OK;
}

static struct unpack *unpack_new(const char *name, struct vb_err *err)
{
    struct unpack *u = calloc(1, sizeof(*u));

    if (u == NULL) {
        vb_err_set(err, "%s: out of memory for reading", name);
        return NULL;
    }
    u->name = name;
    u->err = err;
    u->fd = -1;
    return u;
}

enum vb_st unpack_file(const char *path, struct vb_err *err, struct unpack **out)
{
    struct unpack *u = unpack_new(path, err);
    struct stat file;
    enum vb_st st = VB_IO;

    if (u == NULL)
        return VB_NOMEM;
    u->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us */
    if (u->fd < 0 || fstat(u->fd, &file) != 0) {
        vb_err_set(err, "%s: cannot be opened: %s", path, strerror(errno));
        goto fail;
    }
    if (!S_ISREG(file.st_mode)) {
        vb_err_set(err, "%s: not a regular file; check the path", path);
        goto fail;
    }
    u->file_bytes = (uint64_t)file.st_size;
    st = start(u);
    if (st != VB_OK)
        goto fail;
    *out = u;
    return VB_OK;

fail:
    unpack_close(u);
    return st;
}

enum vb_st unpack_memory(const char *name, const void *file, uint64_t file_bytes,
                         struct vb_err *err, struct unpack **out)
{
    struct unpack *u = unpack_new(name, err);
    enum vb_st st;

    if (u == NULL)
        return VB_NOMEM;
    u->mem = file;
    u->left = u->file_bytes = file_bytes;
    st = start(u);
    if (st != VB_OK) {
        unpack_close(u);
        return st;
    }
    *out = u;
    return VB_OK;
}

static enum vb_st gzip_error(const struct unpack *u, int z)
{
    if (z == Z_MEM_ERROR) {
        vb_err_set(u->err, "%s: out of memory for unpacking", u->name);
        return VB_NOMEM;
    }
    if (z == Z_BUF_ERROR)
        vb_err_set(u->err, "%s: the gzip data end too early; get the file again", u->name);
    else
        vb_err_set(u->err, "%s: the gzip data are damaged (%s); get the file again", u->name,
                   u->z.msg != NULL ? u->z.msg : "no detail");
    return VB_INVAL;
}

/* One gzip member ended: is there another? */
static enum vb_st next_member(struct unpack *u, bool *more)
{
    const enum vb_st st = refill(u, 2);

    *more = u->z.avail_in > 0;
    if (st != VB_OK || !*more)
        return st;
    if (!at_gzip_magic(u)) {
        vb_err_set(u->err, "%s: bytes follow the end of the gzip data; get the file again",
                   u->name);
        return VB_INVAL;
    }
    inflateReset(&u->z);
    u->member_done = false;
    return VB_OK;
}

/* Some unpacked bytes; 0 in *got: the end. */
static enum vb_st gzip_some(struct unpack *u, uint8_t *to, size_t room, size_t *got)
{
    while (*got == 0) {
        enum vb_st st = refill(u, 1);
        bool more = true;

        if (st == VB_OK && u->member_done)
            st = next_member(u, &more);
        if (st != VB_OK || !more)
            return st;
        u->z.next_out = to;
        u->z.avail_out = (uInt)room;
        const int z = inflate(&u->z, Z_NO_FLUSH);

        *got = (size_t)(u->z.next_out - to);
        u->member_done = z == Z_STREAM_END;
        if (z != Z_OK && z != Z_STREAM_END && (z != Z_BUF_ERROR || *got == 0))
            return gzip_error(u, z);
    }
    return VB_OK;
}

static enum vb_st plain_some(struct unpack *u, uint8_t *to, size_t room, size_t *got)
{
    const enum vb_st st = refill(u, 1);

    *got = VB_MIN(room, (size_t)u->z.avail_in);
    memcpy(to, u->z.next_in, *got);
    u->z.next_in += *got;
    u->z.avail_in -= (uInt)*got;
    return st;
}

enum vb_st unpack_read(struct unpack *u, void *to, uint64_t bytes, uint64_t *got_out)
{
    uint64_t got = 0;

    while (got < bytes) {
        uint8_t *at = (uint8_t *)to + got;
        const size_t room = (size_t)VB_MIN(bytes - got, SOME_BYTES);
        size_t n = 0;
        const enum vb_st st = u->gzip ? gzip_some(u, at, room, &n) : plain_some(u, at, room, &n);

        if (st != VB_OK)
            return st;
        if (n == 0)
            break;
        got += n;
    }
    *got_out = got;
    return VB_OK;
}

uint64_t unpack_file_bytes(const struct unpack *u)
{
    return u->file_bytes;
}

bool unpack_is_gzip(const struct unpack *u)
{
    return u->gzip;
}

bool unpack_trailer(const struct unpack *u, uint32_t *length_out)
{
    uint8_t le[4];

    if (u->file_bytes < sizeof(le) ||
        pread(u->fd, le, sizeof(le), (off_t)(u->file_bytes - sizeof(le))) != sizeof(le))
        return false;
    *length_out = (uint32_t)le[3] << 24 | (uint32_t)le[2] << 16 | (uint32_t)le[1] << 8 | le[0];
    return true;
}
