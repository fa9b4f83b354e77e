/*
 * perf fit - the numbers of a link and a ps for verbena sim, from exchanges of one worker and one ps: how long one small
 * chunk takes there and back, how much each further one adds, how long a large one takes and how much each further
 * large one adds. With L, o, G, A of sim/sim.h and k bytes:
 *
 *   one small      2 (L + o)                 each further small one    o
 *   one large      2 (L + o) + k (2 G + A)   each further large one    k max(G, A)
 *
 * The table says what the simulator makes of the same exchanges with these numbers. Over map nothing travels: only A.
 */
#include "perf/engine.h"

#define LOG_MOD "perf"
#include "base/log.h"
#include "perf/rig_turn.h"
#include "sim/sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SMALL = 64, LARGE = 1 << 20, MANY_SMALL = 32, MANY_LARGE = 8, CASES = 4 };

static const struct fit_case {
    const char *name;
    uint64_t chunk, n;
} cases[CASES] = { { "one small chunk", SMALL, 1 },
                   { "32 small chunks", SMALL, MANY_SMALL },
                   { "1 MiB", LARGE, 1 },
                   { "8 x 1 MiB", LARGE, MANY_LARGE } };

struct fit {
    struct sim_link link;
    double apply; /* seconds a byte */
};

static double nothing(void *arg, uint32_t worker, uint64_t clock)
{
    return 0;
}

/* Seconds of an exchange as the simulator sees it. */
static double predict(const struct ps_table *t, const struct fit *f, bool in_place)
{
    const struct ps_rule sync = { 0 };
    const struct sim_params p = { .table = t,
                                  .rule = &sync,
                                  .nworkers = 1,
                                  .steps = 10,
                                  .link = f->link,
                                  .apply_per_byte = f->apply,
                                  .push_ratio = in_place ? INFINITY : 1,
                                  .pull_ratio = in_place ? INFINITY : 1,
                                  .compute = nothing };
    struct sim_result r;

    return sim_run(&p, &r) == VB_OK ? r.seconds / 10 : NAN;
}

static struct fit solve(const double s[CASES], bool in_place)
{
    const double large = VB_MAX(s[2] - s[0], 0) / LARGE,
                 more = VB_MAX(s[3] - s[2], 0) / ((MANY_LARGE - 1) * (double)LARGE);
    struct fit f = { .link.overhead = VB_MAX(s[1] - s[0], 0) / (MANY_SMALL - 1) };

    f.link.latency = VB_MAX(s[0] / 2 - f.link.overhead, 0);
    /* where cores are short the two contradict each other: between them */
    if (in_place) {
        f.apply = VB_MAX(sqrt(more * large), 1e-13);
    } else if (large < 2 * more) {
        f.link.per_byte = sqrt(more * large / 2);
        f.apply = 1e-13;
    } else if (large - 2 * more <= more) {
        f.link.per_byte = more;
        f.apply = VB_MAX(large - 2 * more, 1e-13);
    } else {
        f.apply = more;
        f.link.per_byte = (large - more) / 2;
    }
    f.link.per_byte = VB_MAX(f.link.per_byte, 1e-13);
    return f;
}

/* table: takes; the case's. */
static bool measure(const struct fit_case *c, enum cl_transport t, unsigned rounds,
                    struct ps_table *table, double *s)
{
    struct rig_turn g = { .rig.chunk_bytes = c->chunk };
    struct turn_result res;
    bool ok = rig_make(&g.rig, 1, c->chunk * c->n, t);

    g.part = rig_turn_exchange;
    ok = ok && rig_turn_start(&g) &&
         turn_run(&(struct turn_race){ g.worker, NULL, 1, 0, rounds, 0.05 }, &res);
    *table = g.rig.table;
    g.rig.table = (struct ps_table){ 0 };
    rig_turn_stop(&g);
    *s = res.value;
    if (!ok)
        log_error("%s failed", c->name);
    return ok;
}

static bool write_file(const struct perf_engine_params *p, const char *way, const struct fit *f)
{
    FILE *out = fopen(p->out, "w");
    bool ok = out != NULL;

    if (ok)
        ok = fprintf(out,
                     "# verbena perf fit --transport %s\nlatency_us: %.3f\noverhead_us: "
                     "%.3f\ngap_us: 0\n"
                     "gb_per_s: %.4g\napply_gb_per_s: %.4g\n",
                     way, f->link.latency * 1e6, f->link.overhead * 1e6, 1e-9 / f->link.per_byte,
                     1e-9 / f->apply) > 0;
    if (out != NULL)
        ok = fclose(out) == 0 && ok;
    if (!ok)
        log_error("cannot write %s: %s", p->out, strerror(errno));
    return ok;
}

static void show(const struct bench_out *o, const char *way, const struct fit_case *c, double s,
                 double predicted)
{
    char text[160], label[64];

    snprintf(text, sizeof(text),
             "\"transport\": \"%s\", \"chunk_bytes\": %llu, \"chunks\": %llu, \"against\": "
             "\"simulator\"",
             way, (unsigned long long)c->chunk, (unsigned long long)c->n);
    snprintf(label, sizeof(label), "%s over %s", c->name, way);
    bench_print(o, &(struct bench_row){ .bench = "fit",
                                        .cases = text,
                                        .value = s,
                                        .unit = "s",
                                        .baseline = predicted,
                                        .goal = -1,
                                        .first = -1,
                                        .label = label });
}

bool perf_fit(const struct bench_out *o, const struct perf_engine_params *p)
{
    const bool in_place = p->transport == CL_MAP;
    const char *way = in_place ? "map" : "tcp";
    struct ps_table table[CASES] = { 0 };
    double s[CASES];
    bool ok = true;

    for (unsigned i = 0; ok && i < CASES; i++)
        ok = measure(&cases[i], in_place ? CL_MAP : CL_TCP, p->rounds, &table[i], &s[i]);
    if (ok) {
        const struct fit f = solve(s, in_place);

        for (unsigned i = 0; i < CASES; i++)
            show(o, way, &cases[i], s[i], predict(&table[i], &f, in_place));
        ok = write_file(p, way, &f);
        if (ok)
            fprintf(
                stderr,
                "latency %.2f us, overhead %.2f us, %.3g GB/s, ps %.3g GB/s: %s (verbena sim JOB "
                "--fit %s)\n",
                f.link.latency * 1e6, f.link.overhead * 1e6, 1e-9 / f.link.per_byte, 1e-9 / f.apply,
                p->out, p->out);
    }
    for (unsigned i = 0; i < CASES; i++)
        ps_table_fini(&table[i]);
    return ok;
}
