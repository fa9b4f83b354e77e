/*
 * report_links.h - the links of a run for people, from their events.
 */
#ifndef CMD_REPORT_LINKS_H
#define CMD_REPORT_LINKS_H

#include <jansson.h>

enum { REPORT_LINKS_MAX = 16 };

/* A line for each on stdout, sorted; of many only the first, and how many of each way are left out. */
void report_links(const json_t *links);

/* "12.3 MB" into buf; returns it. */
const char *report_bytes(double n, char buf[32]);

#endif
