/*
 * Several modes of one job side by side: the same data, seeds, compute and jitter, one run after the other. Steps to
 * the target: global batches of samples until the mean training loss of the last WINDOW_STEPS steps is as low as that
 * of the first mode at its end.
 */
#include "cmd/cmd.h"
#include "cmd/runs.h"
#include "perf/chart.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EVERY = 10, WINDOW_STEPS = 100, MODES_MAX = 16, SEEDS_MAX = 32, OPTIONS_MAX = 16 };

struct compare_conf {
    char *modes, *plot;
    uint64_t seeds;
    double longer;
    bool json;
};

#define AT(member) .offset = offsetof(struct compare_conf, member)

/* clang-format off */
static const struct opt compare_opts[] = {
    { "modes", OPT_TEXT, "sync,ssp:3,async", "MODES",
      "the modes, with commas; the first one sets the target. MODE@KEY=VALUE@FLAG gives a run more options, as in "
      "async@async.compensation=0.5", AT(modes) },
    { "seeds", OPT_U64, "1", "N", "so many seeds, from --seed on; medians are shown", 1, SEEDS_MAX, AT(seeds) },
    { "longer", OPT_F64, "1.2", "X", "the other modes have this many times the first one's data epochs to come to the target",
      1, 10, AT(longer) },
    { "plot", OPT_TEXT, NULL, "FILE", "loss over steps and over time, of the first seed (SVG)", AT(plot) },
};
/* clang-format on */

struct mode {
    char text[200];  /* as given */
    char label[200]; /* for people */
    char *option[OPTIONS_MAX];
    unsigned noptions;
    struct run_result run[SEEDS_MAX];
    double target_steps[SEEDS_MAX], target_s[SEEDS_MAX]; /* NAN: not reached */
};

struct compare {
    const struct compare_conf *c;
    struct job *job;
    struct mode mode[MODES_MAX];
    unsigned nmodes;
    double target[SEEDS_MAX];
    uint64_t nseeds; /* that have been run */
};

/* "async@async.compensation=0.5" -> --mode=async --async.compensation=0.5 */
static bool read_mode(struct mode *m, const char *text, size_t n)
{
    if (n == 0 || n >= sizeof(m->text))
        return false;
    memcpy(m->text, text, n);
    memcpy(m->label, m->text, sizeof(m->label));

    char *at = m->text, *part;
    bool first = true;

    while ((part = strsep(&at, "@")) != NULL) {
        for (char *c = part; !first && *c != '\0' && *c != '='; c++)
            *c = *c == '_' ? '-' : *c; /* a key of the job, as an option */
        if (m->noptions + 4 > OPTIONS_MAX ||
            asprintf(&m->option[m->noptions], first ? "--mode=%s" : "--%s", part) < 0)
            return false;
        m->noptions++;
        first = false;
    }
    return true;
}

static bool read_modes(struct compare *k)
{
    for (const char *p = k->c->modes; *p != '\0';) {
        const size_t n = strcspn(p, ",");

        if (k->nmodes == MODES_MAX || !read_mode(&k->mode[k->nmodes++], p, n))
            return false;
        p += n + (p[n] == ',');
    }
    return k->nmodes > 0;
}

/* A wrong mode is found before anything runs. */
static int check_modes(struct compare *k)
{
    struct vb_err err = { "" }, why = { "" };
    struct ps_rule rule;

    if (!read_modes(k))
        return cmd_fail(VB_EXIT_USAGE,
                        "verbena compare: --modes must be modes with commas between them");
    for (unsigned i = 0; i < k->nmodes; i++) {
        const char *mode = k->mode[i].option[0] + strlen("--mode=");

        if (ps_rule_parse(mode, k->job->workers, &rule, &why) == VB_OK)
            continue;
        vb_err_set(&err, "verbena compare: --modes: %.300s", why.text);
        return cmd_fail(VB_EXIT_USAGE, err.text);
    }
    return VB_EXIT_OK;
}

/* Mean loss of the last WINDOW_STEPS steps up to point i; NAN: there are not so many. */
static double window(const struct run_result *r, size_t i)
{
    double sum = 0;

    if ((i + 1) * EVERY < WINDOW_STEPS || i >= r->npoints)
        return NAN;
    for (size_t n = 0; n < WINDOW_STEPS / EVERY; n++)
        sum += r->point[i - n].loss;
    return sum * EVERY / WINDOW_STEPS;
}

static void find_target(struct mode *m, uint64_t seed, double target)
{
    const struct run_result *r = &m->run[seed];

    m->target_steps[seed] = m->target_s[seed] = NAN;
    for (size_t i = 0; i < r->npoints; i++)
        if (window(r, i) <= target) {
            m->target_steps[seed] = r->point[i].step;
            m->target_s[seed] = r->point[i].seconds;
            return;
        }
}

static bool run_one(struct compare *k, unsigned i, uint64_t seed)
{
    struct mode *m = &k->mode[i];
    char seed_text[48], epochs[48];
    const char *option[OPTIONS_MAX + 3] = { 0 };
    unsigned n = 0;

    for (; n < m->noptions; n++)
        option[n] = m->option[n];
    snprintf(seed_text, sizeof(seed_text), "--seed=%" PRIu64, k->job->seed + seed);
    option[n++] = seed_text;
    snprintf(epochs, sizeof(epochs), "--epochs=%.0f",
             ceil((double)k->job->epochs * (i == 0 ? 1 : k->c->longer) - 1e-9));
    option[n++] = epochs;
    fprintf(stderr, "run %" PRIu64 " of %" PRIu64 ": %s, seed %" PRIu64 "\n",
            seed * k->nmodes + i + 1, k->c->seeds * k->nmodes, m->label, k->job->seed + seed);
    if (!run_job(&(struct run_params){ k->job, option, EVERY }, &m->run[seed])) {
        fprintf(stderr, "verbena: a run cannot be started: %s\n", strerror(errno));
        return false;
    }
    if (m->run[seed].code != 0)
        fprintf(stderr, "%s ended with code %d: %s\n", m->label, m->run[seed].code,
                m->run[seed].why);
    return run_stopped() == 0;
}

static void run_all(struct compare *k)
{
    for (uint64_t seed = 0; seed < k->c->seeds; seed++) {
        for (unsigned i = 0; i < k->nmodes; i++)
            if (!run_one(k, i, seed))
                return;
        const struct run_result *first = &k->mode[0].run[seed];

        k->target[seed] = window(first, first->npoints - 1);
        for (unsigned i = 0; i < k->nmodes; i++)
            find_target(&k->mode[i], seed, k->target[seed]);
        k->nseeds++;
    }
}

/* ---- results ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return isnan(x) ? 1 : isnan(y) ? -1 : (x > y) - (x < y);
}

/* One that is not there counts as the highest. */
static double median(const double *x, uint64_t n)
{
    double v[SEEDS_MAX];

    if (n == 0)
        return NAN;
    memcpy(v, x, n * sizeof(*v));
    qsort(v, n, sizeof(*v), ascending);
    return n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Of what runs that ended well have measured; at: offset of a double in struct run_result. */
static double median_of(const struct compare *k, const struct mode *m, size_t at)
{
    double v[SEEDS_MAX];

    for (uint64_t s = 0; s < k->nseeds; s++)
        v[s] = m->run[s].code == 0 ? *(const double *)(const void *)((const char *)&m->run[s] + at)
                                   : (double)NAN;
    return median(v, k->nseeds);
}

/* Steps to the target by those of the first mode with the same seed. */
static double ratio_of(const struct compare *k, const struct mode *m)
{
    double r[SEEDS_MAX];

    for (uint64_t s = 0; s < k->nseeds; s++)
        r[s] = m->target_steps[s] / k->mode[0].target_steps[s];
    return median(r, k->nseeds);
}

static void cell(double x, const char *fmt, int width)
{
    char text[32];

    if (isfinite(x))
        snprintf(text, sizeof(text), fmt, x);
    else
        snprintf(text, sizeof(text), "-");
    printf(" %*s", width, text);
}

static void show(const struct compare *k)
{
    printf("%" PRIu64 " workers, %" PRIu64
           " ps, target loss %.4f (%s at its end), medians of %" PRIu64 " seeds\n",
           k->job->workers, k->job->ps, median(k->target, k->nseeds), k->mode[0].label, k->nseeds);
    printf("%-34s %9s %6s %9s %10s %8s %8s %7s %8s %8s\n", "mode", "steps to", "ratio",
           "seconds to", "samples/s", "pushed", "pulled", "behind", "waited", "accuracy");
    for (unsigned i = 0; i < k->nmodes; i++) {
        const struct mode *m = &k->mode[i];

        printf("%-34.34s", m->label);
        cell(median(m->target_steps, k->nseeds), "%.0f", 9);
        cell(ratio_of(k, m), "%.3f", 6);
        cell(median(m->target_s, k->nseeds), "%.2f", 10);
        cell(median_of(k, m, offsetof(struct run_result, samples_per_s)), "%.0f", 10);
        cell(median_of(k, m, offsetof(struct run_result, pushed_bytes)) * 1e-9, "%.2f GB", 8);
        cell(median_of(k, m, offsetof(struct run_result, pulled_bytes)) * 1e-9, "%.2f GB", 8);
        cell(median_of(k, m, offsetof(struct run_result, staleness)), "%.2f", 7);
        cell(median_of(k, m, offsetof(struct run_result, waited_s)), "%.1f s", 8);
        cell(median_of(k, m, offsetof(struct run_result, accuracy)), "%.4f", 8);
        putchar('\n');
    }
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *points_of(const struct run_result *r)
{
    json_t *a = json_array();

    for (size_t i = 0; i < r->npoints; i++)
        json_array_append_new(a, json_pack("[o,o,o]", real(r->point[i].step),
                                           real(r->point[i].seconds), real(r->point[i].loss)));
    return a;
}

static void show_json(const struct compare *k)
{
    for (unsigned i = 0; i < k->nmodes; i++)
        for (uint64_t s = 0; s < k->nseeds; s++) {
            const struct mode *m = &k->mode[i];
            const struct run_result *r = &m->run[s];
            json_t *o = json_pack(
                "{s:s,s:I,s:i,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "mode", m->label,
                "seed", (json_int_t)(k->job->seed + s), "code", r->code, "why", r->why,
                "target_loss", real(k->target[s]), "target_steps", real(m->target_steps[s]),
                "ratio", real(m->target_steps[s] / k->mode[0].target_steps[s]), "target_s",
                real(m->target_s[s]), "samples_per_s", real(r->samples_per_s), "pushed_bytes",
                real(r->pushed_bytes), "pulled_bytes", real(r->pulled_bytes), "staleness",
                real(r->staleness), "waited_s", real(r->waited_s), "best_test_accuracy",
                real(r->accuracy), "loss", points_of(r));
            char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(8));

            if (text != NULL)
                puts(text);
            free(text);
            json_decref(o);
        }
}

static bool plot(const struct compare *k)
{
    static const struct chart_panel panel[] = {
        { "training loss over steps", "steps (global batches)", "loss, mean of 100 steps" },
        { "training loss over time", "seconds", "loss, mean of 100 steps" },
    };
    struct chart *c = chart_new("verbena compare", panel, 2);
    bool ok = c != NULL;

    for (unsigned i = 0; ok && i < k->nmodes; i++) {
        const struct run_result *r = &k->mode[i].run[0];
        double *v = calloc(3 * r->npoints + 1, sizeof(*v)), *step = v, *s = v + r->npoints,
               *loss = s + r->npoints;

        ok = v != NULL;
        for (size_t n = 0; ok && n < r->npoints; n++) {
            step[n] = r->point[n].step;
            s[n] = r->point[n].seconds;
            loss[n] = window(r, n);
        }
        ok = ok && chart_line(c, 0, k->mode[i].label, step, loss, r->npoints) &&
             chart_line(c, 1, k->mode[i].label, s, loss, r->npoints);
        free(v);
    }
    ok = ok && chart_write(c, k->c->plot);
    chart_free(c);
    return ok;
}

static int compare(struct compare *k)
{
    int code = check_modes(k);

    if (code != VB_EXIT_OK)
        return code;
    run_all(k);
    if (k->nseeds == 0)
        return run_stopped() != 0 ? 128 + run_stopped()
                                  : cmd_fail(VB_EXIT_FAILED, "verbena: no seed was run to its end");
    if (k->job->json)
        show_json(k);
    else
        show(k);
    if (k->c->plot != NULL && !plot(k)) {
        fprintf(stderr, "verbena: cannot write %s: %s\n", k->c->plot, strerror(errno));
        return VB_EXIT_FAILED;
    }
    for (unsigned i = 0; i < k->nmodes; i++)
        for (uint64_t s = 0; s < k->nseeds; s++)
            code = code == VB_EXIT_OK ? k->mode[i].run[s].code : code;
    return run_stopped() != 0 ? 128 + run_stopped() : code;
}

static int compare_main(int argc, char **argv)
{
    struct compare_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    struct compare *k = calloc(1, sizeof(*k));
    struct vb_err err = { "" };
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && k != NULL && cmd_sets_init(&cmd_compare, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_compare, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK && job_check(&s->job, &err) != VB_OK)
        code = cmd_fail(VB_EXIT_USAGE, err.text);
    if (code == VB_EXIT_OK) {
        k->c = &conf;
        k->job = &s->job;
        code = compare(k);
    }
    for (unsigned i = 0; k != NULL && i < k->nmodes; i++) {
        for (unsigned n = 0; n < k->mode[i].noptions; n++)
            free(k->mode[i].option[n]);
        for (unsigned n = 0; n < SEEDS_MAX; n++)
            run_fini(&k->mode[i].run[n]);
    }
    free(k);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_compare = {
    .about = { .name = "compare",
               .args = "JOB.yaml",
               .doc = "Runs a job in several modes and says how fast each comes to the same loss.\n"
                      "Steps, time, bytes, how far behind parameters were and how long workers "
                      "waited, for the "
                      "same data and seeds; --compute and --jitter make workers uneven.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = compare_opts,
    .nopts = VB_ARRAY_LEN(compare_opts),
    .has_job = true,
    .run = compare_main,
};
