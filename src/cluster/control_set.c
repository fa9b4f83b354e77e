/*
 * control_set.c - who makes a step, where some workers are backups: lanes say whose pushes they have, a ps
 * tells the coordinator when all its lanes have said so, the coordinator names the first enough workers
 * that every ps has, and each ps keeps the set until its lanes fetch it.
 *
 * A lane is never more than one step behind another one: a step needs every lane. So two slots a worker,
 * and two sets, are enough.
 */
#include "cluster/control_int.h"

#include <string.h>

void ctl_counted(struct ctl *c, uint32_t worker, uint64_t clock)
{
    bool whole;

    pthread_mutex_lock(&c->mu);
    struct ctl_counted *k = &c->counted[2 * worker + clock % 2];

    if (k->clock != clock)
        *k = (struct ctl_counted){ .clock = clock };
    whole = ++k->lanes == c->p.channels;
    if (whole) {
        k->tell = true;
        c->counted_new = true;
    }
    pthread_mutex_unlock(&c->mu);
    if (whole)
        ctl_wake(c);
}

bool ctl_set(struct ctl *c, uint64_t clock, uint64_t bits[CTL_SET_WORDS])
{
    bool there;

    pthread_mutex_lock(&c->mu);
    there = clock < c->nsets && clock + 2 >= c->nsets;
    if (there)
        memcpy(bits, c->set[clock % 2].bits, sizeof(c->set[0].bits));
    pthread_mutex_unlock(&c->mu);
    return there;
}

void set_tell(struct ctl *c)
{
    bool any;

    pthread_mutex_lock(&c->mu);
    any = c->counted_new;
    c->counted_new = false;
    pthread_mutex_unlock(&c->mu);
    for (uint32_t i = 0; any && i < 2 * c->p.spec->nworkers; i++) {
        struct ctl_counted *k = &c->counted[i];

        pthread_mutex_lock(&c->mu);
        const struct wire_counted m = { .clock = k->clock, .worker = i / 2 };
        const bool tell = k->tell;

        k->tell = false;
        pthread_mutex_unlock(&c->mu);
        if (!tell)
            continue;
        if (c->p.rank != 0)
            peer_send(c, 0, WIRE_COUNTED, &m);
        else if (coord_counted(&c->coord, &m) == VB_OK)
            peer_coord(c);
    }
}

enum vb_st set_on(struct ctl *c, const struct wire_set *m)
{
    enum vb_st st = VB_PROTO;

    pthread_mutex_lock(&c->mu);
    if (!c->is_worker && c->p.set_size > 0 && m->clock == c->nsets) {
        c->set[m->clock % 2] = *m;
        c->nsets++;
        st = VB_OK;
    }
    pthread_mutex_unlock(&c->mu);
    for (unsigned i = 0; st == VB_OK && i < c->p.channels; i++)
        tp_wake(tp_port(c->p.node, i));
    return st;
}
