#include "cluster/spec_read.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cluster/addr.h"

static const char *const job_names[] = { [CL_PS] = "ps", [CL_WORKER] = "worker" };
static const char *const later_names[] = { "chief", "master", "evaluator" };

/* The tasks of one job while it is read; a task without an address has port 0. */
struct job_addrs {
    struct cl_addr *a;
    uint32_t n;
};

static int find_name(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return (int)i;
    return -1;
}

static int find_job(const char *name)
{
    return find_name(name, job_names, VB_ARRAY_LEN(job_names));
}

static bool is_later(const char *name)
{
    return find_name(name, later_names, VB_ARRAY_LEN(later_names)) >= 0;
}

static enum vb_st read_task_addr(const json_t *value, int job, uint32_t index, struct job_addrs *to,
                                 struct vb_err *err)
{
    const char *text = json_string_value(value);
    const char *why =
        text != NULL ? addr_read(text, &to->a[index]) : "an address is text: \"host:port\"";

    if (why == NULL)
        return VB_OK;
    vb_err_set(err, "address \"%.100s\" of /job:%s/task:%u: %s", text != NULL ? text : "",
               job_names[job], index, why);
    return VB_INVAL;
}

static enum vb_st read_list(json_t *list, int job, struct job_addrs *to, struct vb_err *err)
{
    enum vb_st st = VB_OK;

    to->n = (uint32_t)VB_MIN(json_array_size(list), (size_t)CL_TASKS_MAX + 1);
    for (uint32_t i = 0; i < to->n && i < CL_TASKS_MAX && st == VB_OK; i++)
        st = read_task_addr(json_array_get(list, i), job, i, to, err);
    return st;
}

static enum vb_st read_map(json_t *map, int job, struct job_addrs *to, struct vb_err *err)
{
    enum vb_st st = VB_OK;
    const char *key;
    json_t *value;

    json_object_foreach(map, key, value)
    {
        uint32_t index;

        if (!addr_number(key, CL_TASKS_MAX - 1, &index)) {
            vb_err_set(err, "key \"%.40s\" of job %s is no task index (0 to %d)", key,
                       job_names[job], CL_TASKS_MAX - 1);
            return VB_INVAL;
        }
        st = read_task_addr(value, job, index, to, err);
        if (st != VB_OK)
            return st;
        to->n = VB_MAX(to->n, index + 1);
    }
    return st;
}

static enum vb_st read_job(json_t *value, int job, struct job_addrs *to, struct vb_err *err)
{
    to->a = calloc(CL_TASKS_MAX, sizeof(*to->a));
    if (to->a == NULL)
        return VB_NOMEM;
    if (json_is_array(value))
        return read_list(value, job, to, err);
    if (json_is_object(value))
        return read_map(value, job, to, err);
    vb_err_set(err, "job %s must be a list of addresses: [\"host:port\", ...]", job_names[job]);
    return VB_INVAL;
}

/* The keys of an object as text, for messages: "a", "b". */
static const char *key_list(json_t *object, char *buf, size_t bytes)
{
    const char *key;
    json_t *value;
    size_t at = 0;

    buf[0] = '\0';
    json_object_foreach(object, key, value)
    {
        const int n = snprintf(buf + at, bytes - at, "%s\"%.30s\"", at != 0 ? ", " : "", key);

        at += (size_t)n;
        if (at >= bytes)
            break;
    }
    return buf;
}

static const char *job_hint(const char *name)
{
    if (strncasecmp(name, "ps", 2) == 0 || strcasestr(name, "server") != NULL ||
        strcasestr(name, "param") != NULL)
        return "did you mean \"ps\"?";
    if (strncasecmp(name, "work", 4) == 0 || strcasestr(name, "train") != NULL)
        return "did you mean \"worker\"?";
    return "jobs are \"ps\" and \"worker\"";
}

/* Unknown names are told before known but unsupported ones: they are what the user must fix. */
static enum vb_st check_jobs(json_t *cluster, bool inner, struct vb_err *err)
{
    const char *key, *later = NULL;
    json_t *value;

    json_object_foreach(cluster, key, value)
    {
        if (find_job(key) >= 0 || (inner && strcmp(key, "task") == 0))
            continue;
        if (!is_later(key)) {
            vb_err_set(err, "job \"%.40s\" is unknown: %s", key, job_hint(key));
            return VB_INVAL;
        }
        later = key;
    }
    if (later == NULL)
        return VB_OK;
    vb_err_set(err,
               "job \"%s\" is not supported: list its task as a worker (worker 0 is the chief) or "
               "leave it out",
               later);
    return VB_INVAL;
}

static enum vb_st read_index(const json_t *value, uint32_t *out, struct vb_err *err)
{
    const char *text = json_string_value(value);
    const json_int_t x = json_integer_value(value);
    const bool good = text != NULL ? addr_number(text, INT32_MAX, out)
                                   : json_is_integer(value) && x >= 0 && x <= INT32_MAX;

    if (!good) {
        vb_err_set(err, value == NULL ? "\"index\" of \"task\" is missing"
                                      : "\"index\" of \"task\" must be a whole number from 0");
        return VB_INVAL;
    }
    if (text == NULL)
        *out = (uint32_t)x;
    return VB_OK;
}

static enum vb_st read_task(json_t *task, json_t *cluster, const struct job_addrs *jobs,
                            struct cl_spec *out, struct vb_err *err)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    const int job = type != NULL ? find_job(type) : -1;
    char keys[200];
    uint32_t index;

    if (type == NULL) {
        vb_err_set(err,
                   "\"task\" must be {\"type\": \"worker\", \"index\": 0}: \"type\" is missing");
        return VB_INVAL;
    }
    if (job < 0 || jobs[job].n == 0) {
        vb_err_set(err, "the type of \"task\" is \"%.40s\", but the cluster has only %s", type,
                   key_list(cluster, keys, sizeof(keys)));
        return VB_INVAL;
    }
    const enum vb_st st = read_index(json_object_get(task, "index"), &index, err);

    if (st != VB_OK)
        return st;
    if (index >= jobs[job].n || jobs[job].a[index].port == 0) {
        vb_err_set(err, "there is no /job:%s/task:%u in the cluster: \"index\" must be 0 to %u",
                   type, index, jobs[job].n - 1);
        return VB_INVAL;
    }
    out->has_task = true;
    out->task_job = (enum cl_job)job;
    out->task_index = index;
    return VB_OK;
}

static enum vb_st check_duplicates(const struct cl_spec *s, struct vb_err *err)
{
    char a[CL_NAME_MAX], b[CL_NAME_MAX];

    for (uint32_t i = 0; i < cl_ntasks(s); i++) {
        for (uint32_t k = 0; s->addr[i].port != 0 && k < i; k++) {
            if (s->addr[i].port != s->addr[k].port ||
                strcasecmp(s->addr[i].host, s->addr[k].host) != 0)
                continue;
            vb_err_set(err, "%s and %s have the same address %.100s:%u: give each its own port",
                       cl_name(s, k, a), cl_name(s, i, b), s->addr[i].host, s->addr[i].port);
            return VB_INVAL;
        }
    }
    return VB_OK;
}

/* Workers may leave each other out (none talks to another), but everybody needs every ps. */
static enum vb_st join_jobs(const struct job_addrs *jobs, struct cl_spec *out, struct vb_err *err)
{
    for (int job = CL_PS; job <= CL_WORKER; job++) {
        if (jobs[job].n > 0)
            continue;
        vb_err_set(err, "there is no %s task in the cluster: add \"%s\": [\"host:port\"]",
                   job_names[job], job_names[job]);
        return VB_INVAL;
    }
    if ((uint64_t)jobs[CL_PS].n + jobs[CL_WORKER].n > CL_TASKS_MAX) {
        vb_err_set(err, "there are more than %d tasks in the cluster", CL_TASKS_MAX);
        return VB_INVAL;
    }
    out->nps = jobs[CL_PS].n;
    out->nworkers = jobs[CL_WORKER].n;
    out->addr = calloc(cl_ntasks(out), sizeof(*out->addr));
    if (out->addr == NULL)
        return VB_NOMEM;
    memcpy(out->addr, jobs[CL_PS].a, out->nps * sizeof(*out->addr));
    memcpy(out->addr + out->nps, jobs[CL_WORKER].a, out->nworkers * sizeof(*out->addr));
    for (uint32_t i = 0; i < out->nps; i++) {
        if (out->addr[i].port != 0)
            continue;
        vb_err_set(err, "the address of /job:ps/task:%u is missing: every task needs every ps", i);
        return VB_INVAL;
    }
    return check_duplicates(out, err);
}

enum vb_st spec_read(json_t *root, struct cl_spec *out, struct vb_err *err)
{
    struct job_addrs jobs[2] = { 0 };
    json_t *cluster = json_object_get(root, "cluster");
    json_t *task = json_object_get(root, "task");
    const bool inner = cluster == NULL && json_object_get(root, "ps") != NULL &&
                       json_object_get(root, "worker") != NULL;
    enum vb_st st = VB_INVAL;
    char keys[200];

    if (inner)
        cluster = root;
    if (cluster == NULL) {
        vb_err_set(err, "\"cluster\" is missing: %s%s",
                   json_object_size(root) > 0 ? "the keys are " : "",
                   json_object_size(root) > 0 ? key_list(root, keys, sizeof(keys))
                                              : "the object is empty");
        return VB_INVAL;
    }
    if (!json_is_object(cluster)) {
        vb_err_set(err, "\"cluster\" must be an object: {\"ps\": [...], \"worker\": [...]}");
        return VB_INVAL;
    }
    st = check_jobs(cluster, inner, err);
    for (int job = CL_PS; job <= CL_WORKER && st == VB_OK; job++)
        if (json_object_get(cluster, job_names[job]) != NULL)
            st = read_job(json_object_get(cluster, job_names[job]), job, &jobs[job], err);
    if (st == VB_OK && task != NULL)
        st = read_task(task, cluster, jobs, out, err);
    if (st == VB_OK)
        st = join_jobs(jobs, out, err);
    free(jobs[CL_PS].a);
    free(jobs[CL_WORKER].a);
    return st;
}
