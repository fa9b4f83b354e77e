#include "worker/idx.h"

#include "worker/unpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TYPE_U8 = 0x08,
    DEFLATE_MAX = 1032, /* bytes that one byte of deflate data can become */
    DIMS_TEXT = 64,     /* IDX_DIMS_MAX numbers of 10 digits, " x " between them */
};

static uint64_t head_bytes(const struct idx *x)
{
    return 4 + 4 * (uint64_t)x->ndims;
}

static void dims_text(const struct idx *x, char out[DIMS_TEXT])
{
    size_t at = 0;

    for (uint32_t i = 0; i < x->ndims; i++)
        at +=
            (size_t)snprintf(out + at, DIMS_TEXT - at, "%s%" PRIu64, i > 0 ? " x " : "", x->dim[i]);
}

static enum vb_st check_magic(const char *name, const uint8_t *head, uint64_t got,
                              struct vb_err *err)
{
    if (got < 4 || head[0] != 0 || head[1] != 0)
        vb_err_set(err, "%s: not an IDX file, plain or gzip (the first bytes); check the path",
                   name);
    else if (head[2] != TYPE_U8)
        vb_err_set(err, "%s: IDX elements of type 0x%02x; only bytes (0x08) are read, convert them",
                   name, head[2]);
    else if (head[3] < 1 || head[3] > IDX_DIMS_MAX)
        vb_err_set(err, "%s: an IDX file of %u dimensions; 1 to %d are read, check the path", name,
                   head[3], IDX_DIMS_MAX);
    else
        return VB_OK;
    return VB_INVAL;
}

/* Can the file hold what its header says? A plain file: does it, exactly? */
static enum vb_st check_size(const char *name, const struct unpack *u, const struct idx *x,
                             bool product_fits, struct vb_err *err)
{
    const uint64_t file_bytes = unpack_file_bytes(u);
    uint64_t most = file_bytes;
    char dims[DIMS_TEXT];

    dims_text(x, dims);
    if (unpack_is_gzip(u) && !vb_mul(most, DEFLATE_MAX, &most))
        most = UINT64_MAX;
    if (product_fits && x->bytes == 0)
        vb_err_set(err, "%s: the header says %s, no data; check the path", name, dims);
    else if (!product_fits || !vb_inside(head_bytes(x), x->bytes, most))
        vb_err_set(err,
                   "%s: the header says %s, more than a file of %" PRIu64
                   " bytes can hold; get the file again",
                   name, dims, file_bytes);
    else if (!unpack_is_gzip(u) && head_bytes(x) + x->bytes != file_bytes)
        vb_err_set(err, "%s: the header says %s, and %" PRIu64 " bytes follow; get the file again",
                   name, dims, file_bytes - head_bytes(x) - x->bytes);
    else
        return VB_OK;
    return VB_INVAL;
}

static enum vb_st read_head(const char *name, struct unpack *u, struct idx *x, struct vb_err *err)
{
    uint8_t head[4 + 4 * IDX_DIMS_MAX];
    uint64_t got = 0;
    bool fits = true;
    enum vb_st st = unpack_read(u, head, 4, &got);

    if (st == VB_OK)
        st = check_magic(name, head, got, err);
    if (st != VB_OK)
        return st;
    *x = (struct idx){ .ndims = head[3], .bytes = 1 };
    st = unpack_read(u, head + 4, head_bytes(x) - 4, &got);
    if (st != VB_OK)
        return st;
    if (got < head_bytes(x) - 4) {
        vb_err_set(err, "%s: ends inside its header; get the file again", name);
        return VB_INVAL;
    }
    for (uint32_t i = 0; i < x->ndims; i++) {
        const uint8_t *be = head + 4 + 4 * i;

        x->dim[i] = (uint64_t)be[0] << 24 | (uint64_t)be[1] << 16 | (uint64_t)be[2] << 8 | be[3];
        fits = fits && vb_mul(x->bytes, x->dim[i], &x->bytes);
    }
    return check_size(name, u, x, fits, err);
}

static enum vb_st read_body(const char *name, struct unpack *u, struct idx *x, struct vb_err *err)
{
    uint64_t got = 0, beyond = 0;
    uint8_t extra;
    enum vb_st st;

    x->data = malloc(x->bytes);
    if (x->data == NULL) {
        vb_err_set(err, "%s: no memory for its %" PRIu64 " bytes", name, x->bytes);
        return VB_NOMEM;
    }
    st = unpack_read(u, x->data, x->bytes, &got);
    if (st == VB_OK && got == x->bytes)
        st = unpack_read(u, &extra, 1, &beyond); /* reaches the end: checks the checksum, too */
    if (st != VB_OK || (got == x->bytes && beyond == 0))
        return st;
    if (beyond > 0)
        vb_err_set(err, "%s: more than the %" PRIu64 " bytes of its header; get the file again",
                   name, x->bytes);
    else
        vb_err_set(err, "%s: ends after %" PRIu64 " of %" PRIu64 " bytes; get the file again", name,
                   got, x->bytes);
    return VB_INVAL;
}

/* Takes u. */
static enum vb_st read_all(const char *name, struct unpack *u, struct idx *out, struct vb_err *err)
{
    struct idx x = { 0 };
    enum vb_st st = read_head(name, u, &x, err);

    if (st == VB_OK)
        st = read_body(name, u, &x, err);
    if (st == VB_OK)
        *out = x;
    else
        idx_fini(&x);
    unpack_close(u);
    return st;
}

enum vb_st idx_probe(const char *path, struct idx *out, struct vb_err *err)
{
    struct unpack *u = NULL;
    struct idx x = { 0 };
    uint32_t length = 0;
    enum vb_st st = unpack_file(path, err, &u);

    if (st == VB_OK)
        st = read_head(path, u, &x, err);
    if (st == VB_OK && unpack_is_gzip(u) &&
        (!unpack_trailer(u, &length) || length != (uint32_t)(head_bytes(&x) + x.bytes))) {
        st = read_body(path, u, &x, err);
        free(x.data);
        x.data = NULL;
    }
    unpack_close(u);
    if (st == VB_OK)
        *out = x;
    return st;
}

enum vb_st idx_load(const char *path, struct idx *out, struct vb_err *err)
{
    struct unpack *u = NULL;
    const enum vb_st st = unpack_file(path, err, &u);

    return st == VB_OK ? read_all(path, u, out, err) : st;
}

enum vb_st idx_parse(const char *name, const void *file, size_t file_bytes, struct idx *out,
                     struct vb_err *err)
{
    struct unpack *u = NULL;
    const enum vb_st st = unpack_memory(name, file, file_bytes, err, &u);

    return st == VB_OK ? read_all(name, u, out, err) : st;
}

void idx_fini(struct idx *x)
{
    free(x->data);
    *x = (struct idx){ 0 };
}
