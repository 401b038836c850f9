"""Sums of blocks times coefficients, grown block by block: what encoding and decoding have in common."""

from __future__ import annotations

import numpy as np

from codec.codes._kernels import Matrix, aligned_empty


class Sums:
    """The rows of `matrix` times a column of blocks that arrive one by one or all at once.

    Invariant: bytes [0, filled) of every output hold the sum of the blocks so far, the others are uninitialised and
    stand for zeros. So the first block is written, not added to zeros. Not thread-safe.
    """

    __slots__ = ("_filled", "_flat", "_matrix", "_outputs")

    def __init__(self, matrix: Matrix, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._matrix = matrix
        self._outputs = [aligned_empty(shape, dtype) for _ in range(matrix.rows)]
        self._flat = [flat(output) for output in self._outputs]
        self._filled = 0

    def add(self, column: int, block: np.ndarray) -> None:
        """Add this column's block; a shorter one than the outputs counts as padded with zeros."""
        size, filled = block.nbytes, self._filled
        if self._outputs and size:
            source = [flat(block)]
            if filled:
                self._matrix.combine(self._flat, source, column, 0, min(size, filled), True)
            if size > filled:
                self._matrix.combine(self._flat, source, column, filled, size, False)
                self._filled = size

    def add_all(self, blocks: list[np.ndarray]) -> None:
        """Add the blocks of all columns, to nothing: in one pass over memory if they are of one size."""
        size = blocks[0].nbytes
        if any(block.nbytes != size for block in blocks):
            for column, block in enumerate(blocks):
                self.add(column, block)
        elif self._outputs and size:
            self._matrix.combine(self._flat, [flat(block) for block in blocks], 0, 0, size, False)
            self._filled = size

    def finish(self) -> list[np.ndarray]:
        """The outputs, zeroed where no block reached."""
        for output in self._flat:
            output[self._filled :] = 0
        return self._outputs


def flat(block: np.ndarray) -> np.ndarray:
    """The block's bytes in C order: a view, or a copy of what is not contiguous."""
    if not block.nbytes:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8)
