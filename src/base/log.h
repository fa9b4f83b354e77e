/*
 * log.h - lines for people on stderr, one write(2) a line, safe from every thread.
 *
 * The first function that knows the exact cause logs it, once. Lower case, no full stop, no
 * name=value, peer and numbers included, %m for system calls. error: this run cannot go on; warn: it
 * goes on, differently; info: once per run; debug: per object. errno survives. Define LOG_MOD before
 * including this.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum vb_log_level { VB_LOG_ERROR, VB_LOG_WARN, VB_LOG_INFO, VB_LOG_DEBUG };

extern enum vb_log_level vb_log_max; /* set once, before threads: VB_LOG=error|warn|info|debug */

/* Text in front of every line, e.g. "/job:ps/task:0"; NULL or "": none. Copied. Before threads. */
void vb_log_prefix(const char *prefix);
/* Reads VB_LOG. Before threads. */
void vb_log_init(void);

__attribute__((format(printf, 3, 4))) void vb_log_write(enum vb_log_level level, const char *mod,
                                                        const char *fmt, ...);

#define vb_log_at(level, ...)                                                                      \
    do {                                                                                           \
        if ((level) <= vb_log_max)                                                                 \
            __extension__ vb_log_write((level), LOG_MOD, __VA_ARGS__);                             \
    } while (0)
#define log_error(...) vb_log_at(VB_LOG_ERROR, __VA_ARGS__)
#define log_warn(...) vb_log_at(VB_LOG_WARN, __VA_ARGS__)
#define log_info(...) vb_log_at(VB_LOG_INFO, __VA_ARGS__)
#define log_debug(...) vb_log_at(VB_LOG_DEBUG, __VA_ARGS__)

#endif
