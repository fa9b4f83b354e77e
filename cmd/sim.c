/*
 * A job in virtual time: its chunk table, mode, compute and jitter with links that are numbers.
 */
#include "cmd/cmd.h"
#include "cmd/task.h"
#include "sim/sim.h"
#include "worker/jitter.h"

#include <inttypes.h>
#include <jansson.h>

struct sim_conf {
    uint64_t steps;
    double latency_us, overhead_us, gap_us, gb_per_s, apply_gb_per_s;
};

#define AT(member) .offset = offsetof(struct sim_conf, member)

/* clang-format off */
static const struct opt sim_opts[] = {
    { "steps", OPT_U64, "1000", "N", "steps of each worker", 1, 1000000, AT(steps) },
    { "latency_us", OPT_F64, "20", "US", "link: from the first byte's leaving to its coming", 0, 1e9, AT(latency_us) },
    { "overhead_us", OPT_F64, "2", "US", "link: a task's work on one message", 0, 1e9, AT(overhead_us) },
    { "gap_us", OPT_F64, "0", "US", "link: least time between two messages", 0, 1e9, AT(gap_us) },
    { "gb_per_s", OPT_F64, "1", "GB", "link: GB/s of one task, in each direction", 1e-6, 1e6, AT(gb_per_s) },
    { "apply_gb_per_s", OPT_F64, "4", "GB", "ps: GB/s of gradients that one lane adds", 1e-6, 1e6, AT(apply_gb_per_s) },
};
/* clang-format on */

static double compute(void *arg, uint32_t worker, uint64_t clock)
{
    const struct job *j = arg;

    return j->compute * 1e-3 *
           jitter_factor((enum jitter)j->jitter, j->seed, worker, (uint32_t)j->workers, clock);
}

static int show_json(const struct sim_conf *c, const struct job *j, const struct sim_result *r)
{
    char mode[PS_RULE_TEXT];
    json_t *hist = json_array();

    for (unsigned b = 0; b < PS_STALENESS_BUCKETS; b++)
        json_array_append_new(hist, json_integer((json_int_t)r->staleness[b]));
    json_t *o = json_pack(
        "{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:I,s:I,s:o}", "mode", ps_rule_text(&j->own.rule, mode),
        "ps", (json_int_t)j->ps, "workers", (json_int_t)j->workers, "steps", (json_int_t)c->steps,
        "seconds", r->seconds, "step_s", r->seconds / (double)c->steps, "waited_s", r->waited,
        "waited_most_s", r->waited_most, "pushed_bytes", (json_int_t)r->pushed_bytes,
        "pulled_bytes", (json_int_t)r->pulled_bytes, "staleness", hist);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(10));

    if (text != NULL)
        puts(text);
    free(text);
    json_decref(o);
    return text != NULL ? VB_EXIT_OK : cmd_fail(VB_EXIT_FAILED, "out of memory");
}

static void show(const struct sim_conf *c, const struct job *j, const struct sim_result *r)
{
    char mode[PS_RULE_TEXT];
    uint64_t reads = 0;

    printf("%s, %" PRIu64 " workers, %" PRIu64 " ps: %" PRIu64 " steps in %.3f s, %.3f ms each\n",
           ps_rule_text(&j->own.rule, mode), j->workers, j->ps, c->steps, r->seconds,
           1e3 * r->seconds / (double)c->steps);
    printf("between steps: %.3f s in the mean, %.3f s for who waited most\n", r->waited,
           r->waited_most);
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
    struct task_shape shape = { 0 };
    struct vb_err err = { "out of memory" };
    struct sim_result r;
    enum vb_st st = task_shape_make(j, &shape, &err);

    if (st == VB_OK)
        st = sim_run(&(struct sim_params){ .table = &shape.table,
                                           .rule = &j->own.rule,
                                           .nworkers = (uint32_t)j->workers,
                                           .steps = c->steps,
                                           .link = { .latency = c->latency_us * 1e-6,
                                                     .overhead = c->overhead_us * 1e-6,
                                                     .gap = c->gap_us * 1e-6,
                                                     .per_byte = 1e-9 / c->gb_per_s },
                                           .apply_per_byte = 1e-9 / c->apply_gb_per_s,
                                           .compute = compute,
                                           .arg = (void *)(uintptr_t)j },
                     &r);
    task_shape_fini(&shape);
    if (st == VB_INVAL)
        return cmd_fail(VB_EXIT_USAGE, "verbena: this cannot be simulated");
    if (st != VB_OK)
        return cmd_fail(VB_EXIT_FAILED, err.text);
    if (j->json)
        return show_json(c, j, &r);
    show(c, j, &r);
    return VB_EXIT_OK;
}

static int sim_main(int argc, char **argv)
{
    struct sim_conf conf = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    struct vb_err err = { "" };
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_sim, &conf, s) == VB_OK)
        code = cmd_sets_read(&cmd_sim, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK && job_check(&s->job, &err) != VB_OK)
        code = cmd_fail(VB_EXIT_USAGE, err.text);
    if (code == VB_EXIT_OK && s->job.own.rule.mode == PS_BACKUP)
        code = cmd_fail(VB_EXIT_USAGE, "verbena sim: sync+B is not simulated");
    if (code == VB_EXIT_OK && s->job.nclasses > 0)
        code = cmd_fail(VB_EXIT_USAGE, "verbena sim: classes of variables are not simulated");
    if (code == VB_EXIT_OK)
        code = simulate(&conf, &s->job);
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
                      "--compute with --jitter, links are the numbers given. Not sync+B.",
               .nargs_min = 1,
               .nargs_max = 1 },
    .opt = sim_opts,
    .nopts = VB_ARRAY_LEN(sim_opts),
    .has_job = true,
    .run = sim_main,
};
