/*
 * softmax.c - the loss of a classifier. A row is shifted by its largest element, so that no
 * exponential overflows; exponentials and sums are in double: the rows are short next to the
 * products before them.
 */
#include "kernels/kn.h"

#include <math.h>

struct row {
    float max;
    double sum; /* of exp(x[c] - max) */
};

/* A NaN anywhere in the row makes sum NaN. */
static struct row row_of(const float *x, size_t cols)
{
    struct row row = { .max = x[0] };

    for (size_t c = 1; c < cols; c++)
        if (x[c] > row.max)
            row.max = x[c];
    for (size_t c = 0; c < cols; c++)
        row.sum += exp((double)x[c] - (double)row.max);
    return row;
}

void kn_softmax_xent(float *loss, const float *x, const int32_t *label, size_t rows, size_t cols)
{
    double total = 0.0;

    for (size_t r = 0; r < rows; r++) {
        const float *xr = x + r * cols;
        const struct row row = row_of(xr, cols);

        total += log(row.sum) - ((double)xr[label[r]] - (double)row.max);
    }
    loss[0] = (float)total;
}

void kn_softmax_xent_grad(float *dx, const float *x, const int32_t *label, float dloss, size_t rows,
                          size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        const float *xr = x + r * cols;
        const struct row row = row_of(xr, cols);
        const size_t right = (size_t)label[r];

        for (size_t c = 0; c < cols; c++) {
            const double p = exp((double)xr[c] - (double)row.max) / row.sum;

            dx[r * cols + c] = (float)((double)dloss * (p - (c == right ? 1.0 : 0.0)));
        }
    }
}

/* Written with comparisons that must hold, so that a row with a NaN is never correct. */
static bool first_largest_at(const float *x, size_t at, size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        if (c != at && !(c < at ? x[at] > x[c] : x[at] >= x[c]))
            return false;
    return x[at] == x[at];
}

size_t kn_count_correct(const float *x, const int32_t *label, size_t rows, size_t cols)
{
    size_t correct = 0;

    for (size_t r = 0; r < rows; r++)
        correct += first_largest_at(x + r * cols, (size_t)label[r], cols);
    return correct;
}
