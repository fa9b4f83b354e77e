#include "cmd/secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX = 65536, LEAST_BYTES = 16 };

static enum vb_st make_key(const char *name, const char *text, size_t n,
                           unsigned char key[SECRET_KEY_BYTES], struct vb_err *err)
{
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    if (n < LEAST_BYTES) {
        vb_err_set(err, "%.200s: a secret of %zu bytes is too short, at least %d are needed", name,
                   n, LEAST_BYTES);
        return VB_INVAL;
    }
    if (sodium_init() < 0 ||
        crypto_generichash(key, SECRET_KEY_BYTES, (const unsigned char *)text, n, NULL, 0) != 0) {
        vb_err_set(err, "%.200s: libsodium failed", name);
        return VB_IO;
    }
    return VB_OK;
}

static enum vb_st check_file(const char *path, int fd, struct vb_err *err)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0) {
        vb_err_set(err, "%.300s: %s", path, strerror(errno));
        return VB_IO;
    }
    if (!S_ISREG(st.st_mode)) {
        vb_err_set(err, "%.300s: is not a file", path);
        return VB_INVAL;
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        vb_err_set(err, "%.200s: others can read the secret; run: chmod 600 %.200s", path, path);
        return VB_INVAL;
    }
    if (st.st_size > FILE_MAX) {
        vb_err_set(err, "%.300s: a secret of more than %d bytes", path, FILE_MAX);
        return VB_INVAL;
    }
    return VB_OK;
}

static enum vb_st read_file(const char *path, unsigned char key[SECRET_KEY_BYTES],
                            struct vb_err *err)
{
    AUTO_CLOSE const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[FILE_MAX];
    enum vb_st st = check_file(path, fd, err);

    if (st != VB_OK)
        return st;
    const ssize_t n = read(fd, text, sizeof(text)); /* a regular file: all that is asked for */
    if (n < 0) {
        vb_err_set(err, "%.300s: %s", path, strerror(errno));
        return VB_IO;
    }
    st = make_key(path, text, (size_t)n, key, err);
    sodium_memzero(text, sizeof(text));
    return st;
}

void secret_forget(void)
{
    char *text = getenv("VB_SECRET");

    if (text != NULL)
        sodium_memzero(text, strlen(text));
    unsetenv("VB_SECRET");
}

enum vb_st secret_read(const char *path, unsigned char key[SECRET_KEY_BYTES], struct vb_err *err)
{
    const char *text = getenv("VB_SECRET");

    if (path != NULL)
        return read_file(path, key, err);
    if (text == NULL) {
        vb_err_set(err,
                   "this job has no secret: make one with (umask 077; head -c 32 /dev/urandom | "
                   "base64 > job.secret), give every task --secret-file job.secret; "
                   "or --no-auth to run without");
        return VB_INVAL;
    }
    const enum vb_st st = make_key("VB_SECRET", text, strlen(text), key, err);
    secret_forget();
    return st;
}

void secret_make(char text[2 * SECRET_KEY_BYTES + 1])
{
    unsigned char bytes[SECRET_KEY_BYTES];

    if (sodium_init() < 0)
        abort(); /* no random numbers: nothing can be kept secret */
    randombytes_buf(bytes, sizeof(bytes));
    vb_hex(text, bytes, sizeof(bytes));
    sodium_memzero(bytes, sizeof(bytes));
}
