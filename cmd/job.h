/*
 * job.h - the job file: what is trained, on what, by how many tasks. YAML; every scalar key is also an
 * option of `train` and `server` and an environment variable (one table: base/opt.h, job_opts).
 */
#ifndef CMD_JOB_H
#define CMD_JOB_H

#include "base/opt.h"
#include "base/util.h"
#include "cluster/control.h"
#include "base/yaml.h"
#include "ps/lane.h"
#include "verbena/status.h"
#include "worker/jitter.h"
#include "worker/model.h"

enum { JOB_LAYERS_MAX = 256 };

/* The list of layers. */
struct job_model {
    unsigned nlayers;
    struct model_layer layer[JOB_LAYERS_MAX];
    unsigned line[JOB_LAYERS_MAX]; /* in the file, for messages */
};

/* What may differ from class to class of variables. */
struct job_class {
    char *name, *variables; /* shell patterns with commas; the job's own has neither */
    char *mode;
    struct kn_opt optimizer; /* beta1 is the momentum of `momentum` and `nesterov` */
    float momentum;          /* as written */
    unsigned where;          /* the optimizer runs: 0 at the ps, 1 at the workers */
    struct ps_async async;
    unsigned push, pull; /* how they are encoded: 0 not, else enum kn_codec_kind plus 1 */
    double share;
    struct ps_rule rule;                    /* by job_check, of mode */
    struct kn_codec push_codec, pull_codec; /* by job_check */
    struct opt_set *opts;                   /* where each value came from */
};

struct job {
    char *path; /* the file, for messages */
    struct job_model *model;
    struct {
        unsigned format;                   /* 0: idx */
        char *train_images, *train_labels; /* resolved against the file's folder */
        char *test_images, *test_labels;   /* NULL: no evaluation */
        double divide_by, mean, std;       /* x = (pixel / divide_by - mean) / std */
    } data;
    struct job_class own; /* of all variables that are in none of these */
    unsigned nclasses;
    struct job_class *cls; /* the first one whose patterns match */
    enum ps_nan on_nan;
    uint64_t batch, epochs, seed;
    uint64_t ps, workers, virtual_workers, threads; /* virtual_workers 0: workers */
    uint64_t chunk_kib, credit_kib;                 /* 0: chosen */
    char *tune;                                     /* a file with these two; NULL: none */
    uint64_t start_timeout, step_timeout;           /* seconds */
    enum cl_transport transport;
    bool require_rdma;
    char *net_devices;
    struct net_pick pick; /* by job_check, of net_devices */
    double compute;       /* ms that a worker sleeps in each step, in the mean */
    unsigned jitter;      /* enum jitter */
    bool json;
    struct { /* by job_check, from the data files */
        struct model_input input;
        uint64_t train_samples, test_samples;
    } found;
    struct opt_set opts; /* where each value came from */
};

/* Defaults, so that opts may take a command line (opt_args). VB_NOMEM. The struct must not move. */
VB_MUST_CHECK enum vb_st job_init(struct job *j);
/* Reads the file, then environment and command line over it. VB_INVAL/VB_IO: err is one line. */
VB_MUST_CHECK enum vb_st job_load(struct job *j, const char *path, struct vb_err *err);
/* As above from memory; path is for messages and for relative paths. */
VB_MUST_CHECK enum vb_st job_parse(struct job *j, const char *path, const char *text, size_t bytes,
                                   struct vb_err *err);
/* All that can be known before a task starts: numbers that go together, files that exist, headers and
 * shapes that fit. ps and workers are those of the run. Fills `found`. VB_INVAL: err is one line with
 * the place. */
VB_MUST_CHECK enum vb_st job_check(struct job *j, struct vb_err *err);
void job_fini(struct job *j); /* takes zeroed and half-loaded */

static inline uint64_t job_virtual_workers(const struct job *j)
{
    return j->virtual_workers != 0 ? j->virtual_workers : j->workers;
}

/* Text of everything that must be equal in all tasks, without ways of showing and paths. (threads is in
 * the chunk table, as lanes.) gives: free. NULL: no memory. */
char *job_canonical(const struct job *j);

/* job_model.c */
/* One item of the list `model`; arg: a struct job_model. */
VB_MUST_CHECK enum vb_st job_read_layer(struct yaml_file *f, const yaml_node_t *item, void *arg,
                                        struct vb_err *err);
void job_print_model(FILE *out, const struct job_model *m);
/* What job_print_model has written, or what is in its place: hostile. m is zeroed before. */
VB_MUST_CHECK enum vb_st job_parse_model(struct job_model *m, const char *name, const char *text,
                                         size_t bytes, struct vb_err *err);

/* job_class.c */
/* One item of the list `classes`; arg: the job. */
VB_MUST_CHECK enum vb_st job_read_class(struct yaml_file *f, const yaml_node_t *item, void *arg,
                                        struct vb_err *err);
/* The whole file has been read: what a class does not say is as in the job's own. */
VB_MUST_CHECK enum vb_st job_inherit(struct job *j);
void job_free_classes(struct job *j);
/* Which class has a variable of this name: 0 the job's own, k: cls[k - 1]. */
unsigned job_class_of(const struct job *j, const char *variable);
static inline const struct job_class *job_class(const struct job *j, unsigned k)
{
    return k == 0 ? &j->own : &j->cls[k - 1];
}
void job_print_class(FILE *out, const struct job_class *c); /* for job_canonical */
/* A class as ps and workers take it; borrows. After job_check. */
struct ps_class job_ps_class(const struct job_class *c);
/* Starts a message with the place of one key, and the class; always VB_INVAL. */
__attribute__((format(printf, 4, 5))) enum vb_st job_class_fail(const struct job_class *c,
                                                                const char *key, struct vb_err *err,
                                                                const char *fmt, ...);

/* The same for a key of the job itself. */
__attribute__((format(printf, 4, 5))) enum vb_st job_fail(const struct job *j, const char *key,
                                                          struct vb_err *err, const char *fmt, ...);

#endif
