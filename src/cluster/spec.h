/*
 * spec.h - who is in the run: the ClusterSpec (TensorFlow's TF_CONFIG layout, JSON) and rank order.
 *
 * {"cluster": {"ps": ["host:port", ...], "worker": [...]}, "task": {"type": "ps", "index": 0}}
 * or only the inner {"ps": ..., "worker": ...}. IPv6 in brackets: "[fd00::1]:5000". Ranks are ordered
 * (job, index): ps 0..K-1, then workers. Text is hostile until parsed; nothing here does I/O.
 */
#ifndef CLUSTER_SPEC_H
#define CLUSTER_SPEC_H

#include "base/util.h"
#include "verbena/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { CL_TASKS_MAX = 1024, CL_HOST_MAX = 254, CL_NAME_MAX = 40 };
enum cl_job { CL_PS, CL_WORKER };

struct cl_addr {
    char host[CL_HOST_MAX + 1];
    uint16_t port;
};

struct cl_spec {
    uint32_t nps, nworkers;
    struct cl_addr *addr; /* by rank: nps + nworkers of them */
    bool has_task;        /* a "task" entry named this process */
    enum cl_job task_job;
    uint32_t task_index;
};

/* Parses text of `bytes` (no need for a final zero). gives: cl_spec_fini. VB_INVAL: err is one line
 * that says what and where (byte or key) and what to do. Refused: no ps or no worker, duplicate
 * addresses (names both tasks), port 0 or > 65535, unknown job (suggests ps/worker), bad index. */
VB_MUST_CHECK enum vb_st cl_spec_parse(const char *text, size_t bytes, struct cl_spec *out,
                                       struct vb_err *err);
/* As above from a file; errors start with the path. */
VB_MUST_CHECK enum vb_st cl_spec_load(const char *path, struct cl_spec *out, struct vb_err *err);
void cl_spec_fini(struct cl_spec *s); /* takes zeroed */

/* The JSON text of the spec (inner "cluster" object with its wrapper). gives: free. */
char *cl_spec_json(const struct cl_spec *s);

static inline uint32_t cl_ntasks(const struct cl_spec *s)
{
    return s->nps + s->nworkers;
}
static inline uint32_t cl_rank(const struct cl_spec *s, enum cl_job job, uint32_t index)
{
    return job == CL_PS ? index : s->nps + index;
}
static inline enum cl_job cl_rank_job(const struct cl_spec *s, uint32_t rank)
{
    return rank < s->nps ? CL_PS : CL_WORKER;
}
static inline uint32_t cl_rank_index(const struct cl_spec *s, uint32_t rank)
{
    return rank < s->nps ? rank : rank - s->nps;
}
/* "/job:worker/task:1" into buf[CL_NAME_MAX]; returns buf. */
char *cl_name(const struct cl_spec *s, uint32_t rank, char *buf);

/* How many tasks of that job are on this rank's host (text of the address), itself included. */
uint32_t cl_on_host(const struct cl_spec *s, uint32_t rank, enum cl_job job);

#endif
