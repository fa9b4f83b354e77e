/* plot.h - a picture (SVG) of time and bandwidth over size, both axes logarithmic. */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

#include "perf/bench.h"

struct plot;

struct plot *plot_new(void); /* NULL: no memory */
/* A point of ours and, where it has one, of its baseline. More than there is room for are left out. */
void plot_add(struct plot *p, const struct bench_row *r);
/* false: errno says why. */
bool plot_write(const struct plot *p, const char *path);
void plot_free(struct plot *p); /* takes NULL */

#endif
