#include "cmd/job.h"

#include "cmd/task.h"
#include "worker/idx.h"

#include <inttypes.h>
#include <string.h>

static bool given(const struct job_class *c, const char *key)
{
    return c->opts->src[opt_find(c->opts, key)].from != OPT_DEFAULT;
}

static enum vb_st check_workers(const struct job *j, struct vb_err *err)
{
    const uint64_t v = job_virtual_workers(j), each = v / j->workers;

    if (j->ps + j->workers > CL_TASKS_MAX)
        return job_fail(j, "workers", err, "more than %d tasks", CL_TASKS_MAX);
    if (j->workers > KN_SUM_MAX)
        return job_fail(j, "workers", err, "must be at most %d", KN_SUM_MAX);
    if (v % j->workers != 0)
        return job_fail(j, "virtual_workers", err,
                        "%" PRIu64 " cannot be divided by %" PRIu64
                        " workers, else the sum would depend on the number of workers",
                        v, j->workers);
    if (j->workers > 1 && (each & (each - 1)) != 0)
        return job_fail(j, "virtual_workers", err,
                        "%" PRIu64 " over %" PRIu64 " workers must be a power of two for each, "
                        "else the sum would depend on the number of workers",
                        v, j->workers);
    if (j->batch < v)
        return job_fail(j, "batch", err,
                        "%" PRIu64 " is too small: each of %" PRIu64
                        " (virtual) workers needs a sample",
                        j->batch, v);
    return VB_OK;
}

static enum vb_st check_mode(const struct job *j, struct job_class *c, struct vb_err *err)
{
    static const char *const own[] = { "async.rate_over_staleness", "async.compensation" };
    struct vb_err why = { "" };

    if (ps_rule_parse(c->mode, j->workers, &c->rule, &why) != VB_OK)
        return job_class_fail(c, "mode", err, "%s", why.text);
    for (size_t i = 0; i < VB_ARRAY_LEN(own); i++)
        if (c->rule.mode != PS_SSP && given(c, own[i]))
            return job_class_fail(c, own[i], err, "is only for the modes ssp and async");
    return VB_OK;
}

#define OF(kind) (1u << (kind))

static enum vb_st check_schedule(const struct job_class *c, struct vb_err *err)
{
    static const struct {
        const char *key;
        unsigned kinds;
        const char *names;
    } own[] = {
        { "optimizer.every", OF(KN_RATE_STEP) | OF(KN_RATE_COSINE), "step and cosine" },
        { "optimizer.gamma", OF(KN_RATE_STEP), "step" },
        { "optimizer.floor", OF(KN_RATE_COSINE), "cosine" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(own); i++)
        if ((own[i].kinds & OF(c->optimizer.schedule.kind)) == 0 && given(c, own[i].key))
            return job_class_fail(c, own[i].key, err, "is only for the schedules %s", own[i].names);
    return VB_OK;
}

/* All workers take one step with one gradient. */
static enum vb_st check_where(const struct job_class *c, struct vb_err *err)
{
    if (c->where == 0)
        return VB_OK;
    if (c->rule.mode != PS_SYNC)
        return job_class_fail(
            c, "optimizer.where", err,
            "worker is for mode sync, in mode %s the workers' steps are not the same", c->mode);
    if (c->optimizer.kind == KN_LAMB)
        return job_class_fail(
            c, "optimizer.where", err,
            "lamb needs norms of whole variables, which the ps have; use ps, or adamw");
    return VB_OK;
}

/* A norm is one of all gradients of a step, which only some modes have. */
static enum vb_st check_norms(const struct job_class *c, struct vb_err *err)
{
    const bool lamb = c->optimizer.kind == KN_LAMB, clips = c->optimizer.clip_norm > 0;

    if (lamb && clips)
        return job_class_fail(
            c, "optimizer.clip_norm", err,
            "not with lamb, whose steps are as large as their variables whatever the "
            "gradient; leave it out, or use optimizer.clip_value");
    if (lamb && c->rule.mode == PS_SSP)
        return job_class_fail(
            c, "optimizer.name", err,
            "lamb needs all gradients of a step at once, which mode %s does not have; "
            "use mode sync or sync+B, or adamw",
            c->mode);
    if (clips && c->rule.mode == PS_SSP)
        return job_class_fail(
            c, "optimizer.clip_norm", err,
            "needs all gradients of a step at once, which mode %s does not have; use "
            "mode sync or sync+B, or optimizer.clip_value (or 0, in a class)",
            c->mode);
    return check_schedule(c, err);
}

static enum vb_st check_optimizer(const struct job_class *c, struct vb_err *err)
{
    static const unsigned adams = OF(KN_ADAM) | OF(KN_ADAMW) | OF(KN_LAMB);
    static const struct {
        const char *key;
        unsigned kinds;
        const char *names;
    } own[] = {
        { "optimizer.momentum", OF(KN_MOMENTUM) | OF(KN_NESTEROV), "momentum and nesterov" },
        { "optimizer.beta1", adams, "adam, adamw and lamb" },
        { "optimizer.beta2", adams | OF(KN_RMSPROP), "adam, adamw, lamb and rmsprop" },
        { "optimizer.eps", adams | OF(KN_RMSPROP) | OF(KN_ADAGRAD),
          "adam, adamw, lamb, adagrad and rmsprop" },
        { "optimizer.beta", OF(KN_FTRL), "ftrl" },
        { "optimizer.l1", OF(KN_FTRL), "ftrl" },
        { "optimizer.l2", OF(KN_FTRL), "ftrl" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(own); i++)
        if ((own[i].kinds & OF(c->optimizer.kind)) == 0 && given(c, own[i].key))
            return job_class_fail(c, own[i].key, err, "is only for %s", own[i].names);
    return check_norms(c, err);
}

/* A class that no variable is in is a mistake in its patterns. */
static enum vb_st check_matches(const struct job *j, const struct task_shape *s, struct vb_err *err)
{
    char names[300] = "";

    for (uint32_t v = 0; v < s->model.nvars; v++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", v > 0 ? ", " : "",
                 s->model.var[v]->name);
    for (unsigned k = 0; k < j->nclasses; k++) {
        uint32_t v = 0;

        while (v < s->model.nvars && job_class_of(j, s->model.var[v]->name) != k + 1)
            v++;
        if (v == s->model.nvars)
            return job_class_fail(&j->cls[k], "variables", err,
                                  "no variable is left that is called so; there are %.250s", names);
    }
    return VB_OK;
}

/* Builds model and chunk table as the tasks will: shapes fit, and everything can be counted. */
static enum vb_st check_model(const struct job *j, uint64_t *outputs_out, struct vb_err *err)
{
    struct task_shape s;
    struct vb_err why = { "out of memory" };
    enum vb_st st = task_shape_make(j, &s, &why);

    if (st != VB_OK)
        vb_err_set(err, "%.200s:%u: model: %.250s", j->path,
                   j->model->line[VB_MIN(s.bad_layer, j->model->nlayers - 1)], why.text);
    else if (lane_norms(s.cls, &s.table) > CTL_NORM_MAX)
        st = job_fail(j, "optimizer.name", err, "lamb takes at most %d variables, here are %u",
                      CTL_NORM_MAX / 2, s.table.nvars);
    else
        st = check_matches(j, &s, err);
    *outputs_out = s.model.classes;
    task_shape_fini(&s);
    return st;
}

/* Images and labels of one half of the data; keys are those in the job file. */
struct half {
    const char *images_key, *labels_key, *images, *labels;
};

static enum vb_st check_label_values(const struct job *j, const struct half *h,
                                     const struct idx *labels, uint64_t samples, uint64_t outputs,
                                     struct vb_err *err)
{
    unsigned most = 0;

    for (uint64_t i = 0; i < labels->bytes; i++)
        most = VB_MAX(most, labels->data[i]);
    if (labels->ndims != 1)
        return job_fail(j, h->labels_key, err, "%.200s: labels have one dimension, not %u",
                        h->labels, labels->ndims);
    if (labels->dim[0] != samples)
        return job_fail(j, h->labels_key, err,
                        "%" PRIu64 " labels do not fit the %" PRIu64 " images of %s",
                        labels->dim[0], samples, h->images_key);
    if (most >= outputs)
        return job_fail(j, h->labels_key, err,
                        "label %u needs a model with %u outputs or more, it has %" PRIu64, most,
                        most + 1, outputs);
    return VB_OK;
}

static enum vb_st check_labels(const struct job *j, const struct half *h, uint64_t samples,
                               uint64_t outputs, struct vb_err *err)
{
    struct idx labels = { 0 };
    struct vb_err why = { "" };

    if (idx_load(h->labels, &labels, &why) != VB_OK)
        return job_fail(j, h->labels_key, err, "%s", why.text);
    const enum vb_st st = check_label_values(j, h, &labels, samples, outputs, err);
    idx_fini(&labels);
    return st;
}

static enum vb_st probe_images(const struct job *j, const struct half *h, struct idx *images,
                               struct vb_err *err)
{
    struct vb_err why = { "" };

    if (idx_probe(h->images, images, &why) != VB_OK)
        return job_fail(j, h->images_key, err, "%s", why.text);
    if (images->ndims < 2)
        return job_fail(j, h->images_key, err, "%.200s: holds numbers, not images", h->images);
    return VB_OK;
}

static enum vb_st check_train(struct job *j, struct idx *images, uint64_t *outputs_out,
                              struct vb_err *err)
{
    const struct half h = { "data.train.images", "data.train.labels", j->data.train_images,
                            j->data.train_labels };
    enum vb_st st = probe_images(j, &h, images, err);

    if (st != VB_OK)
        return st;
    j->found.train_samples = images->dim[0];
    j->found.input = (struct model_input){ .dtype = GR_F32, .rank = images->ndims - 1 };
    memcpy(j->found.input.dim, images->dim + 1, (images->ndims - 1) * sizeof(images->dim[0]));
    if (j->batch > images->dim[0])
        return job_fail(j, "batch", err,
                        "%" PRIu64 " is more than the %" PRIu64 " training samples", j->batch,
                        images->dim[0]);
    st = check_model(j, outputs_out, err);
    return st == VB_OK ? check_labels(j, &h, images->dim[0], *outputs_out, err) : st;
}

static enum vb_st check_test(struct job *j, const struct idx *train, uint64_t outputs,
                             struct vb_err *err)
{
    const struct half h = { "data.test.images", "data.test.labels", j->data.test_images,
                            j->data.test_labels };
    struct idx images = { 0 };
    const enum vb_st st = probe_images(j, &h, &images, err);

    if (st != VB_OK)
        return st;
    if (images.ndims != train->ndims ||
        memcmp(images.dim + 1, train->dim + 1, (images.ndims - 1) * sizeof(images.dim[0])) != 0)
        return job_fail(j, h.images_key, err,
                        "images of %" PRIu64 " values, in training they have %" PRIu64
                        " or another shape",
                        images.bytes / images.dim[0], train->bytes / train->dim[0]);
    j->found.test_samples = images.dim[0];
    return check_labels(j, &h, images.dim[0], outputs, err);
}

static enum vb_st check_devices(struct job *j, struct vb_err *err)
{
    struct net_devs devs = { 0 };
    struct rdma_ports ports = { 0 };
    struct vb_err why = { "out of memory" };
    enum vb_st st = net_pick_parse(j->net_devices, &j->pick, &why);

    if (st == VB_OK && j->pick.n > 0) {
        st = net_devs_host(&devs);
        if (st == VB_OK)
            st = rdma_ports_host(&ports);
        if (st == VB_OK)
            st = net_pick_check(&j->pick, &devs, &ports, &why);
    }
    net_devs_free(&devs);
    rdma_ports_free(&ports);
    return st == VB_OK ? VB_OK : job_fail(j, "net_devices", err, "%s", why.text);
}

static enum vb_st check_ways(struct job *j, struct vb_err *err)
{
    if (j->require_rdma && (j->transport == CL_MAP || j->transport == CL_TCP))
        return job_fail(j, "require_rdma", err, "is not possible with transport %s",
                        j->transport == CL_MAP ? "map" : "tcp");
    return check_devices(j, err);
}

/* Who encodes a NaN spreads it over what is sent next, so the worker cannot leave the choice to the ps. */
static enum vb_st check_compression(const struct job *j, struct job_class *c, struct vb_err *err)
{
    /* what one direction leaves out by chance the other does not */
    if (c->push != 0)
        c->push_codec = (struct kn_codec){ (enum kn_codec_kind)(c->push - 1), c->share, j->seed };
    if (c->pull != 0)
        c->pull_codec = (struct kn_codec){ (enum kn_codec_kind)(c->pull - 1), c->share, ~j->seed };
    if (c->push != 0 && j->on_nan == PS_NAN_SKIP)
        return job_fail(j, "on_nan", err, "skip is not possible with compression.push");
    if (c->pull != 0 && c->where == 1)
        return job_class_fail(c, "compression.pull", err,
                              "is of parameters; with optimizer.where worker gradients come back");
    if (c->pull != 0 && c->rule.mode == PS_BACKUP)
        return job_class_fail(
            c, "compression.pull", err,
            "is not possible with mode %s: who was left behind would miss a change", c->mode);
    return VB_OK;
}

static enum vb_st check_class(const struct job *j, struct job_class *c, struct vb_err *err)
{
    enum vb_st st = check_mode(j, c, err);

    if (st == VB_OK)
        st = check_optimizer(c, err);
    if (st == VB_OK)
        st = check_where(c, err);
    return st == VB_OK ? check_compression(j, c, err) : st;
}

/* What the classes of a job must have in common. */
static enum vb_st check_together(const struct job *j, struct vb_err *err)
{
    for (unsigned k = 0; k < j->nclasses; k++) {
        const struct job_class *c = &j->cls[k];
        const float clip = c->optimizer.clip_norm, all = j->own.optimizer.clip_norm;

        if ((c->rule.mode == PS_BACKUP || j->own.rule.mode == PS_BACKUP) &&
            (c->rule.mode != j->own.rule.mode || c->rule.backups != j->own.rule.backups))
            return job_class_fail(c, "mode", err,
                                  "backup workers leave a step as a whole: all variables have mode "
                                  "sync+B, or none");
        if (clip > 0 && clip != all)
            return job_class_fail(c, "optimizer.clip_norm", err,
                                  "the norm is one of all gradients that are clipped: %g as in the "
                                  "job, or 0",
                                  (double)all);
    }
    return VB_OK;
}

enum vb_st job_check(struct job *j, struct vb_err *err)
{
    struct idx train = { 0 };
    uint64_t outputs = 0;
    enum vb_st st = check_workers(j, err);

    for (unsigned k = 0; st == VB_OK && k <= j->nclasses; k++)
        st = check_class(j, k == 0 ? &j->own : &j->cls[k - 1], err);
    if (st == VB_OK)
        st = check_together(j, err);
    if (st == VB_OK)
        st = check_ways(j, err);
    if (st == VB_OK && (j->data.test_images == NULL) != (j->data.test_labels == NULL))
        st = job_fail(j, j->data.test_images == NULL ? "data.test.labels" : "data.test.images", err,
                      "images and labels go together; the other is missing");
    if (st == VB_OK)
        st = check_train(j, &train, &outputs, err);
    if (st == VB_OK && j->data.test_images != NULL)
        st = check_test(j, &train, outputs, err);
    return st;
}
