#include "ps/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum vb_st too_large(const struct ps_var *v, struct vb_err *err)
{
    vb_err_set(err, "variable %s: all variables together are over %" PRIu64 " GiB", v->name,
               PS_LINE_MAX >> 30);
    return VB_INVAL;
}

/* Places the variables on the lines, each of which begins at 0 for now. */
static enum vb_st lay_out(struct ps_table *t, struct vb_err *err)
{
    for (uint32_t i = 0; i < t->nvars; i++) {
        struct ps_var *v = &t->var[i];
        uint64_t bytes = 0;

        if (v->elems == 0) {
            vb_err_set(err, "variable %s is empty", v->name);
            return VB_INVAL;
        }
        if (v->cls >= PS_CLASSES_MAX || (v->cls != t->nclasses && v->cls + 1 != t->nclasses)) {
            vb_err_set(err, "variable %s: class %u is out of order", v->name, v->cls);
            return VB_INVAL;
        }
        t->nclasses = v->cls + 1;
        struct ps_line *line = &t->line[v->cls];

        v->offset = line->bytes;
        if (!vb_mul(v->elems, sizeof(float), &bytes) || !vb_add(v->offset, bytes, &line->bytes) ||
            line->bytes > PS_LINE_MAX)
            return too_large(v, err);
        line->bytes = vb_round_up(line->bytes, PS_ALIGN);
    }
    return VB_OK;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Ranges, and one line after the other: a region has one size of pages, and so has the window. */
static enum vb_st cut_ranges(struct ps_table *t, struct vb_err *err)
{
    t->page_bytes = PS_PAGE;
    for (uint32_t k = 0; k < t->nclasses; k++)
        if (div_up(t->line[k].bytes, t->nps) >= 64 * PS_HUGE_PAGE)
            t->page_bytes = PS_HUGE_PAGE;
    for (uint32_t k = 0; k < t->nclasses; k++) {
        struct ps_line *line = &t->line[k];

        line->offset = t->window_bytes;
        line->range_bytes = vb_round_up(div_up(line->bytes, t->nps), t->page_bytes);
        t->line_bytes = line->offset + line->bytes;
        t->window_bytes += t->nps * line->range_bytes;
    }
    for (uint32_t i = 0; i < t->nvars; i++)
        t->var[i].offset += t->line[t->var[i].cls].offset;
    return t->window_bytes > PS_LINE_MAX ? too_large(&t->var[t->nvars - 1], err) : VB_OK;
}

/* The chunk size for a range: equal parts, a multiple of PS_ALIGN. */
static uint64_t chunk_size(const struct ps_table_params *p, uint64_t used)
{
    uint64_t want = p->chunk_bytes, n;

    if (want == 0)
        want = VB_MIN(VB_MAX(used / 8, PS_CHUNK_MIN), PS_CHUNK_MAX);
    want = VB_MAX(VB_MIN(want, PS_CHUNK_MAX), (uint64_t)PS_ALIGN);
    n = div_up(used, want);
    if (n > 1 && want < PS_CHUNK_MAX) /* rather a little larger than smaller */
        n = used / want;
    return vb_round_up(div_up(used, n), PS_ALIGN);
}

/* count: chunks of each ps so far. */
static void add_chunks(struct ps_table *t, uint32_t cls, uint32_t ps, uint64_t size,
                       uint32_t *count)
{
    const uint64_t start = t->line[cls].offset + ps * t->line[cls].range_bytes,
                   used = ps_range_used(t, cls, ps), region = ps_range_at(t, cls, ps);

    for (uint64_t at = 0; at < used; at += size, count[ps]++)
        t->chunk[t->nchunks++] = (struct ps_chunk){
            .offset = start + at,
            .bytes = VB_MIN(size, used - at),
            .at = region + at,
            .ps = ps,
            .lane = count[ps] % t->nlanes,
            .nth = count[ps] / t->nlanes,
            .cls = cls,
        };
}

static uint64_t range_chunks(const struct ps_table *t, const struct ps_table_params *p,
                             uint32_t cls, uint32_t ps)
{
    const uint64_t used = ps_range_used(t, cls, ps);

    return used == 0 ? 0 : div_up(used, chunk_size(p, used));
}

static enum vb_st cut_chunks(struct ps_table *t, const struct ps_table_params *p,
                             struct vb_err *err)
{
    uint32_t *count = calloc(t->nps, sizeof(*count));
    uint64_t n = 0;

    for (uint32_t k = 0; k < t->nclasses; k++)
        for (uint32_t ps = 0; ps < t->nps; ps++)
            n += range_chunks(t, p, k, ps);
    if (n > UINT32_MAX / 2) {
        vb_err_set(err, "%" PRIu64 " chunks are too many, use larger ones (chunk_kib)", n);
        free(count);
        return VB_INVAL;
    }
    t->chunk = calloc(n, sizeof(*t->chunk));
    if (t->chunk == NULL || count == NULL) {
        free(count);
        return VB_NOMEM;
    }
    for (uint32_t k = 0; k < t->nclasses; k++)
        for (uint32_t ps = 0; ps < t->nps; ps++)
            if (ps_range_used(t, k, ps) != 0)
                add_chunks(t, k, ps, chunk_size(p, ps_range_used(t, k, ps)), count);
    free(count);
    return VB_OK;
}

/* Both lists are sorted by offset: one walk finds the overlaps. */
static void match_vars(struct ps_table *t)
{
    uint32_t v = 0;

    for (uint32_t c = 0; c < t->nchunks; c++) {
        struct ps_chunk *k = &t->chunk[c];

        while (v + 1 < t->nvars && t->var[v + 1].offset <= k->offset)
            v++;
        k->first_var = v;
        for (uint32_t i = v; i < t->nvars && t->var[i].offset < k->offset + k->bytes; i++)
            k->nvars++;
    }
}

struct rank {
    uint32_t need, chunk;
};

static int by_need(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    return x->need != y->need ? (x->need > y->need) - (x->need < y->need)
                              : (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static enum vb_st rank_chunks(struct ps_table *t)
{
    struct rank *r = calloc(t->nchunks, sizeof(*r));

    if (r == NULL)
        return VB_NOMEM;
    for (uint32_t c = 0; c < t->nchunks; c++)
        r[c] = (struct rank){ t->var[t->chunk[c].first_var].need, c };
    qsort(r, t->nchunks, sizeof(*r), by_need);
    for (uint32_t i = 0; i < t->nchunks; i++)
        t->chunk[r[i].chunk].need = i;
    free(r);
    return VB_OK;
}

enum vb_st ps_table_make(const struct ps_table_params *p, struct ps_table *out, struct vb_err *err)
{
    struct ps_table t = { .nvars = p->nvars, .nps = p->nps, .nlanes = VB_MAX(p->nlanes, 1u) };
    enum vb_st st = VB_NOMEM;

    if (p->nvars == 0 || p->nps == 0) {
        vb_err_set(err, "the model has no variables to share");
        return VB_INVAL;
    }
    t.var = calloc(p->nvars, sizeof(*t.var));
    if (t.var == NULL)
        goto fail;
    memcpy(t.var, p->var, p->nvars * sizeof(*t.var));
    st = lay_out(&t, err);
    if (st != VB_OK)
        goto fail;
    st = cut_ranges(&t, err);
    if (st == VB_OK)
        st = cut_chunks(&t, p, err);
    if (st != VB_OK)
        goto fail;
    match_vars(&t);
    st = rank_chunks(&t);
    if (st != VB_OK)
        goto fail;
    *out = t;
    return VB_OK;

fail:
    ps_table_fini(&t);
    return st;
}

void ps_table_fini(struct ps_table *t)
{
    free(t->var);
    free(t->chunk);
    *t = (struct ps_table){ 0 };
}

uint64_t ps_range_used(const struct ps_table *t, uint32_t cls, uint32_t ps)
{
    const struct ps_line *line = &t->line[cls];
    const uint64_t start = ps * line->range_bytes;

    return start >= line->bytes ? 0 : VB_MIN(line->range_bytes, line->bytes - start);
}

uint64_t ps_range_pages(const struct ps_table *t, uint32_t cls, uint32_t ps)
{
    return vb_round_up(ps_range_used(t, cls, ps), t->page_bytes);
}

uint64_t ps_range_at(const struct ps_table *t, uint32_t cls, uint32_t ps)
{
    uint64_t at = 0;

    for (uint32_t k = 0; k < cls; k++)
        at += ps_range_pages(t, k, ps);
    return cls == t->nclasses ? VB_MAX(at, t->page_bytes) : at;
}

uint32_t ps_lane_chunks(const struct ps_table *t, uint32_t ps, uint32_t lane)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < t->nchunks; c++)
        n += t->chunk[c].ps == ps && t->chunk[c].lane == lane;
    return n;
}

uint32_t ps_var_chunks(const struct ps_table *t, uint32_t var, uint32_t *first_out)
{
    const uint64_t start = t->var[var].offset, end = start + t->var[var].elems * sizeof(float);
    uint32_t lo = 0, hi = t->nchunks, n = 0;

    while (lo + 1 < hi) { /* the last chunk that starts at or before the variable */
        const uint32_t mid = lo + (hi - lo) / 2;

        if (t->chunk[mid].offset <= start)
            lo = mid;
        else
            hi = mid;
    }
    while (lo + n < t->nchunks && t->chunk[lo + n].offset < end)
        n++;
    *first_out = lo;
    return n;
}

void ps_table_text(const struct ps_table *t, char *buf, size_t buf_bytes)
{
    uint64_t h = t->nvars;

    for (uint32_t i = 0; i < t->nvars; i++)
        h = h * UINT64_C(0x100000001b3) + t->var[i].offset * 31 + t->var[i].elems;
    for (uint32_t i = 0; i < t->nchunks; i++)
        h = h * UINT64_C(0x100000001b3) + t->chunk[i].offset * 31 + t->chunk[i].bytes;
    snprintf(buf, buf_bytes,
             "vars %u classes %u ps %u lanes %u chunks %u window %" PRIu64 " hash %" PRIx64,
             t->nvars, t->nclasses, t->nps, t->nlanes, t->nchunks, t->window_bytes, h);
}
