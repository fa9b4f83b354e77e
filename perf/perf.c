#include "perf/perf.h"

#include "base/opt.h"
#include "perf/pushpull.h"
#include "perf/train.h"

#include <stdio.h>
#include <string.h>

struct perf_conf {
    bool json;
    unsigned transport;
    uint64_t kib, rounds;
};

static const char *const transports[] = {
    [CL_AUTO] = "auto", [CL_MAP] = "map", [CL_TCP] = "tcp", NULL
};

#define AT(member) .offset = offsetof(struct perf_conf, member)
static const struct opt perf_opts[] = {
    { "json", OPT_FLAG, "false", NULL, "one JSON object a line on stdout", AT(json) },
    { "transport", OPT_ENUM, "auto", "WAY", "pushpull: which way; auto: map, then tcp",
      AT(transport), .names = transports },
    { "kib", OPT_U64, "0", "N", "pushpull: only this size in KiB; 0: 1 KiB to 256 MiB", 0, 1 << 22,
      AT(kib) },
    { "rounds", OPT_U64, "7", "N", "train: rounds of about 3 s for each program", 1,
      BENCH_ROUNDS_MAX, AT(rounds) },
};

static const struct opt_cmd perf_about = {
    .name = "perf",
    .args = "[pushpull|train]",
    .doc = "Measures what this machine can do, against a baseline in the same run.\n"
           "pushpull  one synchronous exchange between a worker and a ps, against x += y\n"
           "train     samples/s of a small network, against PyTorch where it is installed",
    .nargs_min = 1,
    .nargs_max = 1,
};

static int usage(const char *text)
{
    fprintf(stderr, "verbena: %s\n", text);
    return VB_EXIT_USAGE;
}

int perf_main(int argc, char **argv)
{
    struct perf_conf c = { 0 };
    struct opt_set set;
    struct opt_set *const sets[] = { &set };
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest = 0;
    struct vb_err err = { "out of memory" };
    enum vb_st st = opt_init(&set, "Options", perf_opts, VB_ARRAY_LEN(perf_opts), &c);

    if (st == VB_OK)
        st = opt_args(&perf_about, sets, 1, argc, argv, rest, &nrest, &err);
    if (st == VB_OK)
        st = opt_env(&set, &err);
    if (st == VB_OK)
        st = opt_given(&set, &err);
    if (st != VB_OK)
        return usage(err.text);
    const struct bench_out out = { .json = c.json };
    const bool pushpull = strcmp(rest[0], "pushpull") == 0;

    if (!pushpull && strcmp(rest[0], "train") != 0) {
        vb_err_set(&err, "perf: unknown measurement '%.40s'; there are pushpull and train",
                   rest[0]);
        return usage(err.text);
    }
    bench_head(&out, argc, argv);
    const bool ok =
        pushpull ? perf_pushpull(&out,
                                 &(struct perf_pushpull_params){
                                     .transport = (enum cl_transport)c.transport, .kib = c.kib })
                 : perf_train(&out, (unsigned)c.rounds);

    opt_fini(&set);
    return ok ? VB_EXIT_OK : VB_EXIT_FAILED;
}
