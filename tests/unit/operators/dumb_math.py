"""The kernels' arithmetic once more, in plain NumPy and in the same order of operations: slow, short, bit for bit."""

from __future__ import annotations

import numpy as np

LANES = 4
CHUNK = 64


def spread(row: np.ndarray) -> tuple[list[slice], np.ndarray]:
    """The groups of four columns that a row is read as, and the row in them, 0 in lanes that occur twice."""
    columns = len(row)
    starts = [min(first, columns - LANES) for first in range(0, columns, LANES)]
    groups = np.array([row[start : start + LANES] for start in starts])
    if columns % LANES:
        groups[-1, : LANES - columns % LANES] = 0.0
    return [slice(start, start + LANES) for start in starts], groups


def widen(matrix: np.ndarray) -> np.ndarray:
    """Rows of at least four columns."""
    missing = max(0, LANES - matrix.shape[1])
    return np.pad(matrix, [(0, 0), (0, missing)])


def dots(items: np.ndarray, row: np.ndarray, constant: float) -> np.ndarray:
    """items @ row + constant, summed per lane and then across lanes."""
    lanes = np.zeros((len(items), LANES))
    for columns, group in zip(*spread(row)):
        lanes += items[:, columns] * group
    return (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3]) + constant


def chunked_sum(rows: np.ndarray) -> np.ndarray:
    """Sum over the first axis, row by row in chunks."""
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), CHUNK):
        part = np.zeros(rows.shape[1])
        for row in rows[start : start + CHUNK]:
            part += row
        total += part
    return total


def residual_sum(residuals: np.ndarray) -> float:
    """Sum of residuals, per lane within a chunk."""
    total = 0.0
    for start in range(0, len(residuals), CHUNK):
        part = residuals[start : start + CHUNK]
        lanes = np.zeros(LANES)
        for group in np.pad(part, (0, -len(part) % LANES)).reshape(-1, LANES):
            lanes += group
        total += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    return total


def exp_nonpositive(x: np.ndarray) -> np.ndarray:
    """e to the x for x <= 0 by the kernel's polynomial."""
    x = np.where(x < -708.0, -708.0, x)
    n = np.rint(x * 1.4426950408889634)
    r = (x - n * float.fromhex("0x1.62e42fee00000p-1")) - n * float.fromhex("0x1.a39ef35793c76p-33")
    square, odd, even = r * r, np.full_like(x, 1.0 / 6227020800.0), np.full_like(x, 1.0 / 479001600.0)
    for of_odd, of_even in ((39916800, 3628800), (362880, 40320), (5040, 720), (120, 24), (6, 2), (1, 1)):
        odd, even = odd * square + 1.0 / of_odd, even * square + 1.0 / of_even
    power = odd * r + even
    return np.ldexp(power, n.astype(int))


def residuals(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The derivative of each loss by the margin."""
    if loss == "squared":
        return z - y
    if loss == "hinge":
        sign = np.where(y > 0.5, 1.0, -1.0)
        return np.where(1.0 - sign * z > 0, -sign, 0.0)
    e = exp_nonpositive(-np.abs(z))
    q = 1.0 / (1.0 + e)
    return np.where(z > 0, q, e * q) - np.where(y > 0.5, 1.0, 0.0)


def linear_gradient(loss: str, items: np.ndarray, state: np.ndarray, label: int) -> np.ndarray:
    """What `linear_result` returns first, to the last bit."""
    columns = items.shape[1]
    wide = widen(items)
    z = dots(wide, widen(state[np.newaxis, :-1])[0], state[-1])
    r = residuals(loss, z, items[:, label])
    gradient = chunked_sum(wide * r[:, np.newaxis])[:columns]
    gradient[label] = 0.0
    return np.append(gradient, residual_sum(r))


def nearest(items: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Index of each item's nearest centre, in the kernel's order of operations."""
    wide, wide_centres = widen(items), widen(centres)
    offsets = -0.5 * np.square(wide_centres).sum(axis=1)
    return np.stack([dots(wide, c, o) for c, o in zip(wide_centres, offsets)], axis=1).argmax(axis=1)
