/*
 * identity(x) -> x. print(x; most) -> x, and one line on stderr: the node's name, type, shape and the first `most` values
 * (0: 8). assert(x, cond bool) -> x; when not all of cond is set the run fails, and the message has the node's name. x is of
 * any type; gradients pass all three as if they were not there.
 */
#include "ops/check.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_DEFAULT = 8, MOST_MAX = 64, VALUE_TEXT = 24 };
enum { MOST };
static const char *const ints[] = { "most", NULL };

static enum vb_st print_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    return n->attr.i[MOST] < 0 || n->attr.i[MOST] > MOST_MAX
               ? op_misfit(n, "most is not 0 to 64", err)
               : VB_OK;
}

static enum vb_st pass_back(struct graph *g, struct gr_node *n, struct gr_node *dout,
                            const bool *need, struct gr_node **din_out, struct vb_err *err)
{
    din_out[0] = dout;
    return VB_OK;
}

static int put_value(char *to, size_t room, const struct gr_tensor *t, size_t i)
{
    switch (t->dtype) {
    case GR_F32:
        return snprintf(to, room, " %.7g", (double)((const float *)t->data)[i]);
    case GR_I32:
        return snprintf(to, room, " %" PRId32, ((const int32_t *)t->data)[i]);
    case GR_I64:
        return snprintf(to, room, " %" PRId64, ((const int64_t *)t->data)[i]);
    default:
        return snprintf(to, room, " %s", ((const uint8_t *)t->data)[i] != 0 ? "true" : "false");
    }
}

/* One fwrite a line, so that lines of several threads do not mix. */
static void print_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                      struct gr_run *r)
{
    char line[GR_NAME_MAX + GR_SHAPE_TEXT + (MOST_MAX + 2) * VALUE_TEXT], shape[GR_SHAPE_TEXT];
    const size_t all = gr_elems(in[0].shape, 0);
    const size_t most = n->attr.i[MOST] > 0 ? (size_t)n->attr.i[MOST] : MOST_DEFAULT;
    int at;

    gr_shape_str(in[0].shape, shape, sizeof(shape));
    at = snprintf(line, sizeof(line), "%s: %s %s:", n->name, gr_dtype_name(in[0].dtype), shape);
    for (size_t i = 0; i < VB_MIN(all, most); i++)
        at += put_value(line + at, sizeof(line) - (size_t)at, &in[0], i);
    at += snprintf(line + at, sizeof(line) - (size_t)at, "%s\n", all > most ? " ..." : "");
    (void)!fwrite(line, 1, (size_t)at, stderr);
    op_pass(&in[0], out);
}

const struct gr_type op_print = { .name = "print",
                                  .nin = 1,
                                  .stateful = true,
                                  .ints = ints,
                                  .inplace_of = 0,
                                  .infer = print_infer,
                                  .grad = pass_back,
                                  .run = print_run };

static enum vb_st assert_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    return op_want(n, 1, GR_BOOL, n->in[1]->shape.rank, err);
}

static void assert_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                       struct gr_run *r)
{
    const uint8_t *cond = in[1].data;
    const size_t k = gr_elems(in[1].shape, 0);
    char shape[GR_SHAPE_TEXT];
    size_t i = 0;

    while (i < k && cond[i] != 0)
        i++;
    if (i == k) {
        op_pass(&in[0], out);
        return;
    }
    gr_shape_str(in[1].shape, shape, sizeof(shape));
    if (r->err != NULL)
        vb_err_set(r->err, "'%s': '%s' %s is false at element %zu", n->name, n->in[1]->name, shape,
                   i);
    r->failed = true;
}

const struct gr_type op_assert = { .name = "assert",
                                   .nin = 2,
                                   .stateful = true,
                                   .inplace_of = 0,
                                   .infer = assert_infer,
                                   .grad = pass_back,
                                   .run = assert_run };

static enum vb_st identity_infer(struct gr_node *n, struct vb_err *err)
{
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    return VB_OK;
}

static void identity_run(const struct gr_node *n, const struct gr_tensor *in, struct gr_tensor *out,
                         struct gr_run *r)
{
    op_pass(&in[0], out);
}

const struct gr_type op_identity = { .name = "identity",
                                     .nin = 1,
                                     .inplace_of = 0,
                                     .infer = identity_infer,
                                     .grad = pass_back,
                                     .run = identity_run };
