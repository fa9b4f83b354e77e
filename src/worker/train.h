/*
 * train.h - one worker task: joins the run, trains, and (worker 0, the chief) initialises, evaluates
 * and reports. Blocks until the run has ended. Thread: the caller's, plus the control thread.
 */
#ifndef WORKER_TRAIN_H
#define WORKER_TRAIN_H

#include "cluster/control.h"
#include "ps/class.h"
#include "worker/feed.h"
#include "worker/jitter.h"
#include "worker/model.h"

/* What a worker tells its surroundings; the chief everything, others only losses, links and waits. */
enum wk_event { WK_START, WK_PROGRESS, WK_EPOCH, WK_LOSS, WK_LINK, WK_WAITS, WK_DONE };

struct wk_report {
    enum wk_event event;
    uint64_t epoch, epochs, step, steps; /* data epochs from 1; steps done and in all */
    uint64_t samples;                    /* done so far, over all workers */
    double
        loss; /* mean per sample: of the data epoch; progress: of recent steps; loss: of this worker, `samples` */
    double test_accuracy, best_test_accuracy; /* below 0: no test set */
    double seconds;                           /* since training began, evaluation included */
    double samples_per_s;                     /* without evaluation */
    double eta_s;
    uint64_t params, train_samples, test_samples;
    double push_ratio, pull_ratio;       /* bytes of gradients to bytes pushed; the same of pulls */
    uint64_t pushed_bytes, pulled_bytes; /* over all workers */
    uint32_t params_crc32c;
    /* waits: of each class the chunks read by how many steps they were behind, and how long it waited for
     * each worker */
    const struct ps_class *cls;
    const uint64_t *staleness[PS_CLASSES_MAX], *waited_ns;
    uint32_t nclasses, nworkers;
    const char *peer; /* link, and the next two */
    const struct tp_link_info *link;
    uint64_t sent_bytes, received_bytes;
};

struct wk_params {
    struct ctl_params ctl; /* spec, rank, secret, config, listen_fd, transport, timeouts */
    const struct model *model;
    const struct ps_table *table;
    const struct ps_class *cls; /* table->nclasses of them */
    struct feed_params train,
        test; /* test.images NULL: no evaluation; classes and rows are filled in */
    uint64_t batch, epochs, seed, virtual_workers;
    uint32_t threads;
    double compute_ns; /* slept in each step, in the mean; 0: nothing */
    enum jitter jitter;
    uint64_t credit_bytes; /* of a link to another host (tp_node_params); 0: the usual */
    uint64_t step_ns;      /* how long one wait for the other tasks' part of a step may take */
    bool progress;         /* WK_PROGRESS a few times a second */
    uint64_t loss_every;   /* WK_LOSS after so many steps of a worker; 0: none */
    bool links_only;       /* the links come up and are reported, nothing is trained */
    void (*report)(void *arg, const struct wk_report *r);
    /* The control thread exists from now on (NULL: until now); for signals. Optional. */
    void (*control)(void *arg, struct ctl *c);
    void *arg;
};

/* The exit code; its cause has been logged. */
enum vb_exit wk_run(const struct wk_params *p);

#endif
