"""Step of each weight of a linear model for a unit of gradient, found from a sample of the items.

The second moments of the features, times the largest curvature of the loss, are nowhere less curved than the loss
itself (Boehning and Lindsay, Monotonicity of quadratic-approximation algorithms, 1988), so that steps by their inverse
need no size of the user's, whatever the scales of the features are and however they depend on one another.
All is calculated element by element, without BLAS: the same bits on every host.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable

import numpy as np

FULL_MAX = 128
"""More weights than this get a diagonal matrix: the message to the workers grows with the number of its entries."""
WORK_MAX = 1 << 27
"""The most multiplications, some tenths of a second: of a wide item fewer are looked at."""
DAMPING = 1e-3
"""The share of the diagonal that is added to it: the inverse magnifies no direction by more than its reciprocal."""
ITEMS_PER_WEIGHT = 30
"""A mean gradient of fewer items is mostly noise; a step along it is shorter."""
LEAST_SQUARE = 1e-300
"""The reciprocal of a smaller one may be infinite."""
POWER_STEPS = 20


def second_moments(blocks: Iterable[np.ndarray], features: Iterable[int]) -> np.ndarray:
    """Mean products of the features, and of a 1 behind them, over rows of items (without those that are not finite).

    A symmetric matrix; for more than FULL_MAX weights the diagonal of a matrix that is nowhere less curved. The entry
    of a feature that is the same in all rows, or whose squares float64 cannot hold, is infinite: how far its weight may
    move is not known.
    """
    columns = list(features)
    parts = [np.column_stack([block[:, columns], np.ones(len(block))]) for block in blocks]
    rows = np.concatenate(parts) if parts else np.empty((0, len(columns) + 1))
    rows = rows[np.isfinite(rows).all(axis=1)]
    weights = len(columns) + 1
    full = weights <= FULL_MAX
    most = max(WORK_MAX // (weights * (weights if full else POWER_STEPS)), 4 * weights)
    rows = rows[:: max(1, -(-len(rows) // most))]
    if not len(rows):
        return np.eye(weights) if full else np.ones(weights)
    squares = np.square(rows).sum(axis=0) / len(rows)
    constant = (squares < LEAST_SQUARE) | (rows == rows[0]).all(axis=0)
    constant[-1] = False
    if full:
        moments = np.stack([(rows * rows[:, i : i + 1]).sum(axis=0) for i in range(weights)]) / len(rows)
        moments[constant] = moments[:, constant] = 0.0
        moments[constant, constant] = np.inf
        return moments
    squares *= _largest_eigenvalue(rows / np.sqrt(np.where(squares > 0, squares, 1.0)))
    return np.where(constant, np.inf, squares)


def constant_features(moments: np.ndarray) -> list[int]:
    """The features that are the same in all rows that the moments are of."""
    return np.flatnonzero(np.isinf(_diagonal(moments))).tolist()


def packed_moments(moments: np.ndarray) -> str:
    """Second moments as a short text, which a schema may hold."""
    values = moments if moments.ndim == 1 else moments[np.triu_indices(len(moments))]
    return f"{moments.ndim}:{base64.b64encode(values.astype('<f8').tobytes()).decode()}"


def unpacked_moments(text: str | None) -> np.ndarray | None:
    """The moments that `packed_moments` made the text of; None for None."""
    if text is None:
        return None
    values = np.frombuffer(base64.b64decode(text[2:]), "<f8")
    if text[0] == "1":
        return values
    weights = math.isqrt(2 * len(values))
    moments = np.zeros((weights, weights))
    moments[np.triu_indices(weights)] = values
    return moments + np.triu(moments, 1).T


def inverse(moments: np.ndarray, l2: float, curvature: float, intercept: bool = True) -> np.ndarray:
    """The inverse of curvature * moments, with l2 on the diagonal except an intercept's: a matrix, or a diagonal.

    It is 0 for a feature that is the same in all rows, whose weight so stays as it is.
    """
    added = DAMPING * curvature * _diagonal(moments)
    added[: len(added) - intercept] += l2
    if moments.ndim == 1:
        return 1.0 / (curvature * moments + added)
    varies = np.flatnonzero(np.isfinite(added))
    found = np.zeros_like(moments)
    found[np.ix_(varies, varies)] = _inverse((curvature * moments + np.diag(added))[np.ix_(varies, varies)])
    return found


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A symmetric matrix, or a diagonal one, times a vector."""
    return matrix * vector if matrix.ndim == 1 else (matrix * vector[:, np.newaxis]).sum(axis=0)


def step_size(items: float, weights: int, epoch: int) -> float:
    """The part of a whole step taken in an epoch (from 1): all at first, less with time and where items are few."""
    return math.sqrt(min(1.0, items / (ITEMS_PER_WEIGHT * weights)) / epoch)


def _diagonal(moments: np.ndarray) -> np.ndarray:
    return moments if moments.ndim == 1 else moments.diagonal()


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a positive definite matrix, by Gauss-Jordan elimination in place, scaled to a diagonal of 1."""
    roots = np.sqrt(matrix.diagonal())
    found = matrix / roots / roots[:, np.newaxis]
    for i in range(len(found)):
        pivot, row = found[i, i], found[i].copy() / found[i, i]
        column = found[:, i].copy()
        found -= column[:, np.newaxis] * row
        found[i], found[:, i] = row, -column / pivot
        found[i, i] = 1.0 / pivot
    return (found + found.T) / 2 / roots / roots[:, np.newaxis]


def _largest_eigenvalue(rows: np.ndarray) -> float:
    """The largest eigenvalue of the second moments of rows of mean square 1, or a little more, by the power method."""
    vector, value = np.ones(rows.shape[1]), 1.0
    for _ in range(POWER_STEPS):
        along = (rows * vector).sum(axis=1)
        image = (rows * along[:, np.newaxis]).sum(axis=0) / len(rows)
        value = math.sqrt(float(np.square(image).sum() / np.square(vector).sum()))
        vector = image / value
    return 1.1 * value
