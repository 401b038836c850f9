"""The kernel of gradients over dense items that stops where a threshold is crossed (AF 6.2)."""

cdef extern from "dense.h" nogil:
    ctypedef struct dense_gradient:
        size_t columns, label
        const double *weights
        const double *saved
        double *total
        double items, loss, correct, expected, tasks, distance
    size_t dense_add_items(dense_gradient *at, const double *items, size_t first, size_t stop, double apart, double theta)


def add_gradients(const double[:, ::1] items, size_t first, size_t label, const double[::1] weights,
                  const double[::1] saved, double[::1] total, double[::1] tallies, double expected, double tasks,
                  double apart, double theta):
    """Add the gradients of items first, first + 1, ... to `total`; (the number of the first that is left, distance).

    `weights`: one a column, 0 for the label's, and the intercept; `saved` and `total` are laid out like them.
    `tallies`: items, loss and items on the right side, added to. The distance is the square of the Euclidean one of the
    mean gradient of a window of `tasks` times `expected` items (or as many as there are) from what it would be with
    `saved`. Stops behind the item at which the root of distance + `apart` exceeds theta.
    ValueError when shapes do not fit.
    """
    cdef dense_gradient at
    cdef size_t stop = items.shape[0], left
    cdef Py_ssize_t columns = items.shape[1]
    if not weights.shape[0] == saved.shape[0] == total.shape[0] == columns + 1 or tallies.shape[0] != 3:
        raise ValueError(f"items of {columns} columns and weights for {weights.shape[0] - 1}")
    if label >= <size_t>columns or first >= stop:
        raise ValueError(f"no column {label} among {columns}, or no item {first} among {stop}")
    at.columns, at.label = columns, label
    at.weights, at.saved, at.total = &weights[0], &saved[0], &total[0]
    at.items, at.loss, at.correct, at.expected = tallies[0], tallies[1], tallies[2], expected
    at.tasks = tasks
    with nogil:
        left = dense_add_items(&at, &items[0, 0], first, stop, apart, theta)
    tallies[0], tallies[1], tallies[2] = at.items, at.loss, at.correct
    return left, at.distance
