#include "perf/rig.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/kn.h"
#include "perf/bench.h"
#include "perf/netns.h"
#include "ps/server.h"
#include "transport/wake.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define WAIT_NS (20 * VB_SEC)

static const char *host_of_all = "127.0.0.1";

void rig_at(const char *host)
{
    host_of_all = host;
}

static bool listen_at(struct rig *r, unsigned task, const char *host)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    r->listen_fd[task] = fd;
    if (fd < 0 || inet_pton(AF_INET, host, &a.sin_addr) != 1 ||
        bind(fd, (struct sockaddr *)&a, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        log_error("cannot listen at %s: %m", host);
        return false;
    }
    snprintf(r->addr[task].host, sizeof(r->addr[task].host), "%s", host);
    r->addr[task].port = ntohs(a.sin_port);
    return true;
}

bool rig_make_many(struct rig *r, unsigned nworkers, uint32_t nvars, uint64_t bytes,
                   enum cl_transport transport)
{
    struct ps_var var[RIG_VARS_MAX];
    struct vb_err err;

    *r = (struct rig){ .spec = { .nps = 1, .nworkers = nworkers },
                       .pinned = transport == CL_MAP,
                       .credit_bytes = r->credit_bytes,
                       .chunk_bytes = r->chunk_bytes };
    r->spec.addr = r->addr;
    if (nworkers > RIG_WORKERS_MAX || nvars > RIG_VARS_MAX)
        return false;
    for (unsigned i = 0; i <= nworkers; i++)
        if (!listen_at(r, i, host_of_all))
            return false;
    for (uint32_t v = 0; v < nvars; v++)
        var[v] = (struct ps_var){ .name = "x", .elems = bytes / sizeof(float), .need = v };
    r->cls.optimizer = (struct kn_opt){ .kind = KN_SGD, .rate = 1e-3f };
    r->ctl = (struct ctl_params){ .spec = &r->spec, .no_auth = true, .transport = transport };
    return ps_table_make(
               &(struct ps_table_params){
                   .var = var, .nvars = nvars, .nps = 1, .chunk_bytes = r->chunk_bytes },
               &r->table, &err) == VB_OK;
}

bool rig_make(struct rig *r, unsigned nworkers, uint64_t bytes, enum cl_transport transport)
{
    return rig_make_many(r, nworkers, 1, bytes, transport);
}

bool rig_move(struct rig *r, const int netns[2], const char *const host[2])
{
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    bool ok = home >= 0;

    rig_drop_ports(r);
    for (unsigned i = 0; ok && i <= r->spec.nworkers; i++)
        ok = setns(netns[i == 0], CLONE_NEWNET) == 0 && listen_at(r, i, host[i == 0]);
    if (home >= 0) {
        ok = setns(home, CLONE_NEWNET) == 0 && ok;
        close(home);
    }
    r->netns[0] = netns[0];
    r->netns[1] = netns[1];
    return ok;
}

void rig_drop_ports(struct rig *r)
{
    for (unsigned i = 0; i <= r->spec.nworkers; i++)
        close(r->listen_fd[i]);
}

pid_t rig_start_ps(struct rig *r)
{
    struct ps_params p = {
        .ctl = r->ctl, .table = &r->table, .cls = &r->cls, .credit_bytes = r->credit_bytes
    };
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 1; i <= r->spec.nworkers; i++)
        close(r->listen_fd[i]);
    if (r->pinned)
        bench_pin(1);
    if (r->netns[1] > 0 && !netns_enter(r->netns[1]))
        _exit(1);
    p.ctl.rank = 0;
    p.ctl.listen_fd = r->listen_fd[0];
    _exit(ps_run(&p));
}

bool rig_be_worker(struct rig *r, unsigned worker)
{
    struct ctl_params cp = r->ctl;
    struct tp_link *link;

    char name[CL_NAME_MAX];

    r->worker = worker;
    close(r->listen_fd[0]);
    if (r->pinned)
        bench_pin(0);
    if (r->netns[0] > 0 && !netns_enter(r->netns[0]))
        return false;
    if (tp_node_open(&(struct tp_node_params){ .name = cl_name(&r->spec, 1 + worker, name),
                                               .nports = 1,
                                               .spin_ns = wake_spin_ns(1 + r->spec.nworkers, 1),
                                               .credit_bytes = r->credit_bytes },
                     &r->node) != VB_OK ||
        exchange_open(&(struct exchange_params){ .table = &r->table,
                                                 .cls = &r->cls,
                                                 .worker = worker,
                                                 .nworkers = r->spec.nworkers,
                                                 .node = r->node },
                      &r->x) != VB_OK)
        return false;
    cp.rank = 1 + worker;
    cp.listen_fd = r->listen_fd[1 + worker];
    cp.node = r->node;
    cp.channels = 1;
    if (ctl_start(&cp, &r->c) != VB_OK || ctl_wait_start(r->c) != VB_OK)
        return false;
    link = ctl_link(r->c, 0);
    return exchange_connect(r->x, &link) == VB_OK;
}

bool rig_wait_var(struct rig *r, uint32_t var)
{
    const uint64_t begun = vb_now_ns();

    while (exchange_round(r->x, var) != r->clock) {
        const enum vb_st st = exchange_wait(r->x, begun + WAIT_NS);

        if (st != VB_OK && (st != VB_TIMEOUT || vb_now_ns() >= begun + WAIT_NS)) {
            log_error("exchange %" PRIu64 ": %s", r->clock, vb_st_str(st));
            return false;
        }
    }
    return true;
}

bool rig_wait(struct rig *r)
{
    for (uint32_t v = 0; v < r->table.nvars; v++)
        if (!rig_wait_var(r, v))
            return false;
    return true;
}

bool rig_exchange(struct rig *r)
{
    for (uint32_t c = 0; c < r->table.nchunks; c++)
        exchange_push(r->x, c, r->clock, 1, r->spec.nworkers);
    r->clock++;
    return rig_wait(r);
}

bool rig_init(struct rig *r)
{
    for (uint32_t c = 0; r->worker == 0 && c < r->table.nchunks; c++)
        exchange_init(r->x, c);
    return rig_wait(r);
}

void rig_finish(struct rig *r)
{
    exchange_finish(r->x, r->clock);
    while (!exchange_idle(r->x) && exchange_wait(r->x, vb_now_ns() + 5 * VB_SEC) == VB_OK)
        ;
    ctl_finish(r->c);
    ctl_stop(r->c);
}
