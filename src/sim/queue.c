/* A binary heap. */
#include "sim/queue.h"

#include <stdlib.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at < b->at || (a->at <= b->at && a->seq < b->seq);
}

enum vb_st queue_put(struct sim_queue *q, struct sim_event ev)
{
    size_t i = q->n;

    if (q->n == q->room) {
        const size_t room = q->room > 0 ? 2 * q->room : 256;
        struct sim_event *more = reallocarray(q->ev, room, sizeof(*more));

        if (more == NULL)
            return VB_NOMEM;
        q->ev = more;
        q->room = room;
    }
    ev.seq = q->seq++;
    for (q->n++; i > 0 && before(&ev, &q->ev[(i - 1) / 2]); i = (i - 1) / 2)
        q->ev[i] = q->ev[(i - 1) / 2];
    q->ev[i] = ev;
    return VB_OK;
}

bool queue_get(struct sim_queue *q, struct sim_event *out)
{
    size_t i = 0;

    if (q->n == 0)
        return false;
    *out = q->ev[0];
    const struct sim_event last = q->ev[--q->n];

    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && before(&q->ev[child + 1], &q->ev[child]))
            child++;
        if (!before(&q->ev[child], &last))
            break;
        q->ev[i] = q->ev[child];
    }
    q->ev[i] = last;
    return true;
}

void queue_fini(struct sim_queue *q)
{
    free(q->ev);
}
