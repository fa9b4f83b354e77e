/*
 * The text is parsed twice: the first pass looks at events and refuses what a tree would hide or blow
 * up (aliases, anchors, tags, depth, a second document); the second builds the tree.
 */
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

struct yaml_file {
    char *name;
    yaml_document_t doc;
    bool has_doc;
};

enum vb_st yaml_fail(const struct yaml_file *f, unsigned line, struct vb_err *err, const char *fmt,
                     ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vb_err_set(err, "%.100s:%u: %s", f->name, line, text);
    return VB_INVAL;
}

/* Bytes of the UTF-8 character at s, 0: not one. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    static const struct {
        unsigned char lead, mask;
        uint32_t least;
    } form[] = {
        { 0x00, 0x80, 0 }, { 0xc0, 0xe0, 0x80 }, { 0xe0, 0xf0, 0x800 }, { 0xf0, 0xf8, 0x10000 }
    };

    for (size_t n = 0; n < VB_ARRAY_LEN(form); n++) {
        if ((s[0] & form[n].mask) != form[n].lead)
            continue;
        uint32_t c = s[0] & (unsigned char)~form[n].mask;

        if (n >= left)
            return 0;
        for (size_t i = 1; i <= n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (s[i] & 0x3f);
        }
        return c < form[n].least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n + 1;
    }
    return 0;
}

static unsigned line_at(const char *text, size_t offset)
{
    unsigned line = 1;

    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

static enum vb_st check_utf8(const struct yaml_file *f, const char *text, size_t bytes,
                             struct vb_err *err)
{
    for (size_t i = 0; i < bytes;) {
        const size_t n = utf8_len((const unsigned char *)text + i, bytes - i);

        if (n == 0)
            return yaml_fail(f, line_at(text, i), err, "is not UTF-8 text");
        i += n;
    }
    return VB_OK;
}

/* Is there a tab in the indentation of that line (from 0)? */
static bool tab_indents(const char *text, size_t bytes, size_t line)
{
    size_t i = 0;

    for (; line > 0 && i < bytes; i++)
        line -= text[i] == '\n';
    while (i < bytes && text[i] == ' ')
        i++;
    return i < bytes && text[i] == '\t';
}

static enum vb_st parser_failed(const struct yaml_file *f, const yaml_parser_t *p, const char *text,
                                size_t bytes, struct vb_err *err)
{
    const char *problem = p->problem != NULL ? p->problem : "not YAML";
    const unsigned line = (unsigned)p->problem_mark.line + 1;
    const unsigned from = (unsigned)p->context_mark.line + 1;

    if (p->error == YAML_MEMORY_ERROR) {
        vb_err_set(err, "%.100s: out of memory", f->name);
        return VB_NOMEM;
    }
    if (p->error == YAML_READER_ERROR)
        return yaml_fail(f, line_at(text, VB_MIN(p->problem_offset, bytes)), err, "%s", problem);
    if (tab_indents(text, bytes, p->problem_mark.line))
        return yaml_fail(f, line, err, "a tab cannot indent; use spaces");
    if (p->context != NULL && strstr(problem, "end of stream") != NULL)
        return yaml_fail(f, from, err, "%s (%s)", problem, p->context);
    if (p->context != NULL && from != line)
        return yaml_fail(f, line, err, "%s (%s from line %u)", problem, p->context, from);
    return yaml_fail(f, line, err, "%s", problem);
}

static bool anchored(const yaml_event_t *e)
{
    return (e->type == YAML_SCALAR_EVENT && e->data.scalar.anchor != NULL) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor != NULL) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor != NULL);
}

static bool tagged(const yaml_event_t *e)
{
    return (e->type == YAML_SCALAR_EVENT && e->data.scalar.tag != NULL) ||
           (e->type == YAML_MAPPING_START_EVENT && e->data.mapping_start.tag != NULL) ||
           (e->type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.tag != NULL);
}

struct scan {
    unsigned depth, docs;
    bool end;
};

static enum vb_st check_event(const struct yaml_file *f, const yaml_event_t *e, struct scan *s,
                              struct vb_err *err)
{
    const unsigned line = (unsigned)e->start_mark.line + 1;

    s->depth += e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT;
    s->depth -= e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT;
    s->docs += e->type == YAML_DOCUMENT_START_EVENT;
    s->end = e->type == YAML_STREAM_END_EVENT;
    if (e->type == YAML_ALIAS_EVENT || anchored(e))
        return yaml_fail(f, line, err, "anchors (&) and aliases (*) are not allowed");
    if (tagged(e))
        return yaml_fail(f, line, err, "tags (!) are not allowed");
    if (s->depth > YAML_DEPTH_MAX)
        return yaml_fail(f, line, err, "nested more than %d deep", YAML_DEPTH_MAX);
    if (s->docs > 1)
        return yaml_fail(f, line, err, "a second document begins; a file holds one");
    if (s->end && s->docs == 0)
        return yaml_fail(f, 1, err, "is empty");
    return VB_OK;
}

static bool parser_open(yaml_parser_t *p, const char *text, size_t bytes)
{
    if (!yaml_parser_initialize(p))
        return false;
    yaml_parser_set_encoding(p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(p, (const unsigned char *)text, bytes);
    return true;
}

static enum vb_st check_events(const struct yaml_file *f, const char *text, size_t bytes,
                               struct vb_err *err)
{
    yaml_parser_t p;
    struct scan scan = { 0 };
    enum vb_st st = VB_OK;

    if (!parser_open(&p, text, bytes))
        return VB_NOMEM;
    while (st == VB_OK && !scan.end) {
        yaml_event_t e;

        if (!yaml_parser_parse(&p, &e)) {
            st = parser_failed(f, &p, text, bytes, err);
            break;
        }
        st = check_event(f, &e, &scan, err);
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
    return st;
}

static enum vb_st load(struct yaml_file *f, const char *text, size_t bytes, struct vb_err *err)
{
    yaml_parser_t p;
    enum vb_st st = VB_OK;

    if (!parser_open(&p, text, bytes))
        return VB_NOMEM;
    f->has_doc = yaml_parser_load(&p, &f->doc) != 0;
    if (!f->has_doc)
        st = parser_failed(f, &p, text, bytes, err);
    yaml_parser_delete(&p);
    return st;
}

enum vb_st yaml_parse(const char *name, const char *text, size_t bytes, struct yaml_file **out,
                      struct vb_err *err)
{
    struct yaml_file *f = calloc(1, sizeof(*f));
    enum vb_st st = VB_NOMEM;

    vb_err_set(err, "%.100s: out of memory", name);
    if (f == NULL || (f->name = strdup(name)) == NULL)
        goto fail;
    st = VB_INVAL;
    if (bytes > YAML_BYTES_MAX) {
        vb_err_set(err, "%.100s:1: is larger than 1 MiB", name);
        goto fail;
    }
    st = check_utf8(f, text, bytes, err);
    if (st == VB_OK)
        st = check_events(f, text, bytes, err);
    if (st == VB_OK)
        st = load(f, text, bytes, err);
    if (st != VB_OK)
        goto fail;
    *out = f;
    return VB_OK;

fail:
    yaml_close(f);
    return st;
}

/* Reads at most limit bytes; -1 and errno. */
static ssize_t read_all(int fd, char *buf, size_t limit)
{
    size_t at = 0;

    while (at < limit) {
        const ssize_t n = read(fd, buf + at, limit - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        at += (size_t)n;
    }
    return (ssize_t)at;
}

enum vb_st yaml_open(const char *path, struct yaml_file **out, struct vb_err *err)
{
    AUTO_FREE char *buf = malloc(YAML_BYTES_MAX + 1);
    AUTO_CLOSE const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (buf == NULL) {
        vb_err_set(err, "%.300s: out of memory", path);
        return VB_NOMEM;
    }
    const ssize_t n = fd >= 0 ? read_all(fd, buf, YAML_BYTES_MAX + 1) : -1;
    if (n < 0) {
        vb_err_set(err, "%.300s: %s", path, strerror(errno));
        return VB_IO;
    }
    return yaml_parse(path, buf, (size_t)n, out, err);
}

void yaml_close(struct yaml_file *f)
{
    if (f == NULL)
        return;
    if (f->has_doc)
        yaml_document_delete(&f->doc);
    free(f->name);
    free(f);
}

/* The tree is only read, but libyaml's accessors want it without const. */
yaml_document_t *yaml_doc(struct yaml_file *f)
{
    return &f->doc;
}
