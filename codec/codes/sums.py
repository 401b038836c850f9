"""Sums of blocks times coefficients, grown block by block: what encoding and decoding have in common."""

from __future__ import annotations

import math

import numpy as np

from codec.codes._kernels import Matrix, aligned_empty

_BYTE = np.dtype(np.uint8)


class Sums:
    """The rows of `matrix` times a column of blocks that arrive one by one or all at once.

    Invariant: bytes [0, filled) of every output hold the sum of the blocks so far, the others are uninitialised and
    stand for zeros. So the first block is written, not added to zeros. Not thread-safe.
    """

    __slots__ = ("_dtype", "_filled", "_matrix", "_outputs", "_shape", "_size")

    def __init__(self, matrix: Matrix, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._matrix = matrix
        self._shape = shape
        self._dtype = dtype
        self._size = math.prod(shape) * dtype.itemsize
        self._outputs = [aligned_empty((self._size,), _BYTE) for _ in range(matrix.rows)]
        self._filled = 0

    def add(self, column: int, block: np.ndarray) -> None:
        """Add this column's block; a shorter one than the outputs counts as padded with zeros."""
        size, filled = block.nbytes, self._filled
        if self._outputs and size:
            if filled:
                self._matrix.combine(self._outputs, [block], column, 0, min(size, filled), True)
            if size > filled:
                self._matrix.combine(self._outputs, [block], column, filled, size, False)
                self._filled = size

    def add_all(self, blocks: list[np.ndarray]) -> None:
        """Add the blocks of all columns, to nothing: in one pass over memory if they are of full size."""
        if any(block.nbytes != self._size for block in blocks):
            for column, block in enumerate(blocks):
                self.add(column, block)
        elif self._outputs and self._size:
            self._matrix.combine(self._outputs, blocks, 0, 0, self._size, False)
            self._filled = self._size

    def finish(self) -> list[np.ndarray]:
        """The outputs, zeroed where no block reached."""
        if self._filled < self._size:
            for output in self._outputs:
                output[self._filled :] = 0
        return [np.ndarray(self._shape, self._dtype, output) for output in self._outputs]
