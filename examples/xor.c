/*
 * A network of two layers learns "one or the other, not both", with verbena as a library:
 *
 *   cc examples/xor.c $(pkg-config --cflags --libs verbena) -o xor && ./xor
 *
 * The graph has the loss, its gradients and the update of the variables; a run is a step.
 */
#include <verbena/ops.h>
#include <verbena/session.h>

#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 8, STEPS = 2000 };

/* A weight's first values: anything that is not the same for all. */
static struct vb_node *weight(struct vb_graph *g, const char *name, uint64_t rows, uint64_t cols)
{
    float w[64];

    for (uint64_t i = 0; i < rows * cols; i++)
        w[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    return vb_variable(g, name, VB_SHAPE(rows, cols), w);
}

int main(void)
{
    float x_data[] = { 0, 0, 0, 1, 1, 0, 1, 1 };
    int32_t label_data[] = { 0, 1, 1, 0 };
    struct vb_graph *g = vb_graph_new();
    struct vb_node *x = vb_placeholder(g, "x", VB_F32, VB_SHAPE(VB_BATCH, 2));
    struct vb_node *labels = vb_placeholder(g, "labels", VB_I32, VB_SHAPE(VB_BATCH));
    struct vb_node *var[] = { weight(g, "w1", 2, HIDDEN),
                              vb_variable(g, "b1", VB_SHAPE(HIDDEN), NULL),
                              weight(g, "w2", HIDDEN, 2), vb_variable(g, "b2", VB_SHAPE(2), NULL) };
    struct vb_node *h = vb_tanh(g, vb_add(g, vb_matmul(g, x, var[0]), var[1]));
    struct vb_node *logits = vb_add(g, vb_matmul(g, h, var[2]), var[3]);
    struct vb_node *loss = vb_softmax_cross_entropy(g, logits, labels), *grad[4],
                   *step[5] = { loss };
    struct vb_session *s = NULL;
    struct vb_error err;
    struct vb_tensor out[5], p;
    const char *why;

    vb_gradients(g, loss, var, 4, grad);
    for (int i = 0; i < 4; i++)
        step[1 + i] = vb_assign_sub(g, var[i], vb_scale(g, grad[i], 0.1, 0));
    struct vb_node *probability = vb_softmax(g, logits);

    if (vb_graph_status(g, &why) != VB_OK) {
        fprintf(stderr, "the graph: %s\n", why);
        return 1;
    }
    if (vb_session_open(NULL, g, &s, &err) != VB_OK) {
        fprintf(stderr, "the session: %s\n", err.text);
        return 1;
    }
    const struct vb_feed feed[] = { { x, { VB_F32, VB_SHAPE(4, 2), x_data } },
                                    { labels, { VB_I32, VB_SHAPE(4), label_data } } };

    for (int i = 0; i < STEPS; i++)
        if (vb_run(s, feed, 2, step, 5, out, &err) != VB_OK) {
            fprintf(stderr, "step %d: %s\n", i, err.text);
            return 1;
        }
    printf("loss after %d steps: %.4f\n", STEPS, (double)*(float *)out[0].data);
    if (vb_run(s, feed, 1, &probability, 1, &p, &err) != VB_OK)
        return 1;
    for (int i = 0; i < 4; i++)
        printf("%g xor %g: %.3f\n", (double)x_data[2 * i], (double)x_data[2 * i + 1],
               (double)((float *)p.data)[2 * i + 1]);
    vb_session_close(s);
    vb_graph_free(g);
    return 0;
}
