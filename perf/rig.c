#include "perf/rig.h"

#define LOG_MOD "perf"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/kn.h"
#include "perf/bench.h"
#include "ps/server.h"
#include "transport/wake.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>

bool rig_make(struct rig *r, unsigned nworkers, uint64_t bytes, enum cl_transport transport)
{
    const struct ps_var var = { .name = "x", .elems = bytes / sizeof(float) };
    struct vb_err err;

    *r = (struct rig){ .spec = { .nps = 1, .nworkers = nworkers }, .pinned = transport == CL_MAP };
    r->spec.addr = r->addr;
    for (unsigned i = 0; i <= nworkers; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(a);

        r->listen_fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (r->listen_fd[i] < 0 || bind(r->listen_fd[i], (struct sockaddr *)&a, len) != 0 ||
            listen(r->listen_fd[i], 16) != 0 ||
            getsockname(r->listen_fd[i], (struct sockaddr *)&a, &len) != 0)
            return false;
        snprintf(r->addr[i].host, sizeof(r->addr[i].host), "127.0.0.1");
        r->addr[i].port = ntohs(a.sin_port);
    }
    r->ctl = (struct ctl_params){ .spec = &r->spec, .no_auth = true, .transport = transport };
    return ps_table_make(&(struct ps_table_params){ .var = &var, .nvars = 1, .nps = 1 }, &r->table,
                         &err) == VB_OK;
}

pid_t rig_start_ps(struct rig *r)
{
    static const struct kn_opt sgd = { .kind = KN_SGD, .rate = 1e-3f };
    struct ps_params p = { .ctl = r->ctl, .table = &r->table, .optimizer = &sgd };
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 1; i <= r->spec.nworkers; i++)
        close(r->listen_fd[i]);
    if (r->pinned)
        bench_pin(1);
    p.ctl.rank = 0;
    p.ctl.listen_fd = r->listen_fd[0];
    _exit(ps_run(&p));
}

bool rig_be_worker(struct rig *r, unsigned worker)
{
    struct ctl_params cp = r->ctl;
    struct tp_link *link;

    char name[CL_NAME_MAX];

    close(r->listen_fd[0]);
    if (r->pinned)
        bench_pin(0);
    if (tp_node_open(&(struct tp_node_params){ .name = cl_name(&r->spec, 1 + worker, name),
                                               .nports = 1,
                                               .spin_ns = wake_spin_ns(1 + r->spec.nworkers, 1) },
                     &r->node) != VB_OK ||
        exchange_open(
            &(struct exchange_params){ .table = &r->table, .worker = worker, .node = r->node },
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

static bool wait_clock(struct rig *r)
{
    while (exchange_round(r->x, 0) != r->clock) {
        const enum vb_st st = exchange_wait(r->x, vb_now_ns() + 20 * VB_SEC);

        if (st != VB_OK) {
            log_error("exchange %" PRIu64 ": %s", r->clock, vb_st_str(st));
            return false;
        }
    }
    return true;
}

bool rig_exchange(struct rig *r)
{
    for (uint32_t c = 0; c < r->table.nchunks; c++)
        exchange_push(r->x, c, r->clock, 1, 1);
    r->clock++;
    return wait_clock(r);
}

bool rig_init(struct rig *r)
{
    for (uint32_t c = 0; c < r->table.nchunks; c++)
        exchange_init(r->x, c);
    return wait_clock(r);
}

void rig_finish(struct rig *r)
{
    exchange_finish(r->x, r->clock);
    while (!exchange_idle(r->x) && exchange_wait(r->x, vb_now_ns() + 5 * VB_SEC) == VB_OK)
        ;
    ctl_finish(r->c);
    ctl_stop(r->c);
}
