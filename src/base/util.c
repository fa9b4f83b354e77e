#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>

void vb_err_set(struct vb_err *err, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    for (unsigned char *c = (unsigned char *)err->text; *c != '\0'; c++)
        if (*c < ' ' || *c == 127)
            *c = '?'; /* names and values in it are other people's, the reason stays one line */
}

void vb_hex(char *out, const void *bytes, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    const unsigned char *b = bytes;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digit[b[i] >> 4];
        out[2 * i + 1] = digit[b[i] & 15];
    }
    out[2 * n] = '\0';
}
