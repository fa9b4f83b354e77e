#include "perf/perf.h"

#include "base/opt.h"
#include "perf/engine.h"
#include "perf/idle.h"
#include "perf/link.h"
#include "perf/plot.h"
#include "perf/pushpull.h"
#include "perf/train.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct perf_conf {
    bool json, netns;
    unsigned transport;
    uint64_t bytes, rounds, workers;
    double rate_mbit;
    uint64_t delay_us;
    char *host, *plot, *out;
};

enum way_choice { ALL, MAP, TCP, RDMA };
static const char *const ways[] = {
    [ALL] = "auto", [MAP] = "map", [TCP] = "tcp", [RDMA] = "rdma", NULL
};

#define AT(member) .offset = offsetof(struct perf_conf, member)
static const struct opt perf_opts[] = {
    { "json", OPT_FLAG, "false", NULL, "one JSON object a line on stdout", AT(json) },
    { "transport", OPT_ENUM, "auto", "WAY", "which way; auto: all that there are", AT(transport),
      .names = ways },
    { "bytes", OPT_U64, "0", "N", "only this size; 0: the usual ones", 0, 1e12, AT(bytes) },
    { "rounds", OPT_U64, "7", "N", "how often each thing is measured", 1, BENCH_ROUNDS_MAX,
      AT(rounds) },
    { "workers", OPT_U64, "0", "N",
      "pushpull against all-reduce, barrier, ssp: so many; 0: the usual", 0, 16, AT(workers) },
    { "host", OPT_TEXT, NULL, "ADDRESS",
      "link-*, wake: this host's address to use over tcp and rdma, of the device to measure; "
      "without it 127.0.0.1",
      AT(host) },
    { "netns", OPT_FLAG, "false", NULL,
      "link-bw: over tcp, between two network namespaces and not over loopback (root)", AT(netns) },
    { "rate_mbit", OPT_F64, "1000", "MBIT", "tune: the network's rate (iperf3), in Mbit/s", 1, 1e6,
      AT(rate_mbit) },
    { "delay_us", OPT_U64, "0", "US",
      "tune: its delay, half of a round trip (ping), in us; 0: what this host has", 0, 100000,
      AT(delay_us) },
    { "out", OPT_TEXT, NULL, "FILE",
      "tune, fit: where the result goes; without it tune.yaml or fit.yaml", AT(out) },
    { "plot", OPT_TEXT, NULL, "FILE", "link-lat, link-bw, all: a picture of them (SVG)", AT(plot) },
};

static enum cl_transport transport(const struct perf_conf *c)
{
    return c->transport == MAP ? CL_MAP : c->transport == TCP ? CL_TCP : CL_AUTO;
}

static bool pushpull(const struct bench_out *o, const struct perf_conf *c)
{
    const struct perf_pushpull_params p = { .transport = transport(c), .bytes = c->bytes };

    return perf_pushpull(o, &p);
}

static bool push(const struct bench_out *o, const struct perf_conf *c)
{
    const struct perf_pushpull_params p = { .bytes = c->bytes, .push = true };

    return perf_pushpull(o, &p);
}

#define ENGINE(name, run)                                                                          \
    static bool name(const struct bench_out *o, const struct perf_conf *c)                         \
    {                                                                                              \
        const struct perf_engine_params p = { .transport = transport(c),                           \
                                              .bytes = c->bytes,                                   \
                                              .rounds = (unsigned)c->rounds,                       \
                                              .workers = (unsigned)c->workers,                     \
                                              .rate_mbit = c->rate_mbit,                           \
                                              .delay_us = (unsigned)c->delay_us,                   \
                                              .out = c->out != NULL ? c->out : #name ".yaml" };    \
                                                                                                   \
        return run(o, &p);                                                                         \
    }
ENGINE(pull_lat, perf_pull_lat)
ENGINE(read_lat, perf_read_lat)
ENGINE(barrier, perf_barrier)
ENGINE(apply, perf_apply)
ENGINE(overlap, perf_overlap)
ENGINE(ssp, perf_ssp)
ENGINE(allreduce, perf_allreduce)
ENGINE(tune, perf_tune)
ENGINE(fit, perf_fit)

static bool train(const struct bench_out *o, const struct perf_conf *c)
{
    return perf_train(o, (unsigned)c->rounds);
}

static struct link_params link_params(const struct perf_conf *c)
{
    return (struct link_params){ .way = { [TP_MAP] = c->transport == ALL || c->transport == MAP,
                                          [TP_RDMA] = c->transport == ALL || c->transport == RDMA,
                                          [TP_TCP] = c->transport == ALL || c->transport == TCP },
                                 .bytes = c->bytes,
                                 .rounds = (unsigned)c->rounds,
                                 .host = c->host,
                                 .netns = c->netns };
}

#define LINK(name, run)                                                                            \
    static bool name(const struct bench_out *o, const struct perf_conf *c)                         \
    {                                                                                              \
        const struct link_params p = link_params(c);                                               \
                                                                                                   \
        return run(o, &p);                                                                         \
    }
LINK(link_lat, perf_link_lat)
LINK(link_bw, perf_link_bw)
LINK(link_rate, perf_link_rate)
LINK(wakes, perf_wake)
LINK(idle, perf_idle)
LINK(copies, perf_copies)

static const struct bench {
    const char *name;
    bool (*run)(const struct bench_out *o, const struct perf_conf *c);
    bool in_all;
} benches[] = {
    { "link-lat", link_lat, true },
    { "link-bw", link_bw, true },
    { "link-rate", link_rate, true },
    { "wake", wakes, true },
    { "idle", idle, true },
    { "copies", copies, true },
    { "pull-lat", pull_lat, true },
    { "read-lat", read_lat, true },
    { "push", push, true },
    { "pushpull", pushpull, true },
    { "allreduce", allreduce, false },
    { "barrier", barrier, true },
    { "apply", apply, true },
    { "overlap", overlap, true },
    { "ssp", ssp, false },
    { "train", train, false },
    { "tune", tune, false },
    { "fit", fit, false },
};

static const struct opt_cmd perf_about = {
    .name = "perf",
    .args =
        "[link-lat|link-bw|link-rate|wake|idle|copies|pull-lat|read-lat|push|pushpull|allreduce|"
        "barrier|apply|overlap|ssp|train|tune|fit|all]",
    .doc =
        "Measures what this machine can do, against a baseline in the same run.\n"
        "link-lat   a message one way, against two cache lines (map) and UCX itself (tcp, rdma)\n"
        "link-bw    payload landing where asked, against memcpy, sockets, UCX itself\n"
        "link-rate  small messages a second, against UCX itself\n"
        "wake       a message to a peer that sleeps, against an eventfd\n"
        "idle       processor time of tasks that wait\n"
        "copies     bytes copied, malloc, mmap, registering and system calls of a step\n"
        "pushpull   one synchronous exchange between a worker and a ps, against x += y\n"
        "allreduce  pushpull of n workers, against MPI_Allreduce and gloo where they are "
        "installed\n"
        "pull-lat   a blocking pull of parameters, against a message back and forth\n"
        "read-lat   a read of a parameter in place, against two cache hits\n"
        "push       a push of 1 to 64 MiB until it is applied, against x += y\n"
        "barrier    a synchronous step with nothing in it, against a shared cache line\n"
        "apply      gradients summed and the optimizer's step, against STREAM's triad\n"
        "overlap    a step whose exchange hides behind compute, between namespaces (root)\n"
        "ssp        steps/s of bounded staleness with jitter, against the exact recurrence\n"
        "train      samples/s of a small network, against PyTorch where it is installed\n"
        "tune       chunks and credit for a network, written to a file for --tune (root)\n"
        "fit        the numbers of a link and a ps for verbena sim, written to a file for --fit\n"
        "all        all but allreduce, ssp, train, tune and fit",
    .nargs_min = 1,
    .nargs_max = 1,
};

static int usage(const char *text)
{
    fprintf(stderr, "verbena: %s\n", text);
    return VB_EXIT_USAGE;
}

/* Which of them; NULL: none, and all is not one. */
static const struct bench *find(const char *name)
{
    for (size_t i = 0; i < VB_ARRAY_LEN(benches); i++)
        if (strcmp(benches[i].name, name) == 0)
            return &benches[i];
    return NULL;
}

static bool run(const struct bench_out *o, const struct perf_conf *c, const struct bench *one)
{
    bool ok = true;

    if (one != NULL)
        return one->run(o, c);
    for (size_t i = 0; i < VB_ARRAY_LEN(benches); i++)
        ok = (!benches[i].in_all || benches[i].run(o, c)) && ok;
    return ok;
}

static int run_and_plot(const struct perf_conf *c, const struct bench *one, int argc, char **argv)
{
    const struct bench_out out = { .json = c->json, .plot = c->plot != NULL ? plot_new() : NULL };
    bool ok;

    if (!perf_copies_counting())
        bench_head(&out, argc, argv);
    ok = run(&out, c, one);
    if (c->plot != NULL && (out.plot == NULL || !plot_write(out.plot, c->plot))) {
        fprintf(stderr, "verbena: cannot write %s: %s\n", c->plot, strerror(errno));
        ok = false;
    }
    plot_free(out.plot);
    return ok ? VB_EXIT_OK : VB_EXIT_FAILED;
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
    int code;

    if (st == VB_OK)
        st = opt_args(&perf_about, sets, 1, argc, argv, rest, &nrest, &err);
    if (st == VB_OK)
        st = opt_env(&set, &err);
    if (st == VB_OK)
        st = opt_given(&set, &err);
    if (st != VB_OK)
        return usage(err.text);

    const struct bench *one = find(rest[0]);

    if (one == NULL && strcmp(rest[0], "all") != 0) {
        vb_err_set(
            &err,
            "perf: unknown measurement '%.40s'; there are link-lat, link-bw, link-rate, wake, "
            "idle, copies, pull-lat, read-lat, push, pushpull, allreduce, barrier, apply, overlap, "
            "ssp, train, tune, fit and all",
            rest[0]);
        return usage(err.text);
    }
    code = run_and_plot(&c, one, argc, argv);
    opt_fini(&set);
    return code;
}
