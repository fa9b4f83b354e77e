/*
 * events.h - a worker's reports as JSON, one object a line: on stdout for a launcher or a script, or
 * shown by report.h for a person who started the task by hand.
 */
#ifndef CMD_EVENTS_H
#define CMD_EVENTS_H

#include "cluster/spec.h"
#include "cmd/report.h"
#include "worker/train.h"

struct events {
    const struct cl_spec *spec;
    uint32_t rank;
    struct report *shown; /* NULL: JSON on stdout */
};

void events_init(struct events *e, const struct cl_spec *spec, uint32_t rank, bool json, bool live);
void events_write(struct events *e, const struct wk_report *r);
void events_fini(struct events *e); /* shows what was kept for the end */

#endif
