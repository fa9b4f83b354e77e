/* report_waits.h - how stale parameters were and who waited for whom, for people: report.c's, at the end. */
#ifndef CMD_REPORT_WAITS_H
#define CMD_REPORT_WAITS_H

#include <jansson.h>

/* Of all waits events: one line about staleness where there was any, one about the longest waits. */
void report_waits(const json_t *waits);

#endif
