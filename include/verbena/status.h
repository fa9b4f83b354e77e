/*
 * status.h - the one status type of verbena.
 *
 * Zero is success, failures are negative, the caller must look. The enum and its text come from one
 * list. A code exists only because some caller does something different on it.
 */
#ifndef VERBENA_STATUS_H
#define VERBENA_STATUS_H

/* clang-format off */
#define VB_ST_LIST(X)                                                        \
    X(VB_OK, 0, "success")                                                   \
    X(VB_AGAIN, -1, "no room now, progress and retry")                       \
    X(VB_NOMEM, -2, "out of memory")                                         \
    X(VB_INVAL, -3, "invalid argument")                                      \
    X(VB_UNREACHABLE, -4, "peer unreachable")                                \
    X(VB_TIMEOUT, -5, "deadline passed")                                     \
    X(VB_PROTO, -6, "malformed message")                                     \
    X(VB_REFUSED, -7, "hello refused")                                       \
    X(VB_NOFABRIC, -8, "a required fabric is missing")                       \
    X(VB_STOPPED, -9, "the run is ending")                                    \
    X(VB_IO, -10, "input or output failed")
/* clang-format on */

#define X(name, value, text) name = value,
enum vb_st { VB_ST_LIST(X) };
#undef X

#define VB_MUST_CHECK __attribute__((warn_unused_result))
#define VB_EXPORT __attribute__((visibility("default")))

/* Static text for any value, never NULL. */
VB_EXPORT const char *vb_st_str(enum vb_st st);

/* What the process exits with (docs/design.md, exit codes). */
enum vb_exit {
    VB_EXIT_OK = 0,
    VB_EXIT_FAILED = 1,
    VB_EXIT_USAGE = 2,     /* a wrong option or job file */
    VB_EXIT_LOST = 3,      /* a task was lost */
    VB_EXIT_TIMEOUT = 4,   /* a deadline passed */
    VB_EXIT_REFUSED = 5,   /* hello refused */
    VB_EXIT_NOFABRIC = 6,  /* a required fabric is missing */
    VB_EXIT_SIGINT = 130,  /* ended by SIGINT */
    VB_EXIT_SIGTERM = 143, /* ended by SIGTERM */
};

/* The exit code that a status becomes when nothing more exact is known. */
enum vb_exit vb_st_exit(enum vb_st st);

#endif
