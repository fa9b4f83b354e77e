/* IDX files, good and hostile; every case as a file and in memory, which must answer alike. */
#include "worker/idx.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FILE_MAX = 1 << 20 };
static const char fashion[] = "/usr/share/datasets/fashion-mnist/";

struct file {
    size_t bytes;
    uint8_t at[FILE_MAX];
};
static struct file plain, packed;
static char path[] = "/tmp/verbena-test-idx-XXXXXX";

/* A header for these dimensions, and `body` bytes 0, 1, 2 ... after it. */
static void make(uint8_t type, uint32_t ndims, const uint32_t *dim, size_t body)
{
    plain.bytes = 0;
    memcpy(plain.at, (const uint8_t[]){ 0, 0, type, (uint8_t)ndims }, 4);
    for (uint32_t i = 0; i < ndims; i++)
        for (int k = 0; k < 4; k++)
            plain.at[4 + 4 * i + (uint32_t)k] = (uint8_t)(dim[i] >> (24 - 8 * k));
    for (size_t i = 0; i < body; i++)
        plain.at[4 + 4 * ndims + i] = (uint8_t)i;
    plain.bytes = 4 + 4 * ndims + body;
}

/* Appends a gzip member of these bytes to packed. */
static void pack(const uint8_t *from, size_t bytes)
{
    z_stream z = { 0 };

    cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)from;
    z.avail_in = (uInt)bytes;
    z.next_out = packed.at + packed.bytes;
    z.avail_out = (uInt)(FILE_MAX - packed.bytes);
    cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.bytes = (size_t)(z.next_out - packed.at);
    deflateEnd(&z);
}

static void pack_plain(void)
{
    packed.bytes = 0;
    pack(plain.at, plain.bytes);
}

static void save(const struct file *f)
{
    const int fd = mkstemp(strcpy(path, "/tmp/verbena-test-idx-XXXXXX"));

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, f->at, f->bytes), (ssize_t)f->bytes);
    close(fd);
}

static void refused(const struct file *f, const char *why)
{
    struct idx x = { 0 };
    struct vb_err err[3] = { { "" } };

    save(f);
    cr_assert_eq(idx_load(path, &x, &err[0]), VB_INVAL, "%s", why);
    cr_assert_eq(idx_probe(path, &x, &err[1]), VB_INVAL, "probe: %s", why);
    cr_assert_eq(idx_parse(path, f->at, f->bytes, &x, &err[2]), VB_INVAL, "memory: %s", why);
    cr_assert_null(x.data);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(strncmp(err[i].text, path, strlen(path)), 0, "no path in '%s'", err[i].text);
        cr_assert_not_null(strstr(err[i].text, why), "%d: '%s', not '%s'", i, err[i].text, why);
        cr_assert_null(strchr(err[i].text, '\n'));
    }
    unlink(path);
}

static void same(const struct idx *x, uint32_t ndims, const uint32_t *dim, bool body)
{
    cr_assert_eq(x->ndims, ndims);
    for (uint32_t i = 0; i < ndims; i++)
        cr_assert_eq(x->dim[i], dim[i]);
    cr_assert_eq(x->bytes, plain.bytes - 4 - 4 * ndims);
    cr_assert_eq(x->data != NULL, body);
    cr_assert(!body || memcmp(x->data, plain.at + 4 + 4 * ndims, x->bytes) == 0);
}

static void accepted(const struct file *f, uint32_t ndims, const uint32_t *dim)
{
    struct idx x = { 0 };
    struct vb_err err = { "" };

    save(f);
    cr_assert_eq(idx_probe(path, &x, &err), VB_OK, "%s", err.text);
    same(&x, ndims, dim, false);
    cr_assert_eq(idx_load(path, &x, &err), VB_OK, "%s", err.text);
    same(&x, ndims, dim, true);
    idx_fini(&x);
    cr_assert_eq(idx_parse("memory", f->at, f->bytes, &x, &err), VB_OK, "%s", err.text);
    same(&x, ndims, dim, true);
    idx_fini(&x);
    unlink(path);
}

static const uint32_t dims[][4] = { { 5 }, { 3, 7 }, { 20, 28, 28 }, { 2, 3, 4, 5 }, { 300000 } };
static const uint32_t ranks[] = { 1, 2, 3, 4, 1 };

Test(idx, plain_and_gzip_files_are_read)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(ranks); i++) {
        size_t body = 1;

        for (uint32_t k = 0; k < ranks[i]; k++)
            body *= dims[i][k];
        make(8, ranks[i], dims[i], body);
        pack_plain();
        accepted(&plain, ranks[i], dims[i]);
        accepted(&packed, ranks[i], dims[i]);
    }
}

Test(idx, several_gzip_members_are_one_file)
{
    make(8, 3, dims[2], 20 * 28 * 28);
    packed.bytes = 0;
    pack(plain.at, 7); /* inside the header */
    pack(plain.at + 7, 0);
    pack(plain.at + 7, 5000);
    pack(plain.at + 5007, plain.bytes - 5007);
    accepted(&packed, 3, dims[2]);
}

Test(idx, every_truncation_is_refused)
{
    make(8, 2, dims[1], 21);
    pack_plain();
    const size_t whole[2] = { plain.bytes, packed.bytes };

    for (size_t n = 0; n < whole[0]; n++) {
        plain.bytes = n;
        refused(&plain, n < 4    ? "not an IDX file"
                        : n < 12 ? "ends inside its header"
                                 : "can hold; get the file again");
    }
    for (size_t n = 2; n < whole[1]; n++) {
        packed.bytes = n;
        refused(&packed, "end too early; get the file again");
    }
}

Test(idx, bytes_after_the_end_are_refused)
{
    make(8, 2, dims[1], 22);
    refused(&plain, "the header says 3 x 7, and 1 bytes follow; get the file again");
    pack_plain();
    refused(&packed, "more than the 21 bytes of its header");
    make(8, 2, dims[1], 21);
    pack_plain();
    packed.at[packed.bytes++] = 0;
    refused(&packed, "bytes follow the end of the gzip data");
    make(8, 2, dims[1], 20);
    pack_plain();
    refused(&packed, "ends after 20 of 21 bytes");
}

Test(idx, other_files_are_told_apart)
{
    strcpy((char *)plain.at, "PK\3\4 a zip file");
    plain.bytes = 15;
    refused(&plain, "not an IDX file, plain or gzip (the first bytes); check the path");
    pack_plain();
    refused(&packed, "not an IDX file");
    make(0x0d, 1, dims[0], 5);
    refused(&plain, "IDX elements of type 0x0d");
    make(8, 0, NULL, 5);
    refused(&plain, "an IDX file of 0 dimensions");
    make(8, 4, dims[3], 120);
    plain.at[3] = 5;
    refused(&plain, "an IDX file of 5 dimensions");
}

Test(idx, damaged_gzip_is_refused)
{
    make(8, 3, dims[2], 20 * 28 * 28);
    pack_plain();
    packed.at[packed.bytes - 6] ^= 1; /* the checksum; the probe, in microseconds, cannot see it */
    struct idx x = { 0 };
    struct vb_err err = { "" };

    cr_assert_eq(idx_parse("a.gz", packed.at, packed.bytes, &x, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "a.gz: the gzip data are damaged (incorrect data check); get the "
                               "file again");
    pack_plain();
    packed.at[3] = 0xff; /* reserved flags of the gzip header */
    refused(&packed, "the gzip data are damaged");
}

Test(idx, impossible_sizes_allocate_nothing)
{
    const uint32_t huge[4] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX };
    const uint32_t wraps[4] = { 1u << 31, 1u << 31, 4, 1 }, none[2] = { 7, 0 };
    const uint32_t large[2] = { 1 << 20, 1 << 12 }; /* 4 GiB, from a few bytes */

    for (uint32_t n = 1; n <= 4; n++) {
        make(8, n, huge, 100);
        refused(&plain, "bytes can hold");
        pack_plain();
        refused(&packed, "bytes can hold");
    }
    make(8, 4, wraps, 100);
    refused(&plain, "the header says 2147483648 x 2147483648 x 4 x 1, more than a file of 120");
    make(8, 2, none, 0);
    refused(&plain, "the header says 7 x 0, no data");
    make(8, 2, large, 100);
    pack_plain();
    refused(&packed, "the header says 1048576 x 4096, more than a file of");
}

Test(idx, what_is_no_file_is_an_error_at_once)
{
    struct idx x = { 0 };
    struct vb_err err = { "" };
    char dir[] = "/tmp/verbena-test-idx-dir-XXXXXX", pipe[64];

    cr_assert_eq(idx_load("/nowhere/images.gz", &x, &err), VB_IO);
    cr_assert_str_eq(err.text, "/nowhere/images.gz: cannot be opened: No such file or directory");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(idx_probe(dir, &x, &err), VB_IO);
    cr_assert_not_null(strstr(err.text, "not a regular file"));
    snprintf(pipe, sizeof(pipe), "%s/pipe", dir);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_assert_eq(idx_load(pipe, &x, &err), VB_IO);
    unlink(pipe);
    rmdir(dir);
    idx_fini(&x);
}

Test(idx, fashion_mnist_is_read_when_it_is_there)
{
    static const struct {
        const char *name;
        uint32_t ndims;
        uint64_t n;
    } set[] = { { "train-images-idx3-ubyte.gz", 3, 60000 },
                { "train-labels-idx1-ubyte.gz", 1, 60000 },
                { "t10k-images-idx3-ubyte.gz", 3, 10000 },
                { "t10k-labels-idx1-ubyte.gz", 1, 10000 } };
    struct vb_err err = { "" };

    if (access(fashion, R_OK) != 0)
        cr_skip_test("no data set at %s", fashion);
    for (size_t i = 0; i < VB_ARRAY_LEN(set); i++) {
        struct idx x = { 0 }, probed = { 0 };
        char name[128];

        snprintf(name, sizeof(name), "%s%s", fashion, set[i].name);
        cr_assert_eq(idx_probe(name, &probed, &err), VB_OK, "%s", err.text);
        cr_assert_eq(idx_load(name, &x, &err), VB_OK, "%s", err.text);
        cr_assert(x.ndims == set[i].ndims && x.dim[0] == set[i].n && x.bytes == probed.bytes);
        cr_assert_eq(x.bytes, x.ndims == 3 ? x.dim[0] * 784 : x.dim[0]);
        for (uint64_t k = 0; x.ndims == 1 && k < x.bytes; k++)
            cr_assert_lt(x.data[k], 10);
        idx_fini(&x);
    }
}
