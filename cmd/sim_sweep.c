/*
 * Many predictions: a table over the values of one key of the job, what is best, a picture; and how near real runs on
 * this host come to them.
 */
#include "cmd/cmd.h"
#include "cmd/runs.h"
#include "cmd/sim.h"
#include "perf/chart.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES_MAX = 64 };

struct row {
    char value[40];
    struct sim_result r;
    double steps_per_s; /* of all workers */
    double behind;      /* steps, mean over reads */
    double measured;    /* steps_per_s of a run; NAN: none */
};

struct sweep {
    const struct sim_conf *c;
    struct job *job;
    char key[OPT_NAME_MAX + 1];
    struct row row[VALUES_MAX];
    unsigned n;
};

static int fail(const char *fmt, const char *a, const char *b)
{
    struct vb_err err;

    vb_err_set(&err, fmt, a, b);
    return cmd_fail(VB_EXIT_USAGE, err.text);
}

static double mean_behind(const struct sim_result *r)
{
    double sum = 0, n = 0;

    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++) {
        sum += (double)b * (double)r->staleness[b];
        n += (double)r->staleness[b];
    }
    return n > 0 ? sum / n : 0;
}

static int set_value(struct sweep *s, const char *value)
{
    struct opt_set *o = &s->job->opts;
    const int i = opt_find(o, s->key);
    struct vb_err err = { "" };

    if (i < 0 || o->opt[i].type == OPT_FLAG)
        return fail("verbena sim: --sweep: '%.60s' is no key of the job%s", s->key, "");
    if (opt_put(o, (size_t)i, value, (struct opt_src){ OPT_ARG, 0 }, &err) != VB_OK)
        return fail("verbena sim: --sweep: '%.60s' %.300s", value, err.text);
    o->given[i] = s->row[s->n].value; /* also of what runs are started with */
    return job_check(s->job, &err) == VB_OK ? VB_EXIT_OK : cmd_fail(VB_EXIT_USAGE, err.text);
}

/* A real run of as many steps, or as many as whole data epochs give: throughput does not depend on it. */
static int run_real(struct sweep *s, struct row *row)
{
    static const char *const none[] = { NULL };
    struct run_result r;

    fprintf(stderr, "run %u: %s=%s\n", s->n + 1, s->key, row->value);
    if (!run_job(&(struct run_params){ s->job, none, 0 }, &r))
        return fail("verbena: a run cannot be started: %s%s", strerror(errno), "");
    row->measured = r.code == 0 ? r.samples_per_s / (double)s->job->batch * (double)s->job->workers
                                : (double)NAN;
    if (r.code != 0)
        fprintf(stderr, "it ended with code %d: %s\n", r.code, r.why);
    run_fini(&r);
    return run_stopped() != 0 ? 128 + run_stopped() : VB_EXIT_OK;
}

static int add_row(struct sweep *s, const char *value, size_t bytes)
{
    struct row *row = &s->row[s->n];
    int code;

    if (s->n == VALUES_MAX || bytes == 0 || bytes >= sizeof(row->value))
        return fail("verbena sim: --sweep=%.200s: must be KEY=VALUE,VALUE,...%s", s->c->sweep, "");
    memcpy(row->value, value, bytes);
    row->measured = NAN;
    code = set_value(s, row->value);
    if (code == VB_EXIT_OK)
        code = sim_predict(s->c, s->job, NULL, &row->r);
    if (code == VB_EXIT_OK && s->c->against_runs)
        code = run_real(s, row);
    if (code != VB_EXIT_OK)
        return code;
    row->steps_per_s = (double)row->r.steps / row->r.seconds;
    row->behind = mean_behind(&row->r);
    s->n++;
    return VB_EXIT_OK;
}

/* Samples a second: a step of one worker is 1/workers of a batch. */
static double samples_per_s(const struct sweep *s, unsigned i)
{
    double workers = (double)s->job->workers;

    if (strcmp(s->key, "workers") == 0)
        workers = strtod(s->row[i].value, NULL);
    return s->row[i].steps_per_s * (double)s->job->batch / workers;
}

static unsigned best_of(const struct sweep *s)
{
    unsigned best = 0;

    for (unsigned i = 1; i < s->n; i++)
        if (samples_per_s(s, i) >
            1.001 * samples_per_s(s, best)) /* the first of those that are equal */
            best = i;
    return best;
}

static double error_of(const struct row *r)
{
    return r->steps_per_s / r->measured - 1;
}

static void show(const struct sweep *s)
{
    const unsigned best = best_of(s);

    printf("%-14s %10s %12s %8s %8s%s\n", s->key, "ms a step", "samples/s", "waiting", "behind",
           s->c->against_runs ? "    measured  error" : "");
    for (unsigned i = 0; i < s->n; i++) {
        const struct row *r = &s->row[i];

        printf("%-14s %10.3f %12.0f %7.1f%% %8.2f", r->value,
               1e3 * r->r.seconds / (double)s->c->steps, samples_per_s(s, i),
               100 * r->r.waited / r->r.seconds, r->behind);
        if (isfinite(r->measured))
            printf(" %11.0f %5.1f%%", samples_per_s(s, i) * r->measured / r->steps_per_s,
                   100 * error_of(r));
        puts(i == best ? "  <- best" : "");
    }
}

static void show_json(const struct sweep *s)
{
    const unsigned best = best_of(s);

    for (unsigned i = 0; i < s->n; i++) {
        const struct row *r = &s->row[i];
        json_t *o = json_pack("{s:s,s:s,s:f,s:f,s:f,s:f,s:b,s:o}", "key", s->key, "value", r->value,
                              "step_s", r->r.seconds / (double)s->c->steps, "samples_per_s",
                              samples_per_s(s, i), "waiting", r->r.waited / r->r.seconds, "behind",
                              r->behind, "best", i == best, "measured_samples_per_s",
                              isfinite(r->measured)
                                  ? json_real(samples_per_s(s, i) * r->measured / r->steps_per_s)
                                  : json_null());
        char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(8));

        if (text != NULL)
            puts(text);
        free(text);
        json_decref(o);
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The errors of the predictions, on stderr with their goals. */
static void show_errors(const struct sweep *s)
{
    double e[VALUES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < s->n; i++)
        if (isfinite(s->row[i].measured))
            e[n++] = fabs(error_of(&s->row[i]));
    if (n == 0)
        return;
    qsort(e, n, sizeof(*e), ascending);
    fprintf(stderr,
            "errors of %u predictions: median %.1f %% (goal 5 %%), worst %.1f %% (goal 15 %%)\n", n,
            100 * e[n / 2], 100 * e[n - 1]);
}

static bool plot(const struct sweep *s)
{
    char label[600];
    const struct chart_panel panel[] = { { "throughput", label, "samples/s" },
                                         { "waiting between steps", label, "share of the time" } };
    struct chart *c = chart_new("verbena sim", panel, 2);
    double x[VALUES_MAX], y[4][VALUES_MAX];
    char *end;

    if (c == NULL)
        return false;
    snprintf(label, sizeof(label), "%s", s->key);
    for (unsigned i = 0; i < s->n; i++) {
        x[i] = strtod(s->row[i].value, &end);
        if (*end != '\0') { /* not numbers: their places */
            const size_t at = strlen(label);

            x[i] = i + 1;
            snprintf(label + at, sizeof(label) - at, "%s %u %s", i > 0 ? "," : ":", i + 1,
                     s->row[i].value);
        }
        y[0][i] = samples_per_s(s, i);
        y[1][i] = samples_per_s(s, i) * s->row[i].measured / s->row[i].steps_per_s;
        y[2][i] = s->row[i].r.waited / s->row[i].r.seconds;
    }
    bool ok = chart_line(c, 0, "predicted", x, y[0], s->n) &&
              chart_line(c, 1, "predicted", x, y[2], s->n);

    if (s->c->against_runs)
        ok = ok && chart_line(c, 0, "measured", x, y[1], s->n);
    ok = ok && chart_write(c, s->c->plot);
    chart_free(c);
    return ok;
}

int sim_sweep(const struct sim_conf *c, struct job *job)
{
    struct sweep *s = calloc(1, sizeof(*s));
    const char *p = strchr(c->sweep, '=');
    int code = VB_EXIT_OK;

    if (s == NULL)
        return VB_EXIT_FAILED;
    s->c = c;
    s->job = job;
    if (p == NULL || p - c->sweep > OPT_NAME_MAX)
        code = fail("verbena sim: --sweep=%.200s: must be KEY=VALUE,VALUE,...%s", c->sweep, "");
    else
        memcpy(s->key, c->sweep, (size_t)(p - c->sweep));
    while (code == VB_EXIT_OK && *p != '\0') {
        const size_t n = strcspn(++p, ",");

        code = add_row(s, p, n);
        p += n;
    }
    if (s->n > 0 && job->json)
        show_json(s);
    else if (s->n > 0)
        show(s);
    show_errors(s);
    if (code == VB_EXIT_OK && c->plot != NULL && !plot(s))
        code = fail("verbena: cannot write %.200s: %s", c->plot, strerror(errno));
    free(s);
    return code;
}
