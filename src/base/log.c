#include "base/log.h"

#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[] = { "error", "warn", "info", "debug" };

enum vb_log_level vb_log_max = VB_LOG_WARN;
static char prefix_text[80];

void vb_log_prefix(const char *prefix)
{
    snprintf(prefix_text, sizeof(prefix_text), "%s", prefix != NULL ? prefix : "");
}

void vb_log_init(void)
{
    const char *want = getenv("VB_LOG");

    for (size_t i = 0; want != NULL && i < VB_ARRAY_LEN(level_names); i++)
        if (strcmp(want, level_names[i]) == 0)
            vb_log_max = (enum vb_log_level)i;
}

void vb_log_write(enum vb_log_level level, const char *mod, const char *fmt, ...)
{
    const int saved = errno;
    char line[1024];
    int n = snprintf(line, sizeof(line) - 1, "%s%s%s %s: ", prefix_text,
                     prefix_text[0] != '\0' ? " " : "", level_names[level], mod);
    va_list ap;

    errno = saved; /* for %m */
    va_start(ap, fmt);
    const int m = vsnprintf(line + n, sizeof(line) - 1 - (size_t)n, fmt, ap);
    va_end(ap);
    if (m > 0)
        n = VB_MIN(n + m, (int)sizeof(line) - 2);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* nowhere left to say it */
    }
    errno = saved;
}
