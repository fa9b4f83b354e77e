#include "cmd/job.h"
#include "worker/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static const char *const formats[] = { "idx", NULL };
/* in the order of enum kn_opt_kind, and the next of enum kn_rate_kind */
static const char *const optimizers[] = { "sgd",     "momentum", "adam", "nesterov", "adagrad",
                                          "rmsprop", "adamw",    "ftrl", "lamb",     NULL };
static const char *const schedules[] = { "constant", "step", "cosine", "inverse_sqrt", NULL };
/* none, then in the order of enum kn_codec_kind */
static const char *const codecs[] = { "none",   "fp16", "bf16",    "int8",
                                      "onebit", "topk", "randomk", NULL };
static const char *const wheres[] = { "ps", "worker", NULL };
static const char *const nans[] = { "stop", "skip", NULL };
static const char *const transports[] = { "auto", "map", "tcp", "rdma", NULL };

#define AT(member) .offset = offsetof(struct job, member)

/* clang-format off */
static const struct opt job_opts[] = {
    { "batch", OPT_U64, "100", "N", "samples in one step, over all workers", 1, 1 << 24, AT(batch) },
    { "epochs", OPT_U64, "1", "N", "passes over the training data", 1, 1000000, AT(epochs) },
    { "seed", OPT_U64, "1", "N", "seed of the initial values and of the order of samples", AT(seed) },
    { "ps", OPT_U64, "1", "N", "parameter servers", 1, CL_TASKS_MAX, AT(ps) },
    { "workers", OPT_U64, "1", "N", "workers", 1, CL_TASKS_MAX, AT(workers) },
    { "virtual_workers", OPT_U64, "0", "N",
      "parts of a step that are computed and summed apart, so that the result is the same for any "
      "number of workers that divides it; 0: as many as workers", 0, KN_SUM_MAX, AT(virtual_workers) },
    { "threads", OPT_U64, "1", "N", "threads of one task: a worker's matrix products, a ps's lanes", 1, 1024, AT(threads) },
    { "chunk_kib", OPT_U64, "0", "KIB", "size in KiB of the pieces in which parameters travel; 0: chosen",
      0, 1024, AT(chunk_kib) },
    { "credit_kib", OPT_U64, "0", "KIB",
      "between hosts: KiB on their way on a link while what is needed later waits; 0: 4096", 0, 16384,
      AT(credit_kib) },
    { "tune", OPT_TEXT, NULL, "FILE", "chunk_kib and credit_kib as perf tune has found them, where they are not given",
      AT(tune) },
    { "start_timeout", OPT_U64, "60", "S", "seconds until every task must have come", 1, 86400,
      AT(start_timeout) },
    { "step_timeout", OPT_U64, "600", "S", "seconds that a step may wait for a task that is alive", 1,
      86400, AT(step_timeout) },
    { "transport", OPT_ENUM, "auto", "WAY", "how tasks talk; auto: over mapped memory on one host, else RDMA, else TCP",
      AT(transport), .names = transports },
    { "require_rdma", OPT_FLAG, "false", NULL,
      "ends with code 6 where a link between hosts would not be RDMA", AT(require_rdma) },
    { "net_devices", OPT_TEXT, NULL, "LIST",
      "what data between hosts may use: names (eth0, mlx5_0, mlx5_0:1) and networks (10.1.0.0/16) with "
      "commas; ^ before one: not this", AT(net_devices) },
    { "mode", OPT_TEXT, "sync", "MODE",
      "how the workers' steps are kept together: sync, sync+B (B backup workers), ssp:S (nobody more than S steps ahead), ssp:L-H, async", AT(own.mode) },
    { "compute", OPT_F64, "0", "MS",
      "for measurements: a step's computing takes this long in the mean, the rest of it slept once its parameters are "
      "there; in ms", 0, 60000, AT(compute) },
    { "jitter", OPT_ENUM, "none", "MODEL",
      "how --compute changes from worker to worker and step to step", AT(jitter),
      .names = jitter_names },
    { "json", OPT_FLAG, "false", NULL, "results as JSON, a line each", AT(json) },
    { "data.format", OPT_ENUM, "idx", "FORMAT", "format of the data files", AT(data.format), .names = formats },
    { "data.train.images", OPT_TEXT, NULL, "FILE", "training images", AT(data.train_images),
      .required = true },
    { "data.train.labels", OPT_TEXT, NULL, "FILE", "training labels", AT(data.train_labels),
      .required = true },
    { "data.test.images", OPT_TEXT, NULL, "FILE", "test images", AT(data.test_images) },
    { "data.test.labels", OPT_TEXT, NULL, "FILE", "test labels", AT(data.test_labels) },
    { "data.divide_by", OPT_F64, "1", "X", "an input is (pixel / divide_by - mean) / std", 1e-30, 1e30,
      AT(data.divide_by) },
    { "data.mean", OPT_F64, "0", "X", "see data.divide_by", -1e30, 1e30, AT(data.mean) },
    { "data.std", OPT_F64, "1", "X", "see data.divide_by", 1e-30, 1e30, AT(data.std) },
    { "optimizer.name", OPT_ENUM, "sgd", "NAME", "the optimizer", AT(own.optimizer.kind), .names = optimizers },
    { "optimizer.where", OPT_ENUM, "ps", "WHERE",
      "ps: it takes the steps; worker: the ps only sums gradients, and every worker takes the same step (sync only)",
      AT(own.where), .names = wheres },
    { "optimizer.rate", OPT_F32, "0.01", "X", "learning rate", 1e-30, 1e6, AT(own.optimizer.rate) },
    { "optimizer.momentum", OPT_F32, "0.9", "X", "momentum: how much of the last step stays", 0, 1,
      AT(own.momentum) },
    { "optimizer.beta1", OPT_F32, "0.9", "X", "adam, adamw, lamb: decay of the first moment", 0, 0.999999,
      AT(own.optimizer.beta1) },
    { "optimizer.beta2", OPT_F32, "0.999", "X", "adam, adamw, lamb, rmsprop: decay of the second moment", 0, 0.999999,
      AT(own.optimizer.beta2) },
    { "optimizer.eps", OPT_F32, "1e-8", "X", "adam, adamw, lamb, adagrad, rmsprop: keeps the divisor from zero", 0, 1,
      AT(own.optimizer.eps) },
    { "optimizer.beta", OPT_F32, "1", "X", "ftrl: keeps the first steps small", 0, 1e6, AT(own.optimizer.beta) },
    { "optimizer.l1", OPT_F32, "0", "X", "ftrl: draws small parameters to zero", 0, 1e6, AT(own.optimizer.l1) },
    { "optimizer.l2", OPT_F32, "0", "X", "ftrl: draws all parameters to zero", 0, 1e6, AT(own.optimizer.l2) },
    { "optimizer.weight_decay", OPT_F32, "0", "X",
      "this much of a parameter is added to its gradient (adamw: taken off it in each step; lamb: part of the step)", 0, 1e6,
      AT(own.optimizer.weight_decay) },
    { "optimizer.clip_value", OPT_F32, "0", "X", "no element of a gradient is larger; 0: none is cut", 0, 1e30,
      AT(own.optimizer.clip_value) },
    { "optimizer.clip_norm", OPT_F32, "0", "X",
      "gradients are scaled so that the norm of all together is no larger; 0: not (sync and sync+B only)", 0, 1e30,
      AT(own.optimizer.clip_norm) },
    { "optimizer.schedule", OPT_ENUM, "constant", "NAME", "how the learning rate changes", AT(own.optimizer.schedule.kind),
      .names = schedules },
    { "optimizer.warmup", OPT_U64, "0", "STEPS", "the learning rate rises to its value in so many steps", 0, 1 << 30,
      AT(own.optimizer.schedule.warmup) },
    { "optimizer.every", OPT_U64, "1000", "STEPS", "schedule step: between two falls; cosine: until it is lowest", 1,
      1 << 30, AT(own.optimizer.schedule.every) },
    { "optimizer.gamma", OPT_F64, "0.1", "X", "schedule step: what a fall leaves of the rate", 0, 1,
      AT(own.optimizer.schedule.gamma) },
    { "optimizer.floor", OPT_F64, "0", "X", "schedule cosine: what is left of the rate in the end", 0, 1,
      AT(own.optimizer.schedule.floor) },
    { "async.rate_over_staleness", OPT_FLAG, "false", NULL,
      "modes ssp and async: the rate is divided by 1 + the steps that a gradient is behind", AT(own.async.rate_over_staleness) },
    { "async.compensation", OPT_F32, "0", "X",
      "modes ssp and async: lambda of delay compensation (DC-ASGD); 0: none", 0, 1e6, AT(own.async.compensation) },
    { "compression.push", OPT_ENUM, "none", "CODEC", "how gradients travel; what is left out is added to the next",
      AT(own.push), .names = codecs },
    { "compression.pull", OPT_ENUM, "none", "CODEC",
      "how parameters travel: as what they have changed by; what is left out is in the next change",
      AT(own.pull), .names = codecs },
    { "compression.share", OPT_F64, "0.01", "X", "topk, randomk: how much of a gradient or change is sent", 1e-6, 1,
      AT(own.share) },
    { "on_nan", OPT_ENUM, "stop", "WHAT", "a gradient with a NaN or infinity ends the run, or is skipped", AT(on_nan),
      .names = nans },
};
/* clang-format on */

enum vb_st job_init(struct job *j)
{
    *j = (struct job){ .own.opts = &j->opts };
    return opt_init(&j->opts, "Job (also keys of the job file):", job_opts, VB_ARRAY_LEN(job_opts),
                    j);
}

void job_fini(struct job *j)
{
    opt_fini(&j->opts);
    free(j->path);
    free(j->model);
    job_free_classes(j);
    j->path = NULL;
    j->model = NULL;
}

enum vb_st job_fail(const struct job *j, const char *key, struct vb_err *err, const char *fmt, ...)
{
    char where[200], text[500];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    opt_where(&j->opts, (size_t)opt_find(&j->opts, key), where, sizeof(where));
    vb_err_set(err, "%s: %.300s", where, text);
    return VB_INVAL;
}

/* Paths in the file are relative to the file, those of options and environment to where we are. */
static enum vb_st resolve(struct job *j, size_t i)
{
    char **at = (char **)(void *)((char *)j + j->opts.opt[i].offset), *full = NULL;
    const char *slash = strrchr(j->path, '/');

    if (j->opts.opt[i].type != OPT_TEXT || strcmp(j->opts.opt[i].arg, "FILE") != 0 ||
        j->opts.src[i].from != OPT_FILE || (*at)[0] == '/' || slash == NULL)
        return VB_OK;
    if (asprintf(&full, "%.*s/%s", (int)(slash - j->path), j->path, *at) < 0)
        return VB_NOMEM;
    free(*at);
    *at = full;
    return VB_OK;
}

static enum vb_st finish(struct job *j, struct vb_err *err)
{
    static const char *const tuned[] = { "chunk_kib", "credit_kib" };
    enum vb_st st = opt_env(&j->opts, err);

    if (st == VB_OK)
        st = opt_given(&j->opts, err);
    for (size_t i = 0; st == VB_OK && i < j->opts.n; i++) {
        const char *const *at = (const char *const *)(void *)((char *)j + j->opts.opt[i].offset);

        if (j->opts.opt[i].required && *at == NULL)
            st = job_fail(j, j->opts.opt[i].name, err, "is missing");
        else
            st = resolve(j, i);
    }
    if (st == VB_OK && j->tune != NULL)
        st = yaml_defaults(j->tune, &j->opts, tuned, VB_ARRAY_LEN(tuned), err);
    return st == VB_OK ? job_inherit(j) : st;
}

static enum vb_st prepare(struct job *j, const char *path, struct vb_err *err)
{
    vb_err_set(err, "%.300s: out of memory", path);
    j->path = strdup(path);
    j->model = calloc(1, sizeof(*j->model));
    j->opts.file = j->path;
    return j->path != NULL && j->model != NULL ? VB_OK : VB_NOMEM;
}

static enum vb_st read_layer(struct yaml_file *f, const yaml_node_t *item, void *arg,
                             struct vb_err *err)
{
    return job_read_layer(f, item, ((struct job *)arg)->model, err);
}

static enum vb_st lay(struct job *j, struct yaml_file *f, struct vb_err *err)
{
    const struct yaml_list list[] = { { "model", read_layer }, { "classes", job_read_class } };
    const struct yaml_schema schema = { &j->opts, list, VB_ARRAY_LEN(list), j };
    enum vb_st st = yaml_walk(f, NULL, &schema, err);

    if (st == VB_OK && j->model->nlayers == 0) {
        vb_err_set(err, "%.200s: model: is missing or has no layer", j->path);
        st = VB_INVAL;
    }
    if (st == VB_OK)
        st = finish(j, err);
    yaml_close(f);
    return st;
}

enum vb_st job_load(struct job *j, const char *path, struct vb_err *err)
{
    struct yaml_file *f = NULL;
    enum vb_st st = prepare(j, path, err);

    if (st == VB_OK)
        st = yaml_open(path, &f, err);
    return st == VB_OK ? lay(j, f, err) : st;
}

enum vb_st job_parse(struct job *j, const char *path, const char *text, size_t bytes,
                     struct vb_err *err)
{
    struct yaml_file *f = NULL;
    enum vb_st st = prepare(j, path, err);

    if (st == VB_OK)
        st = yaml_parse(path, text, bytes, &f, err);
    return st == VB_OK ? lay(j, f, err) : st;
}

char *job_canonical(const struct job *j)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return NULL;
    fprintf(out, "ps %" PRIu64 "\nworkers %" PRIu64 "\nvirtual_workers %" PRIu64 "\n", j->ps,
            j->workers, job_virtual_workers(j));
    fprintf(out, "batch %" PRIu64 "\nepochs %" PRIu64 "\nseed %" PRIu64 "\n", j->batch, j->epochs,
            j->seed);
    fprintf(out, "chunk_kib %" PRIu64 "\ntransport %s\n", j->chunk_kib, transports[j->transport]);
    fprintf(out, "data %s / %a - %a / %a test %d\n", formats[j->data.format], j->data.divide_by,
            j->data.mean, j->data.std, j->data.test_images != NULL);
    fprintf(out, "on_nan %s\n", nans[j->on_nan]);
    for (unsigned k = 0; k <= j->nclasses; k++)
        job_print_class(out, job_class(j, k));
    fprintf(out, "samples %" PRIu64 " %" PRIu64 " of %" PRIu64 "\n", j->found.train_samples,
            j->found.test_samples, model_input_elems(&j->found.input));
    job_print_model(out, j->model);
    const bool ok = ferror(out) == 0;
    if (fclose(out) != 0 || !ok) {
        free(text);
        return NULL;
    }
    return text;
}
