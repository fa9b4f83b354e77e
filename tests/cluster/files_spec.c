/* Real ClusterSpec texts, good and bad, from the folder in VB_TF_CONFIG_DIR. */
#include "cluster/spec.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct file_case {
    const char *name;
    uint32_t nps, nworkers; /* 0: refused */
    const char *says[2];    /* both stand in the error; good: task name */
};

static const struct file_case cases[] = {
    { "01-ok-worker-ps.json", 2, 3, { "/job:worker/task:1" } },
    { "02-ok-kubeflow-chief.json", 0, 0, { "\"chief\"", "not supported" } },
    { "03-ok-evaluator-not-in-cluster.json", 0, 0, { "\"chief\"", "not supported" } },
    { "04-ok-evaluator-in-cluster-tony.json", 0, 0, { "not supported" } },
    { "05-ok-sparse-worker-map.json", 2, 2, { "/job:worker/task:1" } },
    { "06-warn-sparseCluster-key.json", 0, 0, { "\"cluster\" is missing", "\"sparseCluster\"" } },
    { "07-bad-job-not-in-cluster.json", 0, 0, { "\"chief\"", "only \"worker\"" } },
    { "08-bad-job-names-ps_hosts.json", 0, 0, { "\"ps_hosts\"", "did you mean \"ps\"" } },
    { "09-bad-index-out-of-range.json", 0, 0, { "/job:worker/task:2", "0 to 1" } },
    { "10-bad-placeholder-port.json", 0, 0, { "host1:port", "not a number" } },
    { "11-bad-single-quotes-python-dict.txt", 0, 0, { "at byte", "use double quotes" } },
    { "12-bad-unquoted-hostlist-batchai.txt", 0, 0, { "not JSON", "use double quotes" } },
    { "13-bad-not-json.txt", 0, 0, { "not JSON at byte" } },
    { "14-bad-cluster-at-top-level-tony.json", 0, 0, { "\"cluster\" is missing", "\"worker\"" } },
    { "15-ok-index-as-string.json", 1, 2, { "/job:worker/task:1" } },
    { "16-ok-master-legacy.json", 0, 0, { "\"master\"", "not supported" } },
    { "17-ok-cluster-only-no-task.json", 0, 0, { "\"master\"" } },
    { "18-ok-empty-object.json", 0, 0, { "\"cluster\" is missing" } },
    { "19-bad-duplicate-address.json", 0, 0, { "/job:ps/task:0", "/job:worker/task:0" } },
    { "20-ok-ipv6-and-extra-fields.json", 1, 2, { "/job:ps/task:0" } },
};

static bool agrees(const char *path, const struct file_case *want)
{
    struct vb_err err = { .text = "" };
    struct cl_spec s;
    const enum vb_st st = cl_spec_load(path, &s, &err);
    bool good =
        (st == VB_OK) == (want->nps > 0) && s.nps == want->nps && s.nworkers == want->nworkers;

    if (st == VB_OK && s.has_task)
        cl_name(&s, cl_rank(&s, s.task_job, s.task_index), err.text);
    for (int i = 0; i < 2 && want->says[i] != NULL; i++)
        good = good && strstr(err.text, want->says[i]) != NULL;
    printf("%s %s: %s\n", good ? "ok" : "NOT", want->name, err.text);
    cl_spec_fini(&s);
    return good;
}

int main(void)
{
    const char *dir = getenv("VB_TF_CONFIG_DIR");
    int bad = 0;

    if (dir == NULL || access(dir, R_OK) != 0) {
        printf("skipped: VB_TF_CONFIG_DIR names no folder of ClusterSpec texts\n");
        return 77;
    }
    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", dir, cases[i].name);
        bad += !agrees(path, &cases[i]);
    }
    return bad == 0 ? 0 : 1;
}
