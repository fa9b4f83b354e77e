/*
 * conv.c - convolutions by oneDNN (2.x). Images stay as they lie; weights are packed as the library likes them, for that
 * is cheap and doubles its speed. A plan is a primitive with its memory, made for one kn_conv and number of threads. One
 * that nobody runs is in the list of idle ones; who wants to run takes it out and puts it back in front, so that two
 * threads never share one, and the last of too many is the one longest unused.
 */
#include "kernels/conv.h"

#include "base/util.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* omp.h comes with gcc alone */
void omp_set_num_threads(int n);
int omp_get_max_threads(void);

enum { IDLE_MAX = 128, X = 0, W = 1, Y = 2 };

struct plan {
    struct kn_conv c;
    int threads;
    struct plan *next;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t prim, pack; /* pack: of weights, before prim or behind it; NULL: none */
    dnnl_memory_t arg[3];        /* x, weights, y, as given */
    dnnl_memory_t packed, scratch;
    void *packed_data, *scratch_data;
};

static struct {
    pthread_mutex_t lock;
    dnnl_engine_t engine; /* until the process ends */
    struct plan *idle;
    unsigned count;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };
static _Atomic unsigned wanted_threads; /* relaxed: set before the first run */

void kn_conv_threads(unsigned n)
{
    atomic_store_explicit(&wanted_threads, n, memory_order_relaxed);
}

static void destroy(struct plan *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(p->arg[i]);
    dnnl_memory_destroy(p->packed);
    dnnl_memory_destroy(p->scratch);
    dnnl_primitive_destroy(p->pack);
    dnnl_primitive_destroy(p->prim);
    dnnl_primitive_desc_destroy(p->desc);
    dnnl_stream_destroy(p->stream);
    free(p->packed_data);
    free(p->scratch_data);
    free(p);
}

static bool is_of(const struct plan *p, const struct kn_conv *c, int threads)
{
    return p->threads == threads && memcmp(&p->c, c, sizeof(*c)) == 0;
}

static struct plan *take(const struct kn_conv *c, int threads)
{
    struct plan *p = NULL;

    pthread_mutex_lock(&all.lock);
    for (struct plan **at = &all.idle; *at != NULL && p == NULL; at = &(*at)->next)
        if (is_of(*at, c, threads)) {
            p = *at;
            *at = p->next;
            all.count--;
            break;
        }
    pthread_mutex_unlock(&all.lock);
    return p;
}

static void give_back(struct plan *p)
{
    struct plan *drop = NULL;

    pthread_mutex_lock(&all.lock);
    p->next = all.idle;
    all.idle = p;
    if (++all.count > IDLE_MAX) {
        struct plan **at = &all.idle;

        while ((*at)->next != NULL)
            at = &(*at)->next;
        drop = *at;
        *at = NULL;
        all.count--;
    }
    pthread_mutex_unlock(&all.lock);
    destroy(drop);
}

static dnnl_status_t engine(dnnl_engine_t *out)
{
    dnnl_status_t st = dnnl_success;

    pthread_mutex_lock(&all.lock);
    if (all.engine == NULL)
        st = dnnl_engine_create(&all.engine, dnnl_cpu, 0);
    *out = all.engine;
    pthread_mutex_unlock(&all.lock);
    return st;
}

/* What is given: x, weights, y. The library names dimensions [rows, channels, height, width], [out, in, height, width]. */
static dnnl_status_t describe(const struct kn_conv *c, dnnl_memory_desc_t *md,
                              dnnl_memory_desc_t *any_weights)
{
    const struct kn_window *w = &c->w;
    const dnnl_dims_t x = { c->rows, c->in_channels, w->in[0], w->in[1] },
                      k = { c->out_channels, c->in_channels, w->size[0], w->size[1] },
                      y = { c->rows, c->out_channels, w->out[0], w->out[1] };
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&md[X], 4, x, dnnl_f32, dnnl_nhwc);

    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&md[W], 4, k, dnnl_f32, dnnl_hwio);
    if (st == dnnl_success)
        st = dnnl_memory_desc_init_by_tag(&md[Y], 4, y, dnnl_f32, dnnl_nhwc);
    return st == dnnl_success
               ? dnnl_memory_desc_init_by_tag(any_weights, 4, k, dnnl_f32, dnnl_format_tag_any)
               : st;
}

static dnnl_status_t convolution(const struct kn_conv *c, const dnnl_memory_desc_t *md,
                                 const dnnl_memory_desc_t *weights, dnnl_convolution_desc_t *d)
{
    const struct kn_window *w = &c->w;
    const dnnl_dims_t stride = { w->stride[0], w->stride[1] },
                      before = { w->before[0], w->before[1] }, after = { w->after[0], w->after[1] };

    switch ((enum kn_conv_kind)c->kind) {
    case KN_CONV:
        return dnnl_convolution_forward_desc_init(d, dnnl_forward_training, dnnl_convolution_direct,
                                                  &md[X], weights, NULL, &md[Y], stride, before,
                                                  after);
    case KN_CONV_GRAD_X:
        return dnnl_convolution_backward_data_desc_init(d, dnnl_convolution_direct, &md[X], weights,
                                                        &md[Y], stride, before, after);
    default:
        return dnnl_convolution_backward_weights_desc_init(
            d, dnnl_convolution_direct, &md[X], weights, NULL, &md[Y], stride, before, after);
    }
}

static dnnl_status_t choose(struct plan *p, dnnl_engine_t e, const dnnl_memory_desc_t *md,
                            const dnnl_memory_desc_t *weights)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    dnnl_status_t st = convolution(&p->c, md, weights, &d);

    if (st == dnnl_success)
        st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&p->desc, &d, attr, e, NULL);
    dnnl_primitive_attr_destroy(attr);
    return st == dnnl_success ? dnnl_primitive_create(&p->prim, p->desc) : st;
}

static dnnl_status_t own_memory(dnnl_memory_t *m, void **data, const dnnl_memory_desc_t *md,
                                dnnl_engine_t e)
{
    const size_t bytes = dnnl_memory_desc_get_size(md);

    *data = aligned_alloc(4096, vb_round_up(bytes + 1, 4096));
    if (*data == NULL)
        return dnnl_out_of_memory;
    memset(*data, 0, bytes); /* here, so that the first run touches no new page */
    return dnnl_memory_create(m, md, e, *data);
}

/* Weights in the order of prim: packed before it runs, or as it leaves them. */
static dnnl_status_t add_pack(struct plan *p, dnnl_engine_t e, const dnnl_memory_desc_t *given)
{
    const bool result = p->c.kind == KN_CONV_GRAD_W;
    const dnnl_memory_desc_t *own = dnnl_primitive_desc_query_md(
        p->desc, result ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st;

    if (own == NULL)
        return dnnl_runtime_error;
    if (dnnl_memory_desc_equal(own, given) != 0)
        return dnnl_success;
    st = own_memory(&p->packed, &p->packed_data, own, e);
    if (st == dnnl_success)
        st = dnnl_reorder_primitive_desc_create(&pd, result ? own : given, e, result ? given : own,
                                                e, NULL);
    if (st == dnnl_success)
        st = dnnl_primitive_create(&p->pack, pd);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

static dnnl_status_t fill(struct plan *p)
{
    dnnl_engine_t e = NULL;
    dnnl_memory_desc_t md[3], any_weights;
    dnnl_status_t st = engine(&e);

    if (st == dnnl_success)
        st = describe(&p->c, md, &any_weights);
    if (st == dnnl_success)
        st = dnnl_stream_create(&p->stream, e, dnnl_stream_default_flags);
    if (st == dnnl_success)
        st = choose(p, e, md, &any_weights);
    for (int i = 0; i < 3 && st == dnnl_success; i++)
        st = dnnl_memory_create(&p->arg[i], &md[i], e, DNNL_MEMORY_NONE);
    if (st == dnnl_success)
        st = add_pack(p, e, &md[W]);
    if (st == dnnl_success) {
        const dnnl_memory_desc_t *s =
            dnnl_primitive_desc_query_md(p->desc, dnnl_query_scratchpad_md, 0);

        st = s == NULL ? dnnl_runtime_error : own_memory(&p->scratch, &p->scratch_data, s, e);
    }
    return st;
}

static dnnl_status_t make(const struct kn_conv *c, int threads, struct plan **out)
{
    struct plan *p = calloc(1, sizeof(*p));
    dnnl_status_t st = dnnl_out_of_memory;

    if (p == NULL)
        return st;
    p->c = *c;
    p->threads = threads;
    st = fill(p);
    if (st != dnnl_success) {
        destroy(p);
        return st;
    }
    *out = p;
    return dnnl_success;
}

static dnnl_status_t repack(struct plan *p, dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_exec_arg_t arg[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };

    return p->pack != NULL ? dnnl_primitive_execute(p->pack, p->stream, 2, arg) : dnnl_success;
}

static dnnl_status_t execute(struct plan *p)
{
    static const int name[][3] = {
        [KN_CONV] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
        [KN_CONV_GRAD_X] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
        [KN_CONV_GRAD_W] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
    };
    const int *as = name[p->c.kind];
    const bool result = p->c.kind == KN_CONV_GRAD_W;
    const dnnl_memory_t weights = p->pack != NULL ? p->packed : p->arg[W];
    const dnnl_exec_arg_t arg[] = { { as[X], p->arg[X] },
                                    { as[W], weights },
                                    { as[Y], p->arg[Y] },
                                    { DNNL_ARG_SCRATCHPAD, p->scratch } };
    dnnl_status_t st = result ? dnnl_success : repack(p, p->arg[W], weights);

    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->prim, p->stream, 4, arg);
    if (st == dnnl_success && result)
        st = repack(p, weights, p->arg[W]);
    return st == dnnl_success ? dnnl_stream_wait(p->stream) : st;
}

static dnnl_status_t run(const struct kn_conv *c, int threads, void *const *data)
{
    struct plan *p = take(c, threads);
    dnnl_status_t st = p != NULL ? dnnl_success : make(c, threads, &p);

    for (int i = 0; i < 3 && st == dnnl_success; i++)
        st = dnnl_memory_set_data_handle(p->arg[i], data[i]);
    if (st == dnnl_success)
        st = execute(p);
    if (st == dnnl_success)
        give_back(p);
    else
        destroy(p);
    return st;
}

enum vb_st kn_conv(const struct kn_conv *c, float *result, const float *a, const float *b)
{
    const int own = omp_get_max_threads();
    const unsigned n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    const int threads = n == 0 ? own : (int)VB_MIN(n, 1024u);
    void *x = (void *)(uintptr_t)a, *y = (void *)(uintptr_t)b;
    dnnl_status_t st;

    if (c->rows == 0) {
        if (c->kind == KN_CONV_GRAD_W)
            memset(result, 0,
                   (size_t)(c->w.size[0] * c->w.size[1] * c->in_channels * c->out_channels) *
                       sizeof(*result));
        return VB_OK;
    }
    omp_set_num_threads(threads); /* of this thread; a primitive is made for as many as run it */
    st = c->kind == KN_CONV          ? run(c, threads, (void *[]){ x, y, result })
         : c->kind == KN_CONV_GRAD_X ? run(c, threads, (void *[]){ result, y, x })
                                     : run(c, threads, (void *[]){ x, result, y });
    omp_set_num_threads(own);
    return st == dnnl_success ? VB_OK : st == dnnl_out_of_memory ? VB_NOMEM : VB_IO;
}
