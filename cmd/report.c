/*
 * The live line is the last line of stderr; whatever else is written to the terminal clears it first
 * and the next progress event draws it again.
 */
#include "cmd/report.h"

#include "base/util.h"
#include "cmd/report_links.h"
#include "cmd/report_waits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct report {
    struct report_params p;
    bool drawn;      /* a live line stands on the terminal */
    json_t *done;    /* kept for the end */
    json_t *links;   /* array of link events */
    json_t *waits;   /* array of waits events */
    char *done_text; /* verbatim */
};

struct report *report_create(const struct report_params *p)
{
    struct report *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->p = *p;
    r->links = json_array();
    r->waits = json_array();
    if (r->links == NULL || r->waits == NULL) {
        report_free(r);
        return NULL;
    }
    return r;
}

void report_free(struct report *r)
{
    if (r == NULL)
        return;
    json_decref(r->done);
    json_decref(r->links);
    json_decref(r->waits);
    free(r->done_text);
    free(r);
}

/* null is a number that is none. */
static double num(const json_t *o, const char *key)
{
    const json_t *n = json_object_get(o, key);

    return json_is_null(n) ? (double)NAN : json_number_value(n);
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s != NULL ? s : "?";
}

const char *report_bytes(double n, char buf[32])
{
    static const char *const unit[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    size_t u = 0;

    for (; n >= 999.5 && u + 1 < VB_ARRAY_LEN(unit); u++)
        n /= 1000;
    snprintf(buf, 32, u == 0 ? "%.0f %s" : "%.3g %s", n, unit[u]);
    return buf;
}

/* "1:02:03", "2:03" or "4.5 s" into buf. */
static const char *time_str(double s, char buf[32])
{
    const long long t = s < 0 || s > 1e9 ? 0 : (long long)(s + 0.5);

    if (t >= 3600)
        snprintf(buf, 32, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    else if (t >= 60)
        snprintf(buf, 32, "%lld:%02lld", t / 60, t % 60);
    else
        snprintf(buf, 32, "%.1f s", s);
    return buf;
}

static void clear_live(struct report *r)
{
    if (r->drawn)
        fputs("\r\033[K", stderr);
    r->drawn = false;
}

static void on_start(struct report *r, const json_t *e)
{
    const json_t *test = json_object_get(e, "test_samples");

    clear_live(r);
    fprintf(stderr, "%.0f parameters on %.0f ps, %.0f samples for %.0f worker%s", num(e, "params"),
            num(e, "ps"), num(e, "train_samples"), num(e, "workers"),
            num(e, "workers") == 1 ? "" : "s");
    if (json_number_value(test) > 0)
        fprintf(stderr, ", %.0f test samples", json_number_value(test));
    fputc('\n', stderr);
}

static void on_progress(struct report *r, const json_t *e)
{
    char left[32], line[256];

    if (r->p.columns == 0)
        return;
    snprintf(line, sizeof(line),
             "epoch %.0f/%.0f  step %.0f/%.0f  %.0f samples/s  loss %.4f  %s left", num(e, "epoch"),
             num(e, "epochs"), num(e, "step"), num(e, "steps"), num(e, "samples_per_s"),
             num(e, "loss"), time_str(num(e, "eta_s"), left));
    fprintf(stderr, "\r\033[K%.*s", r->p.columns - 1, line); /* a second row would stay */
    fflush(stderr);
    r->drawn = true;
}

static void on_epoch(struct report *r, const json_t *e)
{
    const json_t *accuracy = json_object_get(e, "test_accuracy");
    char took[32];

    clear_live(r);
    fflush(stderr);
    printf("epoch %2.0f", num(e, "epoch"));
    if (num(e, "epochs") > 0)
        printf("/%.0f", num(e, "epochs"));
    printf("  loss %.4f", num(e, "loss"));
    if (json_is_number(accuracy))
        printf("  test accuracy %.4f", json_number_value(accuracy));
    printf("  %s\n", time_str(num(e, "seconds"), took));
    fflush(stdout);
}

static void show_done(const struct report *r)
{
    const json_t *e = r->done, *accuracy = json_object_get(e, "test_accuracy");
    char a[32], b[32];

    if (json_is_number(accuracy))
        printf("test accuracy %.4f (best %.4f)\n", json_number_value(accuracy),
               num(e, "best_test_accuracy"));
    printf("%.0f steps in %s, %.0f samples/s\n", num(e, "steps"), time_str(num(e, "seconds"), a),
           num(e, "samples_per_s"));
    printf("pushed %s", report_bytes(num(e, "pushed_bytes"), a));
    if (num(e, "push_ratio") > 1)
        printf(" (%.3g times less than the gradients)", num(e, "push_ratio"));
    printf(", pulled %s", report_bytes(num(e, "pulled_bytes"), b));
    if (num(e, "pull_ratio") > 1)
        printf(" (%.3g times less than the parameters)", num(e, "pull_ratio"));
    putchar('\n');
}

static void keep_done(struct report *r, json_t *e, const char *text)
{
    json_decref(r->done);
    free(r->done_text);
    r->done = json_incref(e);
    r->done_text = strdup(text);
}

static void handle(struct report *r, json_t *e, const char *kind, const char *text)
{
    const bool progress = strcmp(kind, "progress") == 0;

    if (strcmp(kind, "done") == 0) {
        keep_done(r, e, text);
    } else if (r->p.json) {
        if (strcmp(kind, "start") != 0 && (!progress || r->p.progress)) {
            clear_live(r);
            puts(text);
            fflush(stdout);
        }
    } else if (strcmp(kind, "start") == 0) {
        on_start(r, e);
    } else if (strcmp(kind, "epoch") == 0) {
        on_epoch(r, e);
    } else if (strcmp(kind, "link") == 0) {
        (void)json_array_append(r->links, e); /* without memory a line less at the end */
    } else if (strcmp(kind, "waits") == 0) {
        (void)json_array_append(r->waits, e);
    }
    if (progress)
        on_progress(r, e);
}

/* Is it an event? Then it is dealt with. */
static bool try_event(struct report *r, const char *text, size_t n)
{
    static const char *const kinds[] = { "start", "progress", "epoch", "loss",
                                         "link",  "waits",    "done" };
    json_t *e = text[0] == '{' ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *kind = str(e, "event");
    bool known = false;

    for (size_t i = 0; e != NULL && i < VB_ARRAY_LEN(kinds); i++)
        known = known || strcmp(kind, kinds[i]) == 0;
    if (known)
        handle(r, e, kind, text);
    json_decref(e);
    return known;
}

void report_line(struct report *r, const char *task, bool is_err, const char *text, size_t n)
{
    if (!is_err && try_event(r, text, n))
        return;
    clear_live(r);
    fprintf(stderr, "%s | %s\n", task, text);
}

bool report_finish(struct report *r)
{
    clear_live(r);
    fflush(stderr);
    if (r->done != NULL && r->p.json) {
        if (r->done_text != NULL)
            puts(r->done_text);
    } else if (r->done != NULL) {
        show_done(r);
    }
    if (!r->p.json) {
        report_waits(r->waits);
        report_links(r->links);
    }
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}
