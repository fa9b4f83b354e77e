#include "transport/net_sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* false: too long */
static bool path_make(char *path, const char *root, const char *fmt, va_list ap)
{
    const int len = snprintf(path, PATH_MAX, "%s/", root);

    if (len < 0 || len >= PATH_MAX)
        return false;
    const int more = vsnprintf(path + len, (size_t)(PATH_MAX - len), fmt, ap);
    return more >= 0 && more < PATH_MAX - len;
}

static bool text_read(char *buf, size_t bytes, const char *path)
{
    /* whatever stands there instead of a file must not block */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = -1;

    buf[0] = '\0';
    if (fd >= 0) {
        n = read(fd, buf, bytes - 1);
        close(fd);
    }
    if (n < 0)
        return false;
    buf[n] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    for (unsigned char *c = (unsigned char *)buf; *c != '\0'; c++)
        if (*c < ' ' || *c > 126)
            *c = '?';
    return true;
}

bool sysfs_text(char *buf, size_t bytes, const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;

    va_start(ap, fmt);
    const bool fits = path_make(path, root, fmt, ap);
    va_end(ap);
    buf[0] = '\0';
    return fits && text_read(buf, bytes, path);
}

uint64_t sysfs_number(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX], text[32], *end;
    va_list ap;

    va_start(ap, fmt);
    const bool fits = path_make(path, root, fmt, ap);
    va_end(ap);
    if (!fits || !text_read(text, sizeof(text), path) || text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    const uint64_t value = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    return errno == 0 && *end == '\0' ? value : 0;
}

bool sysfs_has(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;

    va_start(ap, fmt);
    const bool fits = path_make(path, root, fmt, ap);
    va_end(ap);
    return fits && access(path, F_OK) == 0;
}

static int by_name(const void *a, const void *b)
{
    const struct sysfs_name *x = a, *y = b;

    return strverscmp(x->text, y->text);
}

bool sysfs_list(struct sysfs_name **out, size_t *n_out, size_t max, const char *root,
                const char *fmt, ...)
{
    char path[PATH_MAX];
    struct sysfs_name *list = NULL;
    size_t n = 0, room = 0;
    const struct dirent *e;
    va_list ap;

    *out = NULL;
    *n_out = 0;
    va_start(ap, fmt);
    const bool fits = path_make(path, root, fmt, ap);
    va_end(ap);
    DIR *dir = fits ? opendir(path) : NULL;
    while (dir != NULL && n < max && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(list->text))
            continue;
        if (n == room) {
            struct sysfs_name *more = realloc(list, (room = room * 2 + 16) * sizeof(*list));

            if (more == NULL) {
                free(list);
                closedir(dir);
                return false;
            }
            list = more;
        }
        strcpy(list[n++].text, e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    if (n > 1)
        qsort(list, n, sizeof(*list), by_name);
    *out = list;
    *n_out = n;
    return true;
}
