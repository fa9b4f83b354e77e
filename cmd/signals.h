/*
 * signals.h - SIGINT and SIGTERM as a call on a thread of their own, so that a task ends in order.
 */
#ifndef CMD_SIGNALS_H
#define CMD_SIGNALS_H

#include "verbena/status.h"

struct sig_watch;

/* Before any thread of ours: from here on the two signals wait for a watch; SIGPIPE is ignored. */
VB_MUST_CHECK enum vb_st sig_catch(void);

/* fn runs on the watch's thread at the first signal, with the exit code that it becomes and its name
 * ("ended by SIGTERM"); it may come at once. A second signal ends the process. gives: sig_watch_stop. */
VB_MUST_CHECK enum vb_st sig_watch_start(void (*fn)(void *arg, enum vb_exit code, const char *text),
                                         void *arg, struct sig_watch **out);
void sig_watch_stop(struct sig_watch *w); /* takes NULL; fn does not run after it */

#endif
