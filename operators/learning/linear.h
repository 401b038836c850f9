/* Gradient, loss and hits of a linear model over a block of items, in one pass over memory.
 *
 * Per chunk of rows: margins, then what the loss makes of them, then the gradient; the chunk is in the cache for the
 * second reading. Sums run row by row within a chunk and chunk by chunk within the block, never otherwise.
 */
#ifndef RIPRAP_LINEAR_H
#define RIPRAP_LINEAR_H

#include <math.h>

#include "lanes.h"

enum { LOSS_SQUARED = 0, LOSS_LOGISTIC = 1, LOSS_HINGE = 2 };
enum { STAT_ITEMS = 0, STAT_LOSS = 1, STAT_CORRECT = 2, STATS = 3 };

typedef struct {
    v4d loss;
    v4d product; /* logistic: the product of (1 + e^-|z|), whose logarithm is part of the loss */
    v4d correct;
} Tally;

/* d loss / d margin. z: margins, y: labels; an item is positive when its label is above 0.5. */
INLINE v4d residual_squared(v4d z, v4d y, v4i real, Tally *tally)
{
    v4d residual = where4(real, z - y);
    tally->loss += residual * residual * 0.5;
    return residual;
}

INLINE v4d residual_logistic(v4d z, v4d y, v4i real, Tally *tally)
{
    v4i positive = y > 0.5;
    v4d e = exp_nonpositive(choose4(z > 0.0, -z, z));
    v4d q = 1.0 / (1.0 + e);
    v4d probability = choose4(z > 0.0, q, e * q);
    v4d wrong_by = choose4(positive, -z, z);
    tally->product *= choose4(real, 1.0 + e, all4(1.0));
    tally->loss += where4(real & (wrong_by > 0.0), wrong_by);
    tally->correct += where4(real & ((z > 0.0) == positive), all4(1.0));
    return where4(real, probability - where4(positive, all4(1.0)));
}

INLINE v4d residual_hinge(v4d z, v4d y, v4i real, Tally *tally)
{
    v4i positive = y > 0.5;
    v4d sign = choose4(positive, all4(1.0), all4(-1.0));
    v4d short_by = 1.0 - sign * z;
    v4i active = real & ~(short_by <= 0.0); /* a NaN counts as active, and shows */
    tally->loss += where4(active, short_by);
    tally->correct += where4(real & ((z > 0.0) == positive), all4(1.0));
    return where4(active, -sign);
}

/* Turns a chunk's margins into residuals in place, zeros behind the last row. */
INLINE void residuals(int loss, const char *items, size_t rows, size_t columns, size_t label, double *z, Tally *tally)
{
    double y[CHUNK];
    for (size_t r = 0; r < rows; r++)
        y[r] = load1(items + (r * columns + label) * sizeof(double));
    for (size_t r = rows; r % LANES; r++)
        z[r] = y[r] = 0.0;
    for (size_t r = 0; r < rows; r += LANES) {
        v4i real = (v4i){0, 1, 2, 3} < (int64_t)(rows - r);
        v4d zs = load4((const char *)(z + r)), ys = load4((const char *)(y + r)), out;
        if (loss == LOSS_LOGISTIC)
            out = residual_logistic(zs, ys, real, tally);
        else if (loss == LOSS_HINGE)
            out = residual_hinge(zs, ys, real, tally);
        else
            out = residual_squared(zs, ys, real, tally);
        *(v4d_anywhere *)(z + r) = (v4d_anywhere)out;
    }
}

/* total[first .. first + n) += the chunk's rows times their residuals, for n groups held in registers. */
INLINE void add_rows(const char *items, size_t rows, size_t columns, const double *residual, size_t first, size_t n,
                     v4d *total)
{
    size_t stride = columns * sizeof(double), at[4];
    v4d sums[4] = {{0}, {0}, {0}, {0}};
    for (size_t i = 0; i < n; i++)
        at[i] = group_start(first + i, columns) * sizeof(double);
    for (size_t r = 0; r < rows; r++) {
        const char *row = items + r * stride;
        v4d factor = all4(residual[r]);
        for (size_t i = 0; i < n; i++)
            sums[i] += load4(row + at[i]) * factor;
    }
    for (size_t i = 0; i < n; i++)
        total[first + i] += sums[i];
}

INLINE void add_gradient(const char *items, size_t rows, size_t columns, const double *residual, v4d *total)
{
    size_t groups = groups_of(columns), g = 0;
    for (; g + 4 <= groups; g += 4)
        add_rows(items, rows, columns, residual, g, 4, total);
    if (groups - g == 3)
        add_rows(items, rows, columns, residual, g, 3, total);
    else if (groups - g == 2)
        add_rows(items, rows, columns, residual, g, 2, total);
    else if (groups - g == 1)
        add_rows(items, rows, columns, residual, g, 1, total);
}

/* gradient[columns + 1] (the label's entry 0, the intercept's last) and stats[STATS] of `rows` items.
 * weights and total are scratch of groups_of(columns) vectors each, weights filled in, total zeroed. */
INLINE void linear_block(int loss, const char *items, size_t rows, size_t columns, size_t label, const v4d *weights,
                         double intercept, v4d *total, double *gradient, double *stats)
{
    Tally tally = {{0}, {0}, {0}};
    double z[CHUNK], residual_sum = 0.0, logs = 0.0;
    for (size_t start = 0; start < rows; start += CHUNK) {
        size_t n = rows - start < CHUNK ? rows - start : CHUNK;
        const char *chunk = items + start * columns * sizeof(double);
        tally.product = all4(1.0);
        dot_rows(chunk, n, columns, weights, intercept, z);
        residuals(loss, chunk, n, columns, label, z, &tally);
        add_gradient(chunk, n, columns, z, total);
        v4d sums = {0};
        for (size_t r = 0; r < n; r += LANES)
            sums += load4((const char *)(z + r));
        residual_sum += sum4(sums);
        if (loss == LOSS_LOGISTIC)
            logs += log((tally.product[0] * tally.product[1]) * (tally.product[2] * tally.product[3]));
    }
    from_groups(total, columns, gradient);
    gradient[label] = 0.0;
    gradient[columns] = residual_sum;
    stats[STAT_ITEMS] = (double)rows;
    stats[STAT_LOSS] = sum4(tally.loss) + logs;
    stats[STAT_CORRECT] = sum4(tally.correct);
}

/* One body per loss, so that the choice is made outside the loops. */
DISPATCH static void linear_gradient(int loss, const char *items, size_t rows, size_t columns, size_t label,
                                     const v4d *weights, double intercept, v4d *total, double *gradient, double *stats)
{
    if (loss == LOSS_LOGISTIC)
        linear_block(LOSS_LOGISTIC, items, rows, columns, label, weights, intercept, total, gradient, stats);
    else if (loss == LOSS_HINGE)
        linear_block(LOSS_HINGE, items, rows, columns, label, weights, intercept, total, gradient, stats);
    else
        linear_block(LOSS_SQUARED, items, rows, columns, label, weights, intercept, total, gradient, stats);
}

#endif
