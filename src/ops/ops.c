#include "ops/ops.h"

#include <string.h>

const struct gr_type *const op_all[] = {
    &op_add,
    &op_bias_add,
    &op_col_sum,
    &op_matmul,
    &op_relu,
    &op_relu_grad,
    &op_softmax_cross_entropy,
    &op_softmax_cross_entropy_grad,
    NULL,
};

const struct gr_type *op_find(const char *name)
{
    for (const struct gr_type *const *t = op_all; *t != NULL; t++)
        if (strcmp((*t)->name, name) == 0)
            return *t;
    return NULL;
}
