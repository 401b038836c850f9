"""Incremental encoding: parity grows block by block while earlier blocks are on the wire (LEC III-C, Algorithm 1)."""

from __future__ import annotations

import numpy as np

from riprap.codec.codes._kernels import Coefficients, Sums


class Encoder:
    """Encodes one stripe row at a time: `update` for each data block, then `parity`, then `reset` for the next row.

    Made by `Code.encoder`. It keeps no reference to the data, and none to the parity after `reset`. Not thread-safe.
    """

    def __init__(self, matrix: Coefficients, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Parity blocks get `shape` and `dtype`; the columns of `matrix` are the data blocks."""
        self._matrix = matrix
        self._shape = shape
        self._dtype = dtype
        self.reset()

    def reset(self) -> None:
        """Begin the next row; the arrays that `parity` gave out are the caller's."""
        self._sums: Sums | None = None
        self._parity: list[np.ndarray] | None = None
        self._seen: set[int] = set()

    def update(self, s_index: int, array: np.ndarray) -> None:
        """Add data block `s_index`, in any order, each once per row.

        `array` may have fewer rows (axis 0) than the parity; the missing ones count as zeros. It may change afterwards.
        ValueError for another dtype or shape, an s_index that is not data, a second update of one, or after `parity`.
        """
        if self._parity is not None:
            raise ValueError("the parity of this row was given out; reset() the encoder before the next row")
        if not 0 <= s_index < self._matrix.columns:
            raise ValueError(f"s_index {s_index} is not a data block; expected 0 to {self._matrix.columns - 1}")
        if s_index in self._seen:
            raise ValueError(f"data block {s_index} was encoded before in this row")
        check_fits(array, self._shape, self._dtype)
        if self._sums is None:
            self._sums = Sums(self._matrix, self._shape, self._dtype)
        self._sums.add(s_index, array)
        self._seen.add(s_index)

    def parity(self) -> list[np.ndarray]:
        """The r parity blocks of the row; data blocks that were not updated count as zeros."""
        if self._parity is None:
            self._parity = (self._sums or Sums(self._matrix, self._shape, self._dtype)).finish()
        return list(self._parity)


def check_fits(array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """ValueError unless `array` has this dtype and shape, or fewer rows along axis 0."""
    got = array.shape
    fits = got == shape or (len(got) == len(shape) and got[1:] == shape[1:] and got[0] <= shape[0])
    if not fits or array.dtype != dtype:
        raise ValueError(f"a block is {array.dtype}{got}; expected {dtype}{shape} or fewer rows")
