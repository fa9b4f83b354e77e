/*
 * report.h - what the launcher shows of a run: the event lines of the tasks in, lines for people or for
 * machines out.
 *
 * An event is one JSON object a line, told by "event": start, progress, epoch and done come from the
 * chief, link and waits from every worker. Results go to stdout, everything else to stderr. Thread: one.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct report;

struct report_params {
    bool json;     /* events verbatim on stdout, done last; else lines for people */
    bool progress; /* with json: progress events too */
    int columns;   /* of the terminal that stderr is: a line is redrawn in place; 0: none */
};

struct report *report_create(const struct report_params *p); /* NULL: no memory */
/* A line of a task, to be shown with its name in front unless it is an event on stdout. */
void report_line(struct report *r, const char *task, bool is_err, const char *text, size_t n);
/* The end of the run: shows what was kept for it. false: stdout cannot be written. */
bool report_finish(struct report *r);
void report_free(struct report *r); /* takes NULL */

#endif
