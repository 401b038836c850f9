/* The gradient of a logistic loss over dense items, and what of its window the last backup lacks. */
#ifndef RIPRAP_DENSE_H
#define RIPRAP_DENSE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { DENSE_LANES = 4 };

typedef struct {
    size_t columns, label;
    const double *weights;    /* one a column, 0 for the label's, and the intercept */
    const double *saved;   /* the sum of the gradients at the last backup */
    double *total;            /* sum of the gradients, laid out like the weights */
    double items, loss, correct;
    double expected; /* items of the whole window; where it has more, so many */
    double tasks;    /* that have as many each */
    double distance; /* squared, of the sums, over the items of the window */
} dense_gradient;

static inline double dense_sum(const double *lanes) {
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* Four sums are kept, as one would wait for each addition. */
static inline double dense_margin(const dense_gradient *at, const double *item) {
    double lanes[DENSE_LANES] = {at->weights[at->columns], 0, 0, 0};
    for (size_t j = 0; j < at->columns; j++)
        lanes[j % DENSE_LANES] += at->weights[j] * item[j];
    return dense_sum(lanes);
}

static inline double dense_distance(const dense_gradient *at) {
    double lanes[DENSE_LANES] = {0, 0, 0, 0}, share = 1 / (at->tasks * fmax(fmax(at->items, at->expected), 1));
    for (size_t j = 0; j <= at->columns; j++) {
        double apart = (at->total[j] - at->saved[j]) * share;
        lanes[j % DENSE_LANES] += apart * apart;
    }
    return dense_sum(lanes);
}

static inline void dense_add(dense_gradient *at, const double *item) {
    double margin = dense_margin(at, item), label = item[at->label];
    double e = exp(-fabs(margin)), likely = margin >= 0 ? 1 / (1 + e) : e / (1 + e), wrong = likely - label;
    for (size_t j = 0; j < at->columns; j++)
        at->total[j] += wrong * item[j];
    at->total[at->label] = 0;
    at->total[at->columns] += wrong;
    at->items += 1;
    at->loss += log1p(e) + (margin > 0 ? margin : 0) - label * margin;
    at->correct += (margin > 0) == (label > 0.5);
}

/* Add the gradients of items first, first + 1, ...; the number of the first that is left. Stops behind the item that
 * makes the distance, with `apart` squared of the weights, exceed theta; it is not looked at when theta has no end. */
static inline size_t dense_add_items(dense_gradient *at, const double *items, size_t first, size_t stop, double apart,
                                     double theta) {
    size_t i = first;
    while (i < stop) {
        dense_add(at, items + i++ * at->columns);
        if (isfinite(theta) && sqrt(dense_distance(at) + apart) > theta)
            break;
    }
    at->distance = dense_distance(at);
    return i;
}

#endif
