#include "perf/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 64, PANELS_MAX = 2, WIDTH = 520, HEIGHT = 340, LEFT = 80, TOP = 60, GAP = 90 };
enum { TICKS = 5 };

static const char *const colour[] = { "#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                      "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f" };

struct line {
    unsigned panel, colour;
    char series[64];
    double *x, *y;
    size_t n;
};

struct chart {
    const char *title;
    struct chart_panel panel[PANELS_MAX];
    unsigned npanels, nlines, ncolours;
    struct line line[LINES_MAX];
};

struct chart *chart_new(const char *title, const struct chart_panel *panel, unsigned npanels)
{
    struct chart *c = calloc(1, sizeof(*c));

    if (c == NULL || npanels > PANELS_MAX) {
        free(c);
        return NULL;
    }
    c->title = title;
    c->npanels = npanels;
    memcpy(c->panel, panel, npanels * sizeof(*panel));
    return c;
}

void chart_free(struct chart *c)
{
    for (unsigned i = 0; c != NULL && i < c->nlines; i++) {
        free(c->line[i].x);
        free(c->line[i].y);
    }
    free(c);
}

static unsigned colour_of(struct chart *c, const char *series)
{
    for (unsigned i = 0; i < c->nlines; i++)
        if (strcmp(c->line[i].series, series) == 0)
            return c->line[i].colour;
    return c->ncolours++;
}

bool chart_line(struct chart *c, unsigned panel, const char *series, const double *x,
                const double *y, size_t n)
{
    struct line *l = &c->line[c->nlines];

    if (c->nlines == LINES_MAX)
        return false;
    *l = (struct line){ .panel = panel,
                        .x = calloc(n + 1, sizeof(double)),
                        .y = calloc(n + 1, sizeof(double)) };
    if (l->x == NULL || l->y == NULL) {
        free(l->x);
        free(l->y);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && isfinite(y[i])) {
            l->x[l->n] = x[i];
            l->y[l->n++] = y[i];
        }
    l->colour = colour_of(c, series);
    snprintf(l->series, sizeof(l->series), "%s", series);
    c->nlines++;
    return true;
}

struct range {
    double lo, hi, step;
};

/* Round ends and steps around all values. */
static struct range range_of(const struct chart *c, unsigned panel, bool of_x)
{
    struct range r = { INFINITY, -INFINITY, 1 };

    for (unsigned i = 0; i < c->nlines; i++)
        for (size_t k = 0; c->line[i].panel == panel && k < c->line[i].n; k++) {
            const double v = of_x ? c->line[i].x[k] : c->line[i].y[k];

            r.lo = fmin(r.lo, v);
            r.hi = fmax(r.hi, v);
        }
    if (r.lo > r.hi)
        return (struct range){ 0, 1, 0.2 };
    if (r.lo > 0 && r.lo < 0.5 * r.hi)
        r.lo = 0;
    const double span = r.hi > r.lo ? r.hi - r.lo : fmax(fabs(r.hi), 1);

    r.step = pow(10, floor(log10(span / TICKS)));
    while (span / r.step > 2 * TICKS)
        r.step *= span / r.step > 4 * TICKS ? 5 : 2;
    r.lo = floor(r.lo / r.step) * r.step;
    r.hi = fmax(ceil(r.hi / r.step) * r.step, r.lo + r.step);
    return r;
}

/* Text that may hold what XML means otherwise. */
static void put_text(FILE *f, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        default:
            fputc(*text, f);
        }
}

static void label(FILE *f, double x, double y, const char *anchor, const char *more,
                  const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    put_text(f, text);
    fputs("</text>\n", f);
}

static double at(const struct range *r, double v)
{
    return (v - r->lo) / (r->hi - r->lo);
}

static void axes(FILE *f, const struct chart_panel *p, double left, const struct range *x,
                 const struct range *y)
{
    char text[32], turned[80];

    for (double v = x->lo; v <= x->hi + x->step / 2; v += x->step) {
        const double px = left + at(x, v) * WIDTH;

        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", px, px,
                TOP, TOP + HEIGHT);
        snprintf(text, sizeof(text), "%.6g", v);
        label(f, px, TOP + HEIGHT + 18, "middle", "", text);
    }
    for (double v = y->lo; v <= y->hi + y->step / 2; v += y->step) {
        const double py = TOP + (1 - at(y, v)) * HEIGHT;

        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                left, left + WIDTH, py, py);
        snprintf(text, sizeof(text), "%.6g", fabs(v) < y->step / 1000 ? 0 : v);
        label(f, left - 6, py + 4, "end", "", text);
    }
    label(f, left + WIDTH / 2.0, TOP - 10, "middle", " font-weight=\"bold\"", p->title);
    label(f, left + WIDTH / 2.0, TOP + HEIGHT + 38, "middle", "", p->x);
    snprintf(turned, sizeof(turned), " transform=\"rotate(-90 %.1f %.1f)\"", left - 58,
             TOP + HEIGHT / 2.0);
    label(f, left - 58, TOP + HEIGHT / 2.0, "middle", turned, p->y);
}

static void draw(FILE *f, const struct chart *c, unsigned panel)
{
    const struct range x = range_of(c, panel, true), y = range_of(c, panel, false);
    const double left = LEFT + panel * (WIDTH + GAP);

    axes(f, &c->panel[panel], left, &x, &y);
    for (unsigned i = 0; i < c->nlines; i++) {
        const struct line *l = &c->line[i];

        if (l->panel != panel)
            continue;
        fprintf(f, "<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"%s\" points=\"",
                colour[l->colour % (sizeof(colour) / sizeof(*colour))]);
        for (size_t k = 0; k < l->n; k++)
            fprintf(f, "%.1f,%.1f ", left + at(&x, l->x[k]) * WIDTH,
                    TOP + (1 - at(&y, l->y[k])) * HEIGHT);
        fputs("\"/>\n", f);
        for (size_t k = 0; l->n <= 32 && k < l->n; k++)
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    left + at(&x, l->x[k]) * WIDTH, TOP + (1 - at(&y, l->y[k])) * HEIGHT,
                    colour[l->colour % (sizeof(colour) / sizeof(*colour))]);
    }
}

static void legend(FILE *f, const struct chart *c)
{
    double x = LEFT;

    for (unsigned k = 0; k < c->ncolours; k++)
        for (unsigned i = 0; i < c->nlines; i++) {
            if (c->line[i].colour != k)
                continue;
            fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/>\n", x,
                    TOP + HEIGHT + 58, colour[k % (sizeof(colour) / sizeof(*colour))]);
            label(f, x + 20, TOP + HEIGHT + 64, "start", "", c->line[i].series);
            x += 40 + 7.5 * (double)strlen(c->line[i].series);
            break;
        }
}

bool chart_write(const struct chart *c, const char *path)
{
    const int width = LEFT + (int)c->npanels * (WIDTH + GAP), height = TOP + HEIGHT + 84;
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return false;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height);
    label(f, LEFT, 22, "start", " font-size=\"15\" font-weight=\"bold\"", c->title);
    for (unsigned p = 0; p < c->npanels; p++)
        draw(f, c, p);
    legend(f, c);
    fputs("</svg>\n", f);
    const bool ok = ferror(f) == 0;

    return fclose(f) == 0 && ok;
}
