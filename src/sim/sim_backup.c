/*
 * sim_backup.c - backup workers: the coordinator hears from each lane which workers' pushes of a step are in, and
 * names those that make it, the first ones (cluster/control_set.c).
 */
#include "sim/sim_priv.h"

#include "base/util.h"

#include <string.h>

static bool is_whole(const struct sim *s, uint32_t worker)
{
    return s->counted[worker] == s->nused;
}

void sim_name(struct sim *s, double now)
{
    const uint32_t nworkers = s->p->nworkers,
                   want = VB_MIN(nworkers - s->p->rule->backups, s->live);
    const double told = s->p->told > 0 ? s->p->told : 2 * s->p->link.latency;
    uint32_t n = 0;

    for (uint32_t w = 0; w < nworkers; w++)
        n += is_whole(s, w);
    if (s->p->rule->mode != PS_BACKUP || want == 0 || n < want)
        return;
    memset(s->set, 0, (nworkers + 63) / 64 * sizeof(*s->set));
    for (uint32_t w = 0; w < nworkers; w++)
        if (is_whole(s, w))
            s->set[w / 64] |= UINT64_C(1) << (w % 64);
    memset(s->counted, 0, nworkers * sizeof(*s->counted));
    for (uint32_t i = 0; i < s->nlanes; i++)
        if (s->lane[i].nchunks > 0)
            sim_put(s, (struct sim_event){
                           .at = now + told, .kind = SET, .chunk = i, .clock = s->step });
    s->step++;
}

void sim_counted(struct sim *s, uint32_t worker, uint64_t clock, double now)
{
    if (clock != s->step)
        return; /* late */
    s->counted[worker]++;
    sim_name(s, now);
}
