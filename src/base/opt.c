#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

void opt_spell(const char *name, char *buf)
{
    size_t i = 0;

    for (; name[i] != '\0' && i < OPT_NAME_MAX; i++)
        buf[i] = name[i] == '_' ? '-' : name[i];
    buf[i] = '\0';
}

void opt_spell_env(const char *name, char *buf)
{
    size_t i = 0;

    memcpy(buf, "VB_", 3);
    for (; name[i] != '\0' && i < OPT_NAME_MAX; i++)
        buf[3 + i] = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
    buf[3 + i] = '\0';
}

void opt_where(const struct opt_set *s, size_t i, char *buf, size_t bytes)
{
    const char *name = s->opt[i].name, *file = s->file != NULL ? s->file : "job file";
    char word[OPT_NAME_MAX + 8];

    switch (s->src[i].from) {
    case OPT_ARG:
        opt_spell(name, word);
        snprintf(buf, bytes, "--%s", word);
        break;
    case OPT_ENV:
        opt_spell_env(name, word);
        snprintf(buf, bytes, "%s", word);
        break;
    case OPT_FILE:
        snprintf(buf, bytes, "%s:%u: %s", file, s->src[i].line, name);
        break;
    case OPT_DEFAULT:
        snprintf(buf, bytes, "%s: %s", file, name);
        break;
    }
}

/* Levenshtein; words longer than the row are not suggested. */
static unsigned distance(const char *a, const char *b)
{
    enum { ROW = 64 };
    unsigned row[ROW];
    const size_t na = strlen(a), nb = strlen(b);

    if (na >= ROW || nb >= ROW)
        return ROW;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            const unsigned swap = diagonal + (a[i - 1] != b[j - 1]);
            const unsigned step = VB_MIN(row[j], row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = VB_MIN(swap, step);
        }
    }
    return row[nb];
}

void opt_guess_try(struct opt_guess *g, const char *candidate)
{
    const size_t n = strlen(g->word);
    const bool begins = n >= 2 && strncmp(g->word, candidate, n) == 0;
    const unsigned cost = begins ? 1 : distance(g->word, candidate);

    if (cost <= 1 + n / 4 && (g->best == NULL || cost < g->cost)) {
        g->best = candidate;
        g->cost = cost;
    }
}

static bool all_digits(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static enum vb_st out_of_range(const struct opt *o, bool low, struct vb_err *err)
{
    vb_err_set(err, low ? "must be %.15g or more" : "must be %.15g or less", low ? o->min : o->max);
    return VB_INVAL;
}

static enum vb_st put_u64(const struct opt *o, const char *text, uint64_t *out, struct vb_err *err)
{
    if (text[0] == '-' && all_digits(text + 1))
        return out_of_range(o, true, err);
    if (!all_digits(text)) {
        vb_err_set(err, "must be a whole number");
        return VB_INVAL;
    }
    if (text[0] == '0' && text[1] != '\0') {
        vb_err_set(err, "must be a whole number without leading zeros");
        return VB_INVAL;
    }
    errno = 0;
    const unsigned long long v = strtoull(text, NULL, 10);
    if (errno == ERANGE && o->max == 0) {
        vb_err_set(err, "must be %llu or less", (unsigned long long)UINT64_MAX);
        return VB_INVAL;
    }
    if (errno == ERANGE || (o->max != 0 && (double)v > o->max))
        return out_of_range(o, false, err);
    if ((double)v < o->min)
        return out_of_range(o, true, err);
    *out = v;
    return VB_OK;
}

/* digits[.digits][e[sign]digits], or .digits; strtod alone would take hex, inf and nan. */
static bool is_decimal(const char *t)
{
    size_t whole, fraction = 0;

    t += *t == '-' || *t == '+';
    whole = strspn(t, "0123456789");
    if (whole > 1 && t[0] == '0')
        return false;
    t += whole;
    if (*t == '.') {
        fraction = strspn(++t, "0123456789");
        t += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*t == 'e' || *t == 'E') {
        t += t[1] == '-' || t[1] == '+' ? 2 : 1;
        if (*t == '\0')
            return false;
        t += strspn(t, "0123456789");
    }
    return *t == '\0';
}

static enum vb_st put_real(const struct opt *o, const char *text, double *out, struct vb_err *err)
{
    if (!is_decimal(text)) {
        vb_err_set(err, "must be a number");
        return VB_INVAL;
    }
    const double v = strtod(text, NULL);
    if (v < o->min || (o->max != 0 && v > o->max))
        return out_of_range(o, v < o->min, err);
    if (v - v != 0) {
        vb_err_set(err, "is too large");
        return VB_INVAL;
    }
    *out = v;
    return VB_OK;
}

static enum vb_st put_enum(const struct opt *o, const char *text, unsigned *out, struct vb_err *err)
{
    char list[200] = "";

    for (unsigned i = 0; o->names[i] != NULL; i++) {
        const size_t at = strlen(list);

        if (strcmp(text, o->names[i]) == 0) {
            *out = i;
            return VB_OK;
        }
        snprintf(list + at, sizeof(list) - at, "%s%s", i > 0 ? ", " : "", o->names[i]);
    }
    if (o->names[1] == NULL)
        vb_err_set(err, "is not available yet; use %s", list);
    else
        vb_err_set(err, "must be one of %s", list);
    return VB_INVAL;
}

static enum vb_st put_flag(const char *text, bool *out, struct vb_err *err)
{
    static const char *const words[] = { "false", "true", "no", "yes", "0", "1" };

    for (size_t i = 0; i < VB_ARRAY_LEN(words); i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return VB_OK;
        }
    vb_err_set(err, "must be true or false");
    return VB_INVAL;
}

static enum vb_st put_text(const char *text, char **out, struct vb_err *err)
{
    if (text[0] == '\0') {
        vb_err_set(err, "must not be empty");
        return VB_INVAL;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        vb_err_set(err, "out of memory");
        return VB_NOMEM;
    }
    free(*out);
    *out = copy;
    return VB_OK;
}

size_t opt_value_bytes(enum opt_type type)
{
    static const size_t bytes[] = {
        [OPT_U64] = sizeof(uint64_t), [OPT_F64] = sizeof(double),    [OPT_F32] = sizeof(float),
        [OPT_TEXT] = sizeof(char *),  [OPT_ENUM] = sizeof(unsigned), [OPT_FLAG] = sizeof(bool)
    };

    return bytes[type];
}

static enum vb_st copy_text(char **to, const char *from)
{
    free(*to);
    *to = from != NULL ? strdup(from) : NULL;
    return *to != NULL || from == NULL ? VB_OK : VB_NOMEM;
}

enum vb_st opt_inherit(struct opt_set *s, const struct opt_set *from)
{
    enum vb_st st = VB_OK;

    for (size_t i = 0; st == VB_OK && i < s->n; i++) {
        const int k = opt_find(from, s->opt[i].name);
        void *to = (char *)s->base + s->opt[i].offset;

        if (k < 0 || s->src[i].from != OPT_DEFAULT)
            continue;
        const void *at = (const char *)from->base + from->opt[k].offset;

        if (s->opt[i].type == OPT_TEXT)
            st = copy_text(to, *(char *const *)at);
        else
            memcpy(to, at, opt_value_bytes(s->opt[i].type));
    }
    return st;
}

enum vb_st opt_put(struct opt_set *s, size_t i, const char *text, struct opt_src src,
                   struct vb_err *err)
{
    const struct opt *o = &s->opt[i];
    void *at = (char *)s->base + o->offset;
    enum vb_st st = VB_INVAL;
    double real = 0;

    switch (o->type) {
    case OPT_U64:
        st = put_u64(o, text, at, err);
        break;
    case OPT_F64:
        st = put_real(o, text, at, err);
        break;
    case OPT_F32:
        st = put_real(o, text, &real, err);
        if (st == VB_OK)
            *(float *)at = (float)real;
        break;
    case OPT_TEXT:
        st = put_text(text, at, err);
        break;
    case OPT_ENUM:
        st = put_enum(o, text, at, err);
        break;
    case OPT_FLAG:
        st = put_flag(text, at, err);
        break;
    }
    if (st == VB_OK)
        s->src[i] = src;
    return st;
}

enum vb_st opt_init(struct opt_set *s, const char *title, const struct opt *opt, size_t n,
                    void *base)
{
    *s = (struct opt_set){ .title = title, .opt = opt, .n = VB_MIN(n, OPT_MAX), .base = base };
    for (size_t i = 0; i < s->n; i++) {
        const struct opt_src src = { OPT_DEFAULT, 0 };
        const enum vb_st st = opt[i].def != NULL ? opt_put(s, i, opt[i].def, src, NULL) : VB_OK;

        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}

void opt_fini(struct opt_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->opt[i].type == OPT_TEXT) {
            char **at = (char **)(void *)((char *)s->base + s->opt[i].offset);

            free(*at);
            *at = NULL;
        }
    s->n = 0;
}

int opt_find(const struct opt_set *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->opt[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* "--batch=0: must be 1 or more" */
static enum vb_st put_named(struct opt_set *s, size_t i, const char *text, enum opt_from from,
                            struct vb_err *err)
{
    char word[OPT_NAME_MAX + 8];
    struct vb_err why = { "" };
    const enum vb_st st = opt_put(s, i, text, (struct opt_src){ from, 0 }, &why);

    if (st == VB_OK)
        return VB_OK;
    if (from == OPT_ENV)
        opt_spell_env(s->opt[i].name, word);
    else
        opt_spell(s->opt[i].name, word);
    vb_err_set(err, "%s%s=%.200s: %s", from == OPT_ARG ? "--" : "", word, text, why.text);
    return st;
}

enum vb_st opt_env(struct opt_set *s, struct vb_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        char word[OPT_NAME_MAX + 8];

        opt_spell_env(s->opt[i].name, word);
        const char *text = getenv(word);
        const enum vb_st st = text != NULL ? put_named(s, i, text, OPT_ENV, err) : VB_OK;
        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}

enum vb_st opt_given(struct opt_set *s, struct vb_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const enum vb_st st =
            s->given[i] != NULL ? put_named(s, i, s->given[i], OPT_ARG, err) : VB_OK;

        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}
