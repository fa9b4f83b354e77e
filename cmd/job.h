/*
 * job.h - the job file: what is trained, on what, by how many tasks. YAML; every scalar key at the top
 * level is also an option of `train` and `server` (one table, cmd/job.c: job_opts).
 */
#ifndef CMD_JOB_H
#define CMD_JOB_H

#include "base/util.h"
#include "cluster/control.h"
#include "kernels/kn.h"
#include "verbena/status.h"

enum { JOB_LAYERS_MAX = 256 };
enum job_mode { JOB_SYNC };

struct job_layer {
    char type[32]; /* "dense" */
    uint64_t units; /* dense */
    unsigned line;  /* in the file, for messages */
};

struct job {
    char *path; /* the file, for messages */
    unsigned nlayers;
    struct job_layer *layer;
    struct {
        char *format;                                   /* "idx" */
        char *train_images, *train_labels;              /* resolved against the file's folder */
        char *test_images, *test_labels;                /* NULL: no evaluation */
        double divide_by, mean, std;                    /* x = (pixel / divide_by - mean) / std */
        unsigned train_line, test_line;                 /* lines of the two keys */
    } data;
    struct kn_opt optimizer;
    uint64_t batch, epochs, seed;
    uint64_t ps, workers, virtual_workers, threads; /* virtual_workers 0: workers */
    uint64_t chunk_kib;                             /* 0: chosen */
    uint64_t start_timeout;                         /* seconds */
    enum cl_transport transport;
    enum job_mode mode;
    bool json;
};

#endif
