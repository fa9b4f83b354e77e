#include "cluster/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cluster/addr.h"
#include "cluster/spec_read.h"

enum { TEXT_MAX = 1 << 20 };

static const char *const job_names[] = { [CL_PS] = "ps", [CL_WORKER] = "worker" };

/* Text of others goes into one line for a terminal. */
static void one_line(char *text)
{
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
}

static enum vb_st read_text(const char *text, size_t bytes, struct cl_spec *out, struct vb_err *err)
{
    const size_t bom = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    json_error_t why;
    enum vb_st st;

    if (bytes > TEXT_MAX) {
        vb_err_set(err, "the text is longer than 1 MiB");
        return VB_INVAL;
    }
    json_t *root =
        json_loadb(text + bom, bytes - bom, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);

    if (root == NULL) {
        vb_err_set(err, "not JSON at byte %zu: %s%s", (size_t)why.position + bom, why.text,
                   memchr(text, '\'', bytes) != NULL ? "; use double quotes" : "");
        return VB_INVAL;
    }
    if (json_is_object(root)) {
        st = spec_read(root, out, err);
    } else {
        vb_err_set(err, "a cluster is a JSON object: {\"cluster\": {\"ps\": [...], ...}}");
        st = VB_INVAL;
    }
    json_decref(root);
    return st;
}

enum vb_st cl_spec_parse(const char *text, size_t bytes, struct cl_spec *out, struct vb_err *err)
{
    struct cl_spec s = { 0 };
    const enum vb_st st = read_text(text, bytes, &s, err);

    if (st == VB_OK) {
        *out = s;
        return VB_OK;
    }
    if (st == VB_NOMEM)
        vb_err_set(err, "out of memory");
    if (err != NULL)
        one_line(err->text);
    cl_spec_fini(&s);
    *out = s;
    return st;
}

static ssize_t read_all(int fd, char *buf, size_t limit)
{
    size_t at = 0;
    ssize_t n;

    while (at < limit && (n = read(fd, buf + at, limit - at)) != 0) {
        if (n < 0 && errno != EINTR)
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)at;
}

enum vb_st cl_spec_load(const char *path, struct cl_spec *out, struct vb_err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_FREE char *text = malloc(TEXT_MAX + 1);
    const ssize_t n = fd >= 0 && text != NULL ? read_all(fd, text, TEXT_MAX + 1) : -1;
    struct vb_err inner;

    *out = (struct cl_spec){ 0 };
    if (n < 0) {
        vb_err_set(err, "%.200s: %s", path, strerror(errno));
        return VB_IO;
    }
    const enum vb_st st = cl_spec_parse(text, (size_t)n, out, &inner);

    if (st != VB_OK)
        vb_err_set(err, "%.200s: %.300s", path, inner.text);
    return st;
}

void cl_spec_fini(struct cl_spec *s)
{
    free(s->addr);
    *s = (struct cl_spec){ 0 };
}

/* A list, or where addresses are missing a map. */
static json_t *job_json(const struct cl_addr *a, uint32_t n)
{
    json_t *list = json_array(), *map = json_object();
    bool gap = false;

    for (uint32_t i = 0; i < n; i++) {
        char key[16], text[CL_ADDR_TEXT];

        gap = gap || a[i].port == 0;
        if (a[i].port == 0)
            continue;
        snprintf(key, sizeof(key), "%u", i);
        json_array_append_new(list, json_string(addr_text(&a[i], text)));
        json_object_set_new(map, key, json_string(text));
    }
    json_decref(gap ? list : map);
    return gap ? map : list;
}

char *cl_spec_json(const struct cl_spec *s)
{
    json_t *root = json_pack("{s:{s:o,s:o}}", "cluster", "ps", job_json(s->addr, s->nps), "worker",
                             job_json(s->addr + s->nps, s->nworkers));
    char *text = json_dumps(root, JSON_COMPACT);

    json_decref(root);
    return text;
}

char *cl_name(const struct cl_spec *s, uint32_t rank, char *buf)
{
    snprintf(buf, CL_NAME_MAX, "/job:%s/task:%u", job_names[cl_rank_job(s, rank)],
             cl_rank_index(s, rank));
    return buf;
}

uint32_t cl_on_host(const struct cl_spec *s, uint32_t rank, enum cl_job job)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < cl_ntasks(s); i++)
        if (cl_rank_job(s, i) == job)
            n += i == rank ||
                 (s->addr[i].port != 0 && strcasecmp(s->addr[i].host, s->addr[rank].host) == 0);
    return n;
}
