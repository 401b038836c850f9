/* Stochastic gradient descent on a logistic loss over sparse items, parameter by parameter with its last backup. */
#ifndef RIPRAP_SGD_H
#define RIPRAP_SGD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { UNSAVED = 1, UNREPORTED = 2 };

/* All that is known of a parameter stands in half a cache line. */
typedef struct {
    double value, saved, reported;
    uint64_t marks;
} sgd_parameter;

typedef struct {
    sgd_parameter *parameters;
    uint32_t *unsaved, *unreported; /* the marked parameters, in the order in which they were marked */
    size_t count, unsaved_count, unreported_count;
    double distance; /* squared, from the last backup */
    int64_t trained, tested, correct;
} sgd_model;

typedef struct {
    const char *labels, *indexes, *values;
    size_t stride, features;
} sparse_columns;

/* The columns' offsets in a record fit no alignment, so numbers are copied out. */
static inline uint32_t feature_index(const sparse_columns *rows, size_t row, size_t feature) {
    uint32_t index;
    memcpy(&index, rows->indexes + row * rows->stride + feature * sizeof index, sizeof index);
    return index;
}

static inline double feature_value(const sparse_columns *rows, size_t row, size_t feature) {
    float value;
    memcpy(&value, rows->values + row * rows->stride + feature * sizeof value, sizeof value);
    return value;
}

static inline void sgd_mark(sgd_model *model, uint32_t index) {
    sgd_parameter *at = model->parameters + index;
    if (!(at->marks & UNSAVED))
        model->unsaved[model->unsaved_count++] = index;
    if (!(at->marks & UNREPORTED))
        model->unreported[model->unreported_count++] = index;
    at->marks = UNSAVED | UNREPORTED;
}

static inline void sgd_set(sgd_model *model, uint32_t index, double value) {
    sgd_parameter *at = model->parameters + index;
    double before = at->value - at->saved, after = value - at->saved;
    model->distance += after * after - before * before;
    at->value = value;
    sgd_mark(model, index);
}

static inline double sgd_divergence(const sgd_model *model) {
    return model->distance > 0 ? sqrt(model->distance) : 0;
}

/* Train on an item; 0, or -1 when it has an index that is none of a parameter (then it was not trained on). */
static inline int sgd_step(sgd_model *model, const sparse_columns *rows, size_t row, double eta, int64_t holdout) {
    double score = 0;
    for (size_t j = 0; j < rows->features; j++) {
        uint32_t index = feature_index(rows, row, j);
        if (index >= model->count)
            return -1;
        score += model->parameters[index].value * feature_value(rows, row, j);
    }
    float label;
    memcpy(&label, rows->labels + row * rows->stride, sizeof label);
    model->trained++;
    if (holdout && model->trained % holdout == 0) {
        model->tested++;
        model->correct += (score > 0) == (label > 0);
    }
    double step = eta / sqrt((double)model->trained) * (label - 1 / (1 + exp(-score)));
    for (size_t j = 0; j < rows->features; j++) {
        uint32_t index = feature_index(rows, row, j);
        sgd_set(model, index, model->parameters[index].value + step * feature_value(rows, row, j));
    }
    return 0;
}

/* Train on items first, first + 1, ...; the number of the first that is left, or -1 - the number of a bad one. Stops
 * behind the item that makes the divergence exceed theta. */
static inline ptrdiff_t sgd_train(sgd_model *model, sparse_columns rows, size_t first, size_t stop, double eta,
                                  int64_t holdout, double theta) {
    enum { AHEAD = 4 };
    for (size_t i = first; i < stop; i++) {
        if (i + AHEAD < stop)
            for (size_t j = 0; j < rows.features; j++)
                __builtin_prefetch(model->parameters + feature_index(&rows, i + AHEAD, j), 1);
        if (sgd_step(model, &rows, i, eta, holdout))
            return -1 - (ptrdiff_t)i;
        if (sgd_divergence(model) > theta)
            return (ptrdiff_t)i + 1;
    }
    return (ptrdiff_t)stop;
}

/* Take in what all models agreed on, and keep what was learned since the last report. */
static inline void sgd_merge(sgd_model *model, const uint32_t *indexes, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sgd_parameter *at = model->parameters + indexes[i];
        double since = at->value - at->reported;
        uint64_t unreported = at->marks & UNREPORTED;
        at->marks |= UNREPORTED; /* what came from there need not be reported */
        sgd_set(model, indexes[i], values[i] + since);
        at->marks = UNSAVED | unreported;
        at->reported = values[i];
    }
}

/* Put the unreported parameters into indexes and values, and have them reported. */
static inline void sgd_report(sgd_model *model, uint32_t *indexes, double *values) {
    for (size_t i = 0; i < model->unreported_count; i++) {
        sgd_parameter *at = model->parameters + model->unreported[i];
        indexes[i] = model->unreported[i];
        values[i] = at->reported = at->value;
        at->marks &= ~(uint64_t)UNREPORTED;
    }
    model->unreported_count = 0;
}

/* Put the unreported parameters, and what was reported of them, into indexes and reported. */
static inline void sgd_unreported(const sgd_model *model, uint32_t *indexes, double *reported) {
    for (size_t i = 0; i < model->unreported_count; i++) {
        indexes[i] = model->unreported[i];
        reported[i] = model->parameters[model->unreported[i]].reported;
    }
}

/* Let these parameters alone be unreported; the values of all others were reported. */
static inline void sgd_unreport(sgd_model *model, const uint32_t *indexes, const double *reported, size_t count) {
    for (size_t i = 0; i < model->unreported_count; i++) {
        sgd_parameter *at = model->parameters + model->unreported[i];
        at->reported = at->value;
        at->marks &= ~(uint64_t)UNREPORTED;
    }
    model->unreported_count = 0;
    for (size_t i = 0; i < count; i++) {
        sgd_parameter *at = model->parameters + indexes[i];
        at->reported = reported[i];
        if (!(at->marks & UNREPORTED)) /* one that stands there twice has one place */
            model->unreported[model->unreported_count++] = indexes[i];
        at->marks |= UNREPORTED;
    }
}

/* Put the unsaved parameters into indexes and values, and have them saved. */
static inline void sgd_save(sgd_model *model, uint32_t *indexes, double *values) {
    for (size_t i = 0; i < model->unsaved_count; i++) {
        sgd_parameter *at = model->parameters + model->unsaved[i];
        indexes[i] = model->unsaved[i];
        values[i] = at->saved = at->value;
        at->marks &= ~(uint64_t)UNSAVED;
    }
    model->unsaved_count = 0;
    model->distance = 0;
}

/* Values from a backup; they are saved, but not reported unless `sgd_unreport` says so. */
static inline void sgd_load(sgd_model *model, const uint32_t *indexes, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sgd_set(model, indexes[i], values[i]);
        model->parameters[indexes[i]].saved = values[i];
        model->parameters[indexes[i]].reported = values[i];
        model->parameters[indexes[i]].marks &= ~(uint64_t)UNSAVED;
    }
    model->unsaved_count = 0;
    model->distance = 0;
}

#endif
