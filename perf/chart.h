/*
 * chart.h - a picture (SVG) of lines over linear axes: one or two panels beside each other, the same series in each.
 */
#ifndef PERF_CHART_H
#define PERF_CHART_H

#include <stdbool.h>
#include <stddef.h>

struct chart;

/* One panel for each title that is not NULL; texts are borrowed until chart_free. NULL: no memory. */
struct chart_panel {
    const char *title, *x, *y;
};
struct chart *chart_new(const char *title, const struct chart_panel *panel, unsigned npanels);
/* A line of n points, copied; those that are not finite are left out. Series of one name have one colour. false: no
 * memory, or more than there is room for. */
bool chart_line(struct chart *c, unsigned panel, const char *series, const double *x,
                const double *y, size_t n);
/* false: errno says why. */
bool chart_write(const struct chart *c, const char *path);
void chart_free(struct chart *c); /* takes NULL */

#endif
