#include "perf/rig_turn.h"

#define LOG_MOD "perf"
#include "base/log.h"

#include <signal.h>
#include <sys/wait.h>

static void be_worker(void *arg)
{
    struct rig_turn *g = arg;

    if (!rig_be_worker(&g->rig, g->n) || !rig_init(&g->rig)) {
        log_error("worker %u of a measurement cannot start", g->n);
        return;
    }
    turn_serve(g->part, &g->rig);
    rig_finish(&g->rig);
}

bool rig_turn_start(struct rig_turn *g)
{
    bool ok = (g->ps = rig_start_ps(&g->rig)) > 0;

    for (g->n = 0; ok && g->n < g->rig.spec.nworkers; g->n++)
        ok = turn_fork(&g->worker[g->n], be_worker, g);
    rig_drop_ports(&g->rig);
    ok = ok && turn_ready(g->worker, g->n);
    if (!ok)
        log_error("the tasks of a measurement cannot be started");
    return ok;
}

void rig_turn_stop(struct rig_turn *g)
{
    turn_stop(g->worker, g->n);
    for (int i = 0; g->ps > 0; i++) {
        if (waitpid(g->ps, NULL, WNOHANG) != 0)
            break;
        if (i == 100)
            kill(g->ps, SIGKILL);
        usleep(20000);
    }
    ps_table_fini(&g->rig.table);
    g->ps = 0;
}

double rig_turn_exchange(void *arg, unsigned what, uint64_t n)
{
    struct rig *r = arg;
    const double begun = bench_now_s();

    for (uint64_t i = 0; i < n; i++)
        if (!rig_exchange(r))
            return -1;
    return bench_now_s() - begun;
}
