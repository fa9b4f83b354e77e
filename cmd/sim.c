/*
 * A job in virtual time: its chunk table, mode, compute and jitter with links that are numbers.
 */
#include "cmd/sim.h"

#include "cmd/cmd.h"
#include "cmd/task.h"
#include "worker/jitter.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define AT(member) .offset = offsetof(struct sim_conf, member)

/* clang-format off */
static const struct opt sim_opts[] = {
    { "steps", OPT_U64, "1000", "N", "steps of each worker", 1, 1000000, AT(steps) },
    { "latency_us", OPT_F64, "20", "US", "link: from the first byte's leaving to its coming", 0, 1e9, AT(latency_us) },
    { "overhead_us", OPT_F64, "2", "US", "link: a task's work on one message", 0, 1e9, AT(overhead_us) },
    { "gap_us", OPT_F64, "0", "US", "link: least time between two messages", 0, 1e9, AT(gap_us) },
    { "gb_per_s", OPT_F64, "1", "GB", "link: GB/s of one task, in each direction", 1e-6, 1e6, AT(gb_per_s) },
    { "apply_gb_per_s", OPT_F64, "4", "GB", "ps: GB/s of gradients that one lane adds", 1e-6, 1e6, AT(apply_gb_per_s) },
    { "fit", OPT_TEXT, NULL, "FILE", "the five above as perf fit has measured them, where they are not given", AT(fit) },
    { "lose", OPT_TEXT, NULL, "WORKER@STEP",
      "that worker dies in that step; a run of today would end there, this says what the others could do", AT(lose) },
    { "noticed", OPT_F64, "15", "S", "--lose: seconds until the others know", 0, 1e6, AT(noticed) },
    { "sweep", OPT_TEXT, NULL, "KEY=V,V",
      "a line for each value of a key of the job: mode=sync,ssp:1,ssp:3 or ps=1,2,4 or workers=... or chunk_kib=...",
      AT(sweep) },
    { "against_runs", OPT_FLAG, "false", NULL,
      "with --sweep: each is run as well, on this host, and the errors of the predictions are shown", AT(against_runs) },
    { "plot", OPT_TEXT, NULL, "FILE", "with --sweep: time and waiting of a step (SVG)", AT(plot) },
};
/* clang-format on */

static double compute(void *arg, uint32_t worker, uint64_t clock)
{
    const struct job *j = arg;

    return j->compute * 1e-3 *
           jitter_factor((enum jitter)j->jitter, j->seed, worker, (uint32_t)j->workers, clock);
}

/* Bytes of a chunk by those that travel. On one host both ends read them in place. */
static double ratio_of(const struct job *j, const struct ps_table *t, const struct kn_codec *codec)
{
    uint64_t whole = 0, coded = 0;

    if (j->transport == CL_MAP)
        return INFINITY;
    for (uint32_t k = 0; codec != NULL && k < t->nchunks; k++) {
        whole += t->chunk[k].bytes;
        coded += kn_codec_bytes(codec, t->chunk[k].bytes / sizeof(float));
    }
    return coded > 0 ? (double)whole / (double)coded : 1;
}

int sim_predict(const struct sim_conf *c, const struct job *j, double *waited_for,
                struct sim_result *out)
{
    struct task_shape shape = { 0 };
    struct vb_err err = { "out of memory" };
    enum vb_st st = task_shape_make(j, &shape, &err);

    if (st == VB_OK) {
        const struct ps_class *cls = &shape.cls[0];
        const struct sim_params p = { .table = &shape.table,
                                      .rule = &cls->rule,
                                      .nworkers = (uint32_t)j->workers,
                                      .steps = c->steps,
                                      .link = { .latency = c->latency_us * 1e-6,
                                                .overhead = c->overhead_us * 1e-6,
                                                .gap = c->gap_us * 1e-6,
                                                .per_byte = 1e-9 / c->gb_per_s },
                                      .apply_per_byte = 1e-9 / c->apply_gb_per_s,
                                      .push_ratio = ratio_of(j, &shape.table, cls->push),
                                      .pull_ratio = ratio_of(j, &shape.table, cls->pull),
                                      .dies = c->dies,
                                      .dies_at = c->dies_at,
                                      .noticed = c->noticed,
                                      .compute = compute,
                                      .arg = (void *)(uintptr_t)j,
                                      .waited_for = waited_for };

        st = sim_run(&p, out);
    }
    task_shape_fini(&shape);
    if (st == VB_INVAL)
        return cmd_fail(VB_EXIT_USAGE, "verbena: this cannot be simulated");
    return st == VB_OK ? VB_EXIT_OK : cmd_fail(VB_EXIT_FAILED, err.text);
}

/* The longest wait of one worker for another. */
struct longest {
    uint32_t who, whom;
    double s;
};

static struct longest find_longest(const double *waited_for, uint32_t n)
{
    struct longest best = { .s = 0 };

    for (uint32_t w = 0; w < n; w++)
        for (uint32_t v = 0; v < n; v++)
            if (v != w && waited_for[(size_t)w * n + v] > best.s)
                best = (struct longest){ w, v, waited_for[(size_t)w * n + v] };
    return best;
}

static int show_json(const struct sim_conf *c, const struct job *j, const struct sim_result *r,
                     const struct longest *l)
{
    char mode[PS_RULE_TEXT];
    json_t *hist = json_array();

    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
        json_array_append_new(hist, json_integer((json_int_t)r->staleness[b]));
    json_t *o = json_pack("{s:s,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:o,s:{s:I,s:I,s:f}}",
                          "mode", ps_rule_text(&j->own.rule, mode), "ps", (json_int_t)j->ps,
                          "workers", (json_int_t)j->workers, "steps", (json_int_t)c->steps,
                          "made_steps", (json_int_t)r->steps, "seconds", r->seconds, "step_s",
                          r->seconds / (double)c->steps, "waited_s", r->waited, "waited_most_s",
                          r->waited_most, "pushed_bytes", (json_int_t)r->pushed_bytes,
                          "pulled_bytes", (json_int_t)r->pulled_bytes, "dropped",
                          (json_int_t)r->dropped, "staleness", hist, "longest_wait", "worker",
                          (json_int_t)l->who, "for_worker", (json_int_t)l->whom, "seconds", l->s);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(10));

    if (text != NULL)
        puts(text);
    free(text);
    json_decref(o);
    return text != NULL ? VB_EXIT_OK : cmd_fail(VB_EXIT_FAILED, "out of memory");
}

static void show(const struct sim_conf *c, const struct job *j, const struct sim_result *r,
                 const struct longest *l)
{
    char mode[PS_RULE_TEXT];
    uint64_t reads = 0;

    printf("%s, %" PRIu64 " workers, %" PRIu64 " ps: %" PRIu64 " steps in %.3f s, %.3f ms each\n",
           ps_rule_text(&j->own.rule, mode), j->workers, j->ps, c->steps, r->seconds,
           1e3 * r->seconds / (double)c->steps);
    if (c->dies > 0)
        printf("worker %u dies in step %" PRIu64 ": all together make %" PRIu64 " steps\n",
               c->dies - 1, c->dies_at, r->steps);
    printf("between steps: %.3f s in the mean, %.3f s for who waited most\n", r->waited,
           r->waited_most);
    if (l->s > 0)
        printf("longest: worker %u waited %.3f s for worker %u\n", l->who, l->s, l->whom);
    if (r->dropped > 0)
        printf("%" PRIu64 " late gradients were dropped\n", r->dropped);
    printf("pushed %" PRIu64 " bytes, pulled %" PRIu64 " bytes\n", r->pushed_bytes,
           r->pulled_bytes);
    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
        reads += r->staleness[b];
    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
        if (r->staleness[b] > 0)
            printf("read %2u%s steps behind: %5.1f %%\n", b,
                   b + 1 == PS_STALENESS_BUCKETS ? " or more" : "",
                   100 * (double)r->staleness[b] / (double)reads);
}

static int simulate(const struct sim_conf *c, const struct job *j)
{
    double *waited_for = calloc(j->workers * j->workers, sizeof(*waited_for));
    struct sim_result r;
    int code = VB_EXIT_FAILED;

    if (waited_for != NULL)
        code = sim_predict(c, j, waited_for, &r);
    if (code == VB_EXIT_OK) {
        const struct longest l = find_longest(waited_for, (uint32_t)j->workers);

        if (j->json)
            code = show_json(c, j, &r, &l);
        else
            show(c, j, &r, &l);
    }
    free(waited_for);
    return code;
}

/* "2@100" */
static int read_lose(struct sim_conf *c, const struct job *j)
{
    unsigned long long worker = 0, step = 0;
    struct vb_err err;
    char rest;

    if (c->lose == NULL)
        return VB_EXIT_OK;
    if (sscanf(c->lose, "%llu@%llu%c", &worker, &step, &rest) != 2 || worker >= j->workers ||
        step >= c->steps) {
        vb_err_set(&err,
                   "--lose=%.60s: must be WORKER@STEP, a worker below %" PRIu64
                   " and a step below %" PRIu64,
                   c->lose, j->workers, c->steps);
        return cmd_fail(VB_EXIT_USAGE, err.text);
    }
    c->dies = (uint32_t)worker + 1;
    c->dies_at = step;
    return VB_EXIT_OK;
}

static int prepare(struct sim_conf *c, struct cmd_sets *s)
{
    static const char *const numbers[] = { "latency_us", "overhead_us", "gap_us", "gb_per_s",
                                           "apply_gb_per_s" };
    struct vb_err err = { "" };

    if (c->fit != NULL &&
        yaml_defaults(c->fit, &s->own, numbers, VB_ARRAY_LEN(numbers), &err) != VB_OK)
        return cmd_fail(VB_EXIT_USAGE, err.text);
    if (job_check(&s->job, &err) != VB_OK)
        return cmd_fail(VB_EXIT_USAGE, err.text);
    if (s->job.nclasses > 0)
        return cmd_fail(VB_EXIT_USAGE, "verbena sim: classes of variables are not simulated");
    if (c->sweep == NULL && (c->against_runs || c->plot != NULL))
        return cmd_fail(VB_EXIT_USAGE, "verbena sim: --against-runs and --plot need --sweep");
    return read_lose(c, &s->job);
}

static int sim_main(int argc, char **argv)
{
    struct sim_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_sim, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_sim, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK)
        code = prepare(&conf, s);
    if (code == VB_EXIT_OK)
        code = conf.sweep != NULL ? sim_sweep(&conf, &s->job) : simulate(&conf, &s->job);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_sim = {
    .about = { .name = "sim",
               .args = "JOB.yaml",
               .doc = "Says how long a job's steps would take, without running it.\n"
                      "The engines of the parameter servers run in virtual time; computing is "
                      "--compute with --jitter, links are the numbers given or measured (--fit).",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = sim_opts,
    .nopts = VB_ARRAY_LEN(sim_opts),
    .has_job = true,
    .run = sim_main,
};
