"""Tries that a processor's `process_linear` is linear, before a job relies on it.

Under hybrid coded computation it is called with parity, sums of items times coefficients, and its results are decoded
as if they were items (LEC III-D). A linear part that is not linear would go unnoticed until a processor is lost, and
then give wrong results; so it is tried on items of the job, random rows, and combinations of them as codes make.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.operators.base import Processor
from riprap.operators.returns import defined_at

TOLERANCE = 1e-9
"""The error allowed, as a part of the summed magnitudes. A sum of 10,000 is off by 1e-12, single precision by 1e-7."""

SCALES = (1.0, 2.0, 4.0, 2.0**20, 2.0**-20, 2.0**40, 0.0, -1.0, 1.0 / 3.0)
"""Coefficients: powers of two as the codes', far ones to show what is small on the items, and others."""

RANDOM_ROWS = 16
ROWS_ALONE = 8

_SPLIT = "Move whatever is not linear (clipping, norms, products of columns) into process_nonlinear."


def check_linear(processor: Processor, sample: np.ndarray) -> None:
    """Try `processor.process_linear` (of an opened processor) on a sample of items (rows, columns).

    ConfigError names the class, the place of its process_linear, the property that does not hold and by what numbers.
    Rows with values that are not finite are left out.
    """
    generator = np.random.default_rng(0)
    rows = sample[np.isfinite(sample).all(axis=1)]
    rows = np.concatenate([rows, generator.standard_normal((RANDOM_ROWS, sample.shape[1]))])
    trial = _Trial(processor)
    trial.nothing(sample.shape[1])
    trial.rows_alone(rows, generator)
    trial.combinations(rows, generator)


class _Trial:
    """The properties of a linear map of rows, tried one after the other."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._width: int | None = None

    def nothing(self, columns: int) -> None:
        """f(0) = 0, exactly."""
        result = self._call(np.zeros((2, columns)))
        if result.any():
            value = result.flat[np.flatnonzero(result)[0]]
            self._refuse(f"f(0) is {value:g}, not 0", "Move the intercept into process_nonlinear.")

    def rows_alone(self, rows: np.ndarray, generator: np.random.Generator) -> None:
        """A row's result is the same alone as among others."""
        whole = self._call(rows)
        bound = self._bound(rows)
        for index in generator.choice(len(rows), min(ROWS_ALONE, len(rows)), replace=False):
            self._compare(
                self._call(rows[index : index + 1]),
                whole[index : index + 1],
                bound[index : index + 1],
                "a row alone and among others",
                "Compute the result of each row from that row only.",
            )

    def combinations(self, rows: np.ndarray, generator: np.random.Generator) -> None:
        """f(a x + b y) = a f(x) + b f(y)."""
        for a in (*SCALES, *generator.standard_normal(4)):
            others = rows[generator.permutation(len(rows))]
            for b in (0.0, float(generator.choice(SCALES)), float(generator.standard_normal())):
                expected = a * self._call(rows) + b * self._call(others)
                bound = self._bound(a * rows) + self._bound(b * others)
                what = f"f(a x + b y) and a f(x) + b f(y), with a = {a:g}, b = {b:g},"
                self._compare(self._call(a * rows + b * others), expected, bound, what, _SPLIT)

    def _bound(self, rows: np.ndarray) -> np.ndarray:
        """Size of the results' terms: |x| |M|, where M is what f makes of unit vectors."""
        gains = np.abs(self._call(np.eye(rows.shape[1])))
        return np.asarray(np.abs(rows) @ gains)

    def _call(self, items: np.ndarray) -> np.ndarray:
        items = np.ascontiguousarray(items)
        items.flags.writeable = False
        try:
            result = self._processor.process_linear(items)
        except Exception as error:
            self._refuse(
                f"a combination of items makes it raise {type(error).__name__}: {error}",
                "Accept every value: parity is no item, only a sum of items.",
            )
        self._check_form(result, len(items))
        return result

    def _check_form(self, result: object, rows: int) -> None:
        if isinstance(result, np.ndarray) and result.ndim == 2 and self._width is None:
            self._width = result.shape[1]
        dtype, shape = getattr(result, "dtype", type(result).__name__), getattr(result, "shape", ())
        if dtype != np.dtype(np.float64) or shape != (rows, self._width):
            self._refuse(
                f"of {rows} rows it returns {dtype} of shape {shape}",
                "Return a matrix of float64 with a row per item, and always as many columns.",
            )

    def _compare(self, found: np.ndarray, expected: np.ndarray, bound: np.ndarray, what: str, remedy: str) -> None:
        wrong = ~(np.abs(found - expected) <= TOLERANCE * bound)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            numbers = f"{found[row, column]:.17g} and {expected[row, column]:.17g}"
            self._refuse(f"{what} differ: {numbers} in column {column} of the result", remedy)

    def _refuse(self, reason: str, remedy: str) -> NoReturn:
        kind = type(self._processor)
        name = f"{kind.__module__}:{kind.__name__}"
        place = defined_at(kind, "process_linear")
        raise ConfigError(f"process_linear of {name} ({place}) is not linear: {reason}", remedy)
