#include "ops/nd.h"

#include <string.h>

struct nd nd_over(const struct gr_shape *s)
{
    struct nd l = { .rank = s->rank };

    memcpy(l.dim, s->dim, s->rank * sizeof(l.dim[0]));
    return l;
}

void nd_add(struct nd *l, const struct gr_shape *s)
{
    size_t step = 1;

    for (uint32_t i = l->rank; i-- > 0;) {
        const uint64_t own = nd_dim(s, i, l->rank);

        l->step[i][l->tensors] = own == 1 ? 0 : step;
        step *= own;
    }
    l->tensors++;
}

void nd_add_steps(struct nd *l, const size_t *step)
{
    for (uint32_t i = 0; i < l->rank; i++)
        l->step[i][l->tensors] = step[i];
    l->tensors++;
}

void nd_steps(const struct gr_shape *s, size_t *step_out)
{
    size_t step = 1;

    for (uint32_t i = s->rank; i-- > 0;) {
        step_out[i] = step;
        step *= s->dim[i];
    }
}

/* Is dimension b, which comes after a, the inner part of one dimension in all tensors? */
static bool follows(const struct nd *l, const size_t *a, uint32_t b)
{
    for (uint32_t t = 0; t < l->tensors; t++)
        if (a[t] != l->step[b][t] * l->dim[b])
            return false;
    return true;
}

/* The same with fewer dimensions, at least one. */
static struct nd merged(const struct nd *l)
{
    struct nd m = { .tensors = l->tensors };

    for (uint32_t i = 0; i < l->rank; i++) {
        uint64_t dim = l->dim[i];

        if (dim == 1)
            continue;
        if (m.rank > 0 && follows(l, m.step[m.rank - 1], i))
            dim *= m.dim[--m.rank];
        m.dim[m.rank] = dim;
        memcpy(m.step[m.rank++], l->step[i], sizeof(l->step[i]));
    }
    if (m.rank == 0) {
        m.rank = m.dim[0] = 1;
        for (uint32_t t = 0; t < m.tensors; t++)
            m.step[0][t] = 1;
    }
    return m;
}

static bool is_empty(const struct nd *l)
{
    for (uint32_t i = 0; i < l->rank; i++)
        if (l->dim[i] == 0)
            return true;
    return false;
}

/* To the next row. false: there is none. */
static bool next(const struct nd *l, uint64_t *index, char **at, const size_t *bytes)
{
    for (uint32_t i = l->rank - 1; i-- > 0;) {
        for (uint32_t t = 0; t < l->tensors; t++)
            at[t] += l->step[i][t] * bytes[t];
        if (++index[i] < l->dim[i])
            return true;
        for (uint32_t t = 0; t < l->tensors; t++)
            at[t] -= l->step[i][t] * bytes[t] * l->dim[i];
        index[i] = 0;
    }
    return false;
}

static void each(const struct nd *l, void *const *data, const size_t *bytes, nd_row *row)
{
    uint64_t index[ND_RANK] = { 0 };
    char *at[ND_TENSORS] = { NULL };

    memcpy(at, data, l->tensors * sizeof(at[0]));
    do
        row((void *const *)at, l->step[l->rank - 1], l->dim[l->rank - 1]);
    while (next(l, index, at, bytes));
}

enum { SHORT = 8 };

/* Rows along a longer dimension where the last is short: calls cost more than steps. */
static void lengthen(struct nd *l)
{
    const uint32_t last = l->rank - 1;
    uint32_t j = last;
    size_t step[ND_TENSORS];

    for (uint32_t i = 0; l->dim[last] < SHORT && i < last; i++)
        if (l->dim[i] > l->dim[j])
            j = i;
    const uint64_t dim = l->dim[j];

    l->dim[j] = l->dim[last];
    l->dim[last] = dim;
    memcpy(step, l->step[j], sizeof(step));
    memcpy(l->step[j], l->step[last], sizeof(step));
    memcpy(l->step[last], step, sizeof(step));
}

void nd_each(const struct nd *l, void *const *data, const size_t *bytes, nd_row *row)
{
    struct nd m = merged(l);

    if (is_empty(&m))
        return;
    lengthen(&m);
    each(&m, data, bytes, row);
}

#define COPY(name, type)                                                                           \
    static void name(void *const *at, const size_t *step, size_t n)                                \
    {                                                                                              \
        type *o = at[0];                                                                           \
        const type *x = at[1];                                                                     \
        const size_t so = step[0], sx = step[1];                                                   \
                                                                                                   \
        if (so == 1 && sx == 1)                                                                    \
            memcpy(o, x, n * sizeof(*o));                                                          \
        else if (so == 1)                                                                          \
            for (size_t i = 0; i < n; i++)                                                         \
                o[i] = x[i * sx];                                                                  \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                o[i * so] = x[i * sx];                                                             \
    }
COPY(copy_1, uint8_t)
COPY(copy_4, uint32_t)
COPY(copy_8, uint64_t)

enum { TILE = 8 };

/* Dimension j as j / TILE where it is and TILE innermost, behind the last: a tile is read along one tensor and
 * written along the other before its cache lines are gone. */
static struct nd tiled(const struct nd *l, uint32_t j)
{
    struct nd t = *l;

    t.rank++;
    t.dim[l->rank] = TILE;
    memcpy(t.step[l->rank], l->step[j], sizeof(l->step[j]));
    t.dim[j] /= TILE;
    for (uint32_t k = 0; k < l->tensors; k++)
        t.step[j][k] *= TILE;
    return t;
}

/* The dimension along which the input is dense, where that is not the last and long enough for tiles; rank: none. */
static uint32_t dense_at(const struct nd *l)
{
    const uint32_t last = l->rank - 1;
    uint32_t j = 0;

    while (j < last && (l->step[j][1] != 1 || l->dim[j] < TILE))
        j++;
    return j < last && l->step[last][1] > 1 && l->dim[last] > 1 && l->rank < ND_RANK ? j : l->rank;
}

void nd_copy(const struct nd *l, void *out, const void *in, size_t bytes)
{
    nd_row *const row = bytes == 1 ? copy_1 : bytes == 4 ? copy_4 : copy_8;
    void *data[] = { out, (void *)(uintptr_t)in };
    const size_t size[] = { bytes, bytes };
    struct nd m = merged(l);

    if (is_empty(&m))
        return;
    const uint32_t j = dense_at(&m);

    if (j < m.rank) {
        const struct nd t = tiled(&m, j);
        const uint64_t done = t.dim[j] * TILE;

        each(&t, data, size, row);
        if (done == m.dim[j])
            return;
        m.dim[j] -= done; /* and what is left of it */
        data[0] = (char *)data[0] + done * m.step[j][0] * bytes;
        data[1] = (char *)data[1] + done * m.step[j][1] * bytes;
    }
    each(&m, data, size, row);
}
