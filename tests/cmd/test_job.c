#include "cmd/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char dir[] = "/tmp/verbena-job-XXXXXX";

/* An IDX file of `n` items of `width` bytes each (0: labels), the last with value `last`. */
static void write_idx(const char *name, unsigned n, unsigned width, unsigned char last)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    const unsigned char head[] = { 0, 0, 8, width > 0 ? 2 : 1, 0, 0, 0, (unsigned char)n };
    const unsigned char row[] = { 0, 0, 0, (unsigned char)width };

    fwrite(head, 1, sizeof(head), f);
    if (width > 0)
        fwrite(row, 1, sizeof(row), f);
    for (unsigned i = 1; i < n * VB_MAX(width, 1U); i++)
        fputc(0, f);
    fputc(last, f);
    fclose(f);
}

static void make_files(void)
{
    cr_assert_neq(mkdtemp(dir), NULL);
    write_idx("images", 20, 6, 9);
    write_idx("labels", 20, 0, 2);
    write_idx("other", 10, 6, 9);
    write_idx("other-labels", 10, 0, 2);
    write_idx("wide", 10, 7, 9);
    write_idx("high", 20, 0, 3);
}

static void remove_files(void)
{
    char line[100];

    snprintf(line, sizeof(line), "rm -r %s", dir);
    cr_assert_eq(system(line), 0);
}

#define HEAD                                                                                       \
    "data:\n  train:\n    images: images\n    labels: labels\n" /* lines 1 to 4 */                 \
    "batch: 8\n"
#define MODEL "model: [dense: 5, relu, dense: {units: 3}, softmax_cross_entropy]\n"

static enum vb_st load(struct job *j, const char *text, bool check, struct vb_err *err)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/job.yaml", dir);
    cr_assert_eq(job_init(j), VB_OK);
    const enum vb_st st = job_parse(j, path, text, strlen(text), err);
    return st == VB_OK && check ? job_check(j, err) : st;
}

Test(job, a_good_job_is_read_and_found_good)
{
    struct job j;
    struct vb_err err = { "" };
    char path[100];

    make_files();
    cr_assert_eq(load(&j,
                      HEAD MODEL "optimizer: {name: momentum, rate: 0.5, momentum: 0.25}\n"
                                 "workers: 2\nvirtual_workers: 8\n",
                      true, &err),
                 VB_OK, "%s", err.text);
    cr_assert(j.model->nlayers == 4 && j.model->layer[0].units == 5 &&
              j.model->layer[2].units == 3);
    cr_assert_str_eq(j.model->layer[3].type, "softmax_cross_entropy");
    cr_assert(j.own.optimizer.kind == KN_MOMENTUM && j.own.optimizer.beta1 == 0.25f);
    cr_assert(j.batch == 8 && j.epochs == 1 && j.start_timeout == 60 && j.transport == CL_AUTO);
    cr_assert(model_input_elems(&j.found.input) == 6 && j.found.train_samples == 20 &&
              j.found.test_samples == 0);
    snprintf(path, sizeof(path), "%s/images", dir);
    cr_assert_str_eq(j.data.train_images, path);
    job_fini(&j);
    remove_files();
}

Test(job, what_does_not_load_is_one_line)
{
    static const struct {
        const char *text, *says; /* after the file's name */
    } cases[] = {
        { HEAD, " model: is missing or has no layer" },
        { HEAD "model: []\n", " model: is missing or has no layer" },
        { MODEL, " data.train.images: is missing" },
        { HEAD "model:\n  - dense\n", "7: model: dense needs units, as in {dense: {units: 4}}" },
        { HEAD "model:\n  - dense: {}\n",
          "7: model: dense needs units, as in {dense: {units: 4}}" },
        { HEAD "model:\n  - dense: {unit: 3}\n", "7: unknown key 'unit'; did you mean 'units'?" },
        { HEAD "model:\n  - dense: 0\n", "7: units: '0' must be 1 or more" },
        { HEAD "model:\n  - relu: 3\n", "7: model: relu has no settings" },
        { HEAD "model:\n  - rleu\n", "7: model: unknown layer 'rleu'; did you mean 'relu'?" },
        { HEAD "model:\n  - convolution3d\n",
          "7: model: unknown layer 'convolution3d'; there are" },
        { HEAD "model:\n  - [a]\n", "7: model: a layer is a name (relu)" },
        { HEAD "model:\n  - {dense: 1, relu: 2}\n", "7: model: a layer is a name (relu)" },
        { HEAD MODEL "transport: ucx\n",
          "7: transport: 'ucx' must be one of auto, map, tcp, rdma" },
        { HEAD MODEL "optimizer: {name: adma}\n", "7: optimizer.name: 'adma' must be one of" },
        { HEAD MODEL "optimizer: {rate: -1}\n", "7: optimizer.rate: '-1' must be 1e-30 or more" },
        { HEAD MODEL "epoch: 3\n", "7: unknown key 'epoch'; did you mean 'epochs'?" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct job j;
        struct vb_err err = { "" };
        const size_t at = strlen(dir) + strlen("/job.yaml:");

        cr_assert_eq(load(&j, cases[i].text, false, &err), VB_INVAL, "%s", cases[i].text);
        cr_assert(strncmp(err.text, dir, strlen(dir)) == 0 &&
                      strncmp(err.text + at, cases[i].says, strlen(cases[i].says)) == 0,
                  "%s\nsays %s", cases[i].text, err.text);
        job_fini(&j);
    }
}

Test(job, what_cannot_be_trained_is_refused_before_anything_starts)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { HEAD MODEL "workers: 3\nvirtual_workers: 4\n",
          ":8: virtual_workers: 4 cannot be divided by 3 workers, else the sum would depend on the "
          "number of workers" },
        { HEAD MODEL "workers: 2\nvirtual_workers: 6\n",
          ":8: virtual_workers: 6 over 2 workers must be a power of two for each" },
        { HEAD MODEL "workers: 9\n", ":5: batch: 8 is too small" },
        { HEAD MODEL "ps: 1024\n", ": workers: more than 1024 tasks" },
        { HEAD MODEL "transport: map\nrequire_rdma: true\n",
          ":8: require_rdma: is not possible with transport map" },
        { HEAD MODEL "mode: ssp\n", ":7: mode: 'ssp' is not a mode; there are sync, " },
        { HEAD MODEL "workers: 2\nmode: sync+2\n",
          ":8: mode: 'sync+2': of 2 workers at most 1 can be backups" },
        { HEAD MODEL "async: {compensation: 1}\n",
          ":7: async.compensation: is only for the modes ssp and async" },
        { HEAD MODEL "net_devices: nosuch0\n", ":7: net_devices: no device 'nosuch0' here" },
        { HEAD MODEL "net_devices: lo,\n", ":7: net_devices: " },
        { HEAD MODEL "optimizer: {name: sgd, momentum: 0.9}\n",
          ":7: optimizer.momentum: is only for momentum and nesterov" },
        { HEAD MODEL "optimizer: {clip_norm: 1}\nmode: ssp:1\nworkers: 2\n",
          ":7: optimizer.clip_norm: needs all gradients of a step at once, which mode ssp:1" },
        { HEAD MODEL "optimizer: {name: lamb}\nmode: async\nworkers: 2\n",
          ":7: optimizer.name: lamb needs all gradients of a step at once, which mode async" },
        { HEAD MODEL "optimizer: {name: lamb, clip_norm: 1}\n",
          ":7: optimizer.clip_norm: not with lamb" },
        { HEAD MODEL "optimizer: {name: adam, l1: 1}\n", ":7: optimizer.l1: is only for ftrl" },
        { HEAD MODEL "optimizer: {schedule: cosine, gamma: 0.5}\n",
          ":7: optimizer.gamma: is only for the schedules step" },
        { HEAD "model: [dense: 3, relu]\n",
          ":6: model: the last layer must be a loss, add softmax_cross_entropy" },
        { HEAD "model: [softmax_cross_entropy, dense: 3, softmax_cross_entropy]\n",
          ":6: model: dense comes after the loss, which must be the last layer" },
        { HEAD "model: [relu, softmax_cross_entropy]\n",
          ":6: model: there is nothing to learn, add a dense layer" },
        { HEAD "model: [dense: 2, softmax_cross_entropy]\n",
          ":4: data.train.labels: label 2 needs a model with 3 outputs or more, it has 2" },
        { HEAD "model: [dense: 9000000, dense: 9000000, softmax_cross_entropy]\n",
          ":6: model: variable dense2/weight: all variables together are over" },
        { "data: {train: {images: images, labels: labels}}\nbatch: 30\n" MODEL,
          ":2: batch: 30 is more than the 20 training samples" },
        { "data:\n  train:\n    images: none\n    labels: labels\n" MODEL,
          ":3: data.train.images: " },
        { "data:\n  train:\n    images: job.yaml\n    labels: none\nbatch: 2\n" MODEL,
          ":3: data.train.images: " },
        { "data:\n  train:\n    images: labels\n    labels: labels\nbatch: 2\n" MODEL,
          ":3: data.train.images: " },
        { "data:\n  train:\n    images: images\n    labels: images\nbatch: 2\n" MODEL,
          ":4: data.train.labels: " },
        { "data:\n  train:\n    images: images\n    labels: other-labels\nbatch: 2\n" MODEL,
          ":4: data.train.labels: 10 labels do not fit the 20 images of data.train.images" },
        { "data:\n  train: {images: images, labels: labels}\n  test:\n    images: other\nbatch: "
          "2\n" MODEL,
          ":4: data.test.images: images and labels go together; the other is missing" },
        { "data:\n  train: {images: images, labels: labels}\n  test:\n    labels: other-labels\n"
          "    images: wide\nbatch: 2\n" MODEL,
          ":5: data.test.images: images of 7 values, in training they have 6" },
        { "data:\n  train: {images: images, labels: labels}\n  test:\n    labels: high\n"
          "    images: images\nbatch: 2\n" MODEL,
          ":4: data.test.labels: label 3 needs a model with 4 outputs or more, it has 3" },
    };

    make_files();
    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct job j;
        struct vb_err err = { "" };
        const size_t at = strlen(dir) + strlen("/job.yaml");

        cr_assert_eq(load(&j, cases[i].text, true, &err), VB_INVAL, "%s", cases[i].text);
        cr_assert(strncmp(err.text, dir, strlen(dir)) == 0 &&
                      strncmp(err.text + at, cases[i].says, strlen(cases[i].says)) == 0,
                  "%s\nsays %s", cases[i].text, err.text);
        cr_assert_null(strchr(err.text, '\n'));
        job_fini(&j);
    }
    remove_files();
}

Test(job, the_canonical_text_tells_what_must_be_equal_in_all_tasks)
{
    static const struct {
        const char *more;
        bool same;
    } cases[] = {
        { "threads: 4\n", true },
        { "json: true\n", true },
        { "require_rdma: true\n", true },
        { "net_devices: lo\n", true },
        { "virtual_workers: 1\n", true },
        { "start_timeout: 5\n", true },
        { "credit_kib: 64\n", true },
        { "seed: 2\n", false },
        { "epochs: 2\n", false },
        { "chunk_kib: 4\n", false },
        { "optimizer: {rate: 0.02}\n", false },
        { "optimizer: {clip_norm: 1}\n", false },
        { "transport: tcp\n", false },
        { "workers: 2\n", false },
    };
    struct job j;
    struct vb_err err = { "" };

    cr_assert_eq(load(&j, HEAD MODEL, false, &err), VB_OK);
    char *first = job_canonical(&j);
    job_fini(&j);
    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        char text[600];

        snprintf(text, sizeof(text), "%s%s", HEAD MODEL, cases[i].more);
        cr_assert_eq(load(&j, text, false, &err), VB_OK, "%s", err.text);
        char *canonical = job_canonical(&j);
        cr_assert_eq(strcmp(first, canonical) == 0, cases[i].same, "%s", cases[i].more);
        free(canonical);
        job_fini(&j);
    }
    free(first);
}
