"""The inner loops of the algorithms: one pass over a block, without the GIL, the same bits on every host.

Items are matrices of float64, one item a row, C-contiguous, at any address and perhaps read-only. Rows of fewer than four
columns are copied into rows of four.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "stdlib.h" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

cdef extern from "lanes.h" nogil:
    ctypedef struct v4d:
        pass
    enum: LANES
    size_t groups_of(size_t columns)
    void to_groups(const double *row, size_t columns, v4d *out)
    void from_groups(const v4d *groups, size_t columns, double *row)

cdef extern from "linear.h" nogil:
    enum:
        LOSS_SQUARED
        LOSS_LOGISTIC
        LOSS_HINGE
        STATS
    void linear_gradient(int loss, const char *items, size_t rows, size_t columns, size_t label, const v4d *weights,
                         double intercept, v4d *total, double *gradient, double *stats)

cdef extern from "kmeans.h" nogil:
    double kmeans_assign(const char *items, size_t rows, size_t columns, size_t k, const v4d *centres,
                         const double *offsets, const v4d *mask, v4d *sums, double *counts)

cdef extern from "linear_map.h" nogil:
    void linear_map_rows(const char *items, size_t rows, size_t columns, const v4d *weights, size_t models, char *out)

cdef extern from "activation.h" nogil:
    enum:
        ACTIVATE_LOGISTIC
        ACTIVATE_TANH
    void activate(int function, double *values, size_t count)

SQUARED = LOSS_SQUARED
LOGISTIC = LOSS_LOGISTIC
HINGE = LOSS_HINGE
STATISTICS = STATS

cdef class _Rows:
    """A block's bytes, held for the length of a call."""

    cdef Py_buffer view
    cdef readonly size_t rows, columns

    def __cinit__(self, items, size_t columns):
        if items.ndim != 2 or items.shape[1] != columns:
            raise ValueError(f"items must be a matrix of {columns} columns, not of shape {items.shape}")
        if columns < LANES:
            wide = np.zeros((items.shape[0], LANES))
            wide[:, :columns] = items
            items = wide
        elif items.dtype != np.float64 or not items.flags.c_contiguous:
            items = np.ascontiguousarray(items, dtype=np.float64)
        self.rows, self.columns = items.shape
        PyObject_GetBuffer(items, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef class _Groups:
    """Scratch memory: vectors of four, zeroed."""

    cdef v4d *at

    def __cinit__(self, size_t count):
        cdef size_t size = (count if count > 0 else 1) * sizeof(v4d)
        self.at = <v4d *>aligned_alloc(sizeof(v4d), size)
        if self.at is NULL:
            raise MemoryError
        memset(self.at, 0, size)

    def __dealloc__(self):
        free(self.at)


def linear_result(int loss, items, const double[::1] state, size_t label):
    """Gradient and statistics of a block under a linear model.

    `state`: a weight per column (0 for the label's) and the intercept. Returns the gradient of the summed loss, laid out
    like the state, and (items, loss, items on the right side of margin 0). `label`: the label's column.
    ValueError when shapes do not fit.
    """
    cdef size_t columns = state.shape[0] - 1
    cdef _Rows block = _Rows(items, columns)
    if label >= columns:
        raise ValueError(f"label column {label} of {columns}")
    cdef size_t wide = block.columns
    cdef double[LANES] narrow = [0.0, 0.0, 0.0, 0.0]
    cdef const double *weights = &state[0]
    if wide != columns:
        memcpy(narrow, weights, columns * sizeof(double))
        weights = narrow
    gradient = np.empty(wide + 1)
    stats = np.empty(STATS)
    cdef double[::1] gradient_view = gradient, stats_view = stats
    cdef size_t groups = groups_of(wide)
    cdef _Groups scratch = _Groups(2 * groups)
    with nogil:
        to_groups(weights, wide, scratch.at)
        linear_gradient(loss, <const char *>block.view.buf, block.rows, wide, label, scratch.at, state[columns],
                        scratch.at + groups, &gradient_view[0], &stats_view[0])
    if wide != columns:
        gradient = np.append(gradient[:columns], gradient[wide])
    return gradient, stats


def kmeans_result(items, const double[:, ::1] centres, features):
    """Sums (k, columns), counts (k,) and inertia of a block's items, each assigned to its nearest centre.

    `centres`: (k, columns). `features`: 1.0 for each column that counts, 0.0 for the others; centres must be 0 there, and
    the sums are. The lowest index wins a tie. ValueError when shapes do not fit.
    """
    cdef size_t k = centres.shape[0], columns = centres.shape[1]
    cdef _Rows block = _Rows(items, columns)
    cdef size_t wide = block.columns, groups = groups_of(wide), c
    padded = np.zeros((k + 1, wide))
    padded[:k, :columns] = centres
    padded[k, :columns] = features
    offsets = -0.5 * np.square(padded[:k]).sum(axis=1)
    cdef double[:, ::1] rows = padded
    cdef double[::1] offset_view = offsets
    sums = np.empty((k, wide))
    counts = np.zeros(k)
    cdef double[:, ::1] sum_view = sums
    cdef double[::1] count_view = counts
    cdef _Groups grouped = _Groups((k + 1) * groups), total = _Groups(k * groups)
    cdef double inertia
    with nogil:
        for c in range(k + 1):
            to_groups(&rows[c, 0], wide, grouped.at + c * groups)
        inertia = kmeans_assign(<const char *>block.view.buf, block.rows, wide, k, grouped.at, &offset_view[0],
                                grouped.at + k * groups, total.at, &count_view[0])
        for c in range(k):
            from_groups(total.at + c * groups, wide, &sum_view[c, 0])
    sums[:, padded[k] == 0.0] = 0.0
    return np.ascontiguousarray(sums[:, :columns]), counts, inertia


def linear_map(items, const double[:, ::1] weights):
    """Items times weights (columns, models): a matrix (rows, models), summed over the columns from first to last.

    An entry's bits depend on its item and its model alone, not on how many there are of either, unlike those of a
    matrix product of BLAS. ValueError when shapes do not fit.
    """
    cdef size_t columns = weights.shape[0], models = weights.shape[1], c
    cdef _Rows block = _Rows(items, columns)
    cdef size_t groups = groups_of(models)
    cdef _Groups grouped = _Groups(block.columns * groups)
    result = np.empty((block.rows, models))
    cdef double[:, ::1] out = result
    if block.rows == 0 or models == 0:
        return result
    with nogil:
        for c in range(columns):
            memcpy(grouped.at + c * groups, &weights[c, 0], models * sizeof(double))
        linear_map_rows(<const char *>block.view.buf, block.rows, block.columns, grouped.at, models, <char *>&out[0, 0])
    return result


def logistic(values):
    """1 / (1 + exp(-value)) of each value, in a new array; within a few units of the last place."""
    return _activated(ACTIVATE_LOGISTIC, values)


def tanh(values):
    """The hyperbolic tangent of each value, in a new array; exact to about 1e-16, absolutely."""
    return _activated(ACTIVATE_TANH, values)


cdef _activated(int function, values):
    result = np.array(values, dtype=np.float64, order="C")
    cdef double[::1] flat = result.reshape(-1)
    cdef size_t count = flat.shape[0]
    if count:
        with nogil:
            activate(function, &flat[0], count)
    return result
