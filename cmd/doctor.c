#include "cmd/doctor.h"

#include "cluster/addr.h"
#include "cmd/cmd.h"
#include "cmd/spec_arg.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

enum { OPT_CLUSTER, OPT_NET_DEVICES, OPT_REQUIRE_RDMA, OPT_JSON, OPT_TIMEOUT };
#define AT(member) .offset = offsetof(struct doctor, member)

static const struct opt doctor_opts[] = {
    [OPT_CLUSTER] = { "cluster", OPT_TEXT, NULL, "FILE",
                      "looks at the way to each host of this ClusterSpec, a JSON file or its text; "
                      "else TF_CONFIG is taken",
                      AT(cluster) },
    [OPT_NET_DEVICES] = { "net_devices", OPT_TEXT, NULL, "LIST",
                          "the devices that data may use, as verbena train takes them",
                          AT(net_devices) },
    [OPT_REQUIRE_RDMA] = { "require_rdma", OPT_FLAG, "false", NULL,
                           "fails with code 6 where no RDMA device can be used", AT(require_rdma) },
    [OPT_JSON] = { "json", OPT_FLAG, "false", NULL,
                   "one JSON object a line: check, status, text, fix", AT(json) },
    [OPT_TIMEOUT] = { "timeout_s", OPT_U64, "3", "S",
                      "how long a host may take to answer, in seconds", 1, 600, AT(timeout_s) },
};

void doc_say(struct doctor *d, enum doc_status status, const char *check, const char *fix,
             const char *fmt, ...)
{
    static const char *const names[] = { "ok", "warn", "fail" };
    struct vb_err text, clean;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text.text, sizeof(text.text), fmt, ap);
    va_end(ap);
    vb_err_set(&clean, "%s", text.text);
    d->failed |= status == DOC_FAIL;
    if (!d->json) {
        printf("%-4s  %-7s %s%s%s\n", names[status], check, clean.text,
               fix[0] != '\0' ? "; fix: " : "", fix);
    } else {
        json_t *o = json_pack("{s:s, s:s, s:s%, s:s}", "check", check, "status", names[status],
                              "text", clean.text, strlen(clean.text), "fix", fix);

        if (o == NULL || json_dumpf(o, stdout, JSON_COMPACT) != 0)
            d->failed = true;
        putchar('\n');
        json_decref(o);
    }
    fflush(stdout);
}

static enum vb_st peers_read(struct doctor *d, bool from_env, const char *const *arg,
                             unsigned nargs, struct vb_err *err)
{
    bool none;
    const enum vb_st st = spec_arg_read(d->cluster, from_env, &d->spec, &none, err);
    const size_t ntasks = st == VB_OK ? cl_ntasks(&d->spec) : 0;

    if (st != VB_OK)
        return st;
    d->peer = calloc(ntasks + nargs + 1, sizeof(*d->peer));
    if (d->peer == NULL)
        return VB_NOMEM;
    for (size_t i = 0; i < ntasks; i++)
        d->peer[d->npeers++] = d->spec.addr[i];
    for (unsigned i = 0; i < nargs; i++) {
        const char *why = addr_read(arg[i], &d->peer[d->npeers++]);

        if (why != NULL) {
            vb_err_set(err, "verbena doctor: '%.100s': %s", arg[i], why);
            return VB_INVAL;
        }
    }
    return VB_OK;
}

static enum vb_st pick_read(struct doctor *d, bool from_env, struct vb_err *err)
{
    struct vb_err why;
    const enum vb_st st = net_pick_parse(d->net_devices, &d->pick, &why);

    if (st != VB_OK)
        vb_err_set(err, "%s: %.450s", from_env ? "VB_NET_DEVICES" : "--net-devices", why.text);
    return st;
}

static int look(struct doctor *d)
{
    if (net_devs_host(&d->devs) != VB_OK || rdma_ports_host(&d->ports) != VB_OK)
        return cmd_fail(VB_EXIT_FAILED, "out of memory");
    doc_host(d);
    doc_sockets(d);
    doc_net(d);
    doc_peers(d);
    if (d->no_fabric)
        return VB_EXIT_NOFABRIC;
    return d->failed ? VB_EXIT_FAILED : VB_EXIT_OK;
}

static int run(struct doctor *d, const struct opt_set *set, const char *const *arg, unsigned nargs)
{
    struct vb_err err = { "out of memory" };
    enum vb_st st = peers_read(d, set->src[OPT_CLUSTER].from == OPT_ENV, arg, nargs, &err);

    if (st == VB_OK)
        st = pick_read(d, set->src[OPT_NET_DEVICES].from == OPT_ENV, &err);
    const int code = st == VB_OK      ? look(d)
                     : st == VB_NOMEM ? cmd_fail(VB_EXIT_FAILED, err.text)
                                      : cmd_fail(VB_EXIT_USAGE, err.text);
    net_devs_free(&d->devs);
    rdma_ports_free(&d->ports);
    cl_spec_fini(&d->spec);
    free(d->peer);
    return code;
}

static int doctor_run(int argc, char **argv)
{
    struct doctor d = { 0 };
    struct cmd_sets *s = calloc(1, sizeof(*s));
    const char *rest[OPT_ARGS_MAX];
    unsigned nrest;
    int code = VB_EXIT_FAILED;

    if (s != NULL && cmd_sets_init(&cmd_doctor, &d, s) == VB_OK)
        code = cmd_sets_read(&cmd_doctor, s, argc, argv, rest, &nrest);
    if (code == VB_EXIT_OK)
        code = run(&d, &s->own, rest, nrest);
    if (s != NULL)
        cmd_sets_fini(s);
    free(s);
    return code;
}

const struct cmd cmd_doctor = {
    .about = { .name = "doctor",
               .args = "[HOST:PORT...]",
               .doc =
                   "Says whether this host can run tasks and reach others, and what to fix.\n"
                   "Run it where the tasks will run, also inside srun or a container: limits and "
                   "devices are those of the process. Each line is ok, warn or fail. The exit "
                   "code is 1 when something failed, 6 when it is the RDMA that is required.",
               .nargs_max = OPT_ARGS_MAX },
    .opt = doctor_opts,
    .nopts = VB_ARRAY_LEN(doctor_opts),
    .run = doctor_run,
};
