#include "perf/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_MAX = 256, PANELS = 2, WIDTH = 520, HEIGHT = 360, LEFT = 70, TOP = 50, GAP = 90 };

struct point {
    char series[48];
    double bytes, y;
    bool base;
};

/* Left: seconds (link-lat); right: bytes a second (link-bw). */
struct plot {
    unsigned n[PANELS];
    struct point point[PANELS][POINTS_MAX];
};

struct range {
    double lo, hi;
};

struct plot *plot_new(void)
{
    return calloc(1, sizeof(struct plot));
}

void plot_free(struct plot *p)
{
    free(p);
}

static void add(struct plot *p, unsigned panel, const char *series, double bytes, double y,
                bool base)
{
    struct point *x = &p->point[panel][p->n[panel]];

    for (unsigned i = 0; i < p->n[panel]; i++)
        if (strcmp(p->point[panel][i].series, series) == 0 && p->point[panel][i].bytes == bytes)
            return; /* the row of another baseline */
    if (p->n[panel] == POINTS_MAX || y <= 0 || bytes <= 0)
        return;
    *x = (struct point){ .bytes = bytes, .y = y, .base = base };
    snprintf(x->series, sizeof(x->series), "%s", series);
    p->n[panel]++;
}

void plot_add(struct plot *p, const struct bench_row *r)
{
    const unsigned panel = strcmp(r->unit, "B/s") == 0;
    const char *against = strstr(r->label, " / ");
    char series[48];

    if (panel == 0 && strcmp(r->bench, "link-lat") != 0)
        return;
    add(p, panel, r->series, (double)r->bytes, r->value, false);
    if (against == NULL)
        return;
    snprintf(series, sizeof(series), "%s: %s", r->series, against + 3);
    add(p, panel, series, (double)r->bytes, r->baseline, true);
}

static struct range range_of(const struct point *x, unsigned n, bool of_bytes)
{
    struct range r = { INFINITY, 0 };

    for (unsigned i = 0; i < n; i++) {
        const double v = of_bytes ? x[i].bytes : x[i].y;

        r.lo = fmin(r.lo, v);
        r.hi = fmax(r.hi, v);
    }
    if (r.hi <= 0)
        return (struct range){ 1, 10 };
    if (of_bytes)
        return (struct range){ r.lo, fmax(r.hi, 2 * r.lo) };
    r.lo = pow(10, floor(log10(r.lo)));
    return (struct range){ r.lo, fmax(pow(10, ceil(log10(r.hi))), 10 * r.lo) };
}

static double at(double v, struct range r, double from, double to)
{
    return from + (to - from) * log(v / r.lo) / log(r.hi / r.lo);
}

static void with_unit(char *out, size_t room, double v, bool seconds)
{
    static const char *const small[] = { "ns", "us", "ms", "s" };
    static const char *const large[] = { "B", "KiB", "MiB", "GiB" };
    unsigned i = 0;

    if (seconds)
        for (v *= 1e9; v >= 999 && i < 3; i++)
            v /= 1000;
    else
        for (; v >= 1024 && i < 3; i++)
            v /= 1024;
    snprintf(out, room, "%.3g %s", v, seconds ? small[i] : large[i]);
}

static void axes(FILE *f, struct range x, struct range y, bool seconds)
{
    char text[32];

    fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n", WIDTH, HEIGHT);
    for (double v = y.lo; v <= y.hi * 1.01; v *= 10) {
        const double h = at(v, y, HEIGHT, 0);

        if (seconds)
            with_unit(text, sizeof(text), v, true);
        else
            snprintf(text, sizeof(text), "%g GB/s", v / 1e9);
        fprintf(f, "<line x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", WIDTH, h, h);
        fprintf(f, "<text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", h + 4, text);
    }
    for (double v = x.lo; v <= x.hi * 1.01; v *= x.hi / x.lo > 1000 ? 8 : 4) {
        const double w = at(v, x, 0, WIDTH);

        with_unit(text, sizeof(text), v, false);
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n", w, w, HEIGHT);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", w, HEIGHT + 18,
                text);
    }
}

static void curve(FILE *f, const struct point *p, unsigned n, unsigned first, struct range x,
                  struct range y, unsigned number)
{
    static const char *const colours[] = { "#1b6ca8", "#7fb2d6", "#c0392b", "#e59a90",
                                           "#2e8b57", "#93cfae", "#8e5ea2", "#c9b1d4" };
    const char *colour = colours[number % 8],
               *dash = p[first].base ? " stroke-dasharray=\"5 4\"" : "";

    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            dash);
    for (unsigned i = first; i < n; i++)
        if (strcmp(p[i].series, p[first].series) == 0)
            fprintf(f, "%.1f,%.1f ", at(p[i].bytes, x, 0, WIDTH), at(p[i].y, y, HEIGHT, 0));
    fprintf(f,
            "\"/>\n<line x1=\"12\" x2=\"40\" y1=\"%u\" y2=\"%u\" stroke=\"%s\" "
            "stroke-width=\"2\"%s/><text x=\"46\" y=\"%u\">%s</text>\n",
            14 + 18 * number, 14 + 18 * number, colour, dash, 18 + 18 * number, p[first].series);
}

static void panel(FILE *f, const struct point *p, unsigned n, unsigned which)
{
    const struct range x = range_of(p, n, true), y = range_of(p, n, false);
    unsigned number = 0;

    fprintf(f,
            "<g transform=\"translate(%d %d)\">\n<text x=\"%d\" y=\"-16\" font-size=\"15\" "
            "text-anchor=\"middle\">%s over size of the message</text>\n",
            LEFT + (int)which * (WIDTH + GAP), TOP, WIDTH / 2,
            which == 0 ? "time of one message, one way," : "bandwidth");
    axes(f, x, y, which == 0);
    for (unsigned i = 0; i < n; i++) {
        bool seen = false;

        for (unsigned k = 0; k < i; k++)
            seen |= strcmp(p[k].series, p[i].series) == 0;
        if (!seen)
            curve(f, p, n, i, x, y, number++);
    }
    fputs("</g>\n", f);
}

bool plot_write(const struct plot *p, const char *path)
{
    FILE *f = fopen(path, "we");

    if (f == NULL)
        return false;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + PANELS * WIDTH + GAP + 30, TOP + HEIGHT + 40);
    for (unsigned i = 0; i < PANELS; i++)
        panel(f, p->point[i], p->n[i], i);
    fputs("</svg>\n", f);
    return fclose(f) == 0;
}
