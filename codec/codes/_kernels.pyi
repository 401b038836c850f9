"""The compiled kernels as Python sees them: matrices that combine blocks, aligned arrays, the instruction set."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

LEVELS: tuple[str, ...]
"""Instruction sets that a kernel may have a variant for, in rising order."""

def supported_levels() -> tuple[str, ...]:
    """The levels that this CPU runs, in rising order."""

def level() -> str:
    """The level in use: the highest supported one, unless forced."""

def force_level(name: str) -> None:
    """Use this level in all threads from now on, to compare the variants; ValueError if the CPU lacks it."""

def gf256_product(a: int, b: int) -> int:
    """The product of two elements of GF(2^8) with polynomial 0x11d, bit by bit; slow, for building tables."""

def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An uninitialised array at an address divisible by 64, whose memory is reused when the last view of it is gone."""

class Coefficients:
    """Compiled coefficients, rows x columns; immutable, so threads may share it."""

    rows: int
    columns: int

    def __init__(self, coefficients: ArrayLike) -> None: ...
    def combine(self, out: list[Any], inputs: list[Any], column: int, begin: int, end: int, add: bool) -> None:
        """Set bytes begin..end of out[j] to the sum over i of coefficient[j, column + i] * inputs[i]; `add` adds it.

        `out` are `rows` writable contiguous buffers, `inputs` at least one array (copied if it is not contiguous), all
        at least `end` bytes long (ValueError otherwise); no output overlaps another or an input. Runs without the GIL.
        """

class RealMatrix(Coefficients):
    """Multiplies and adds float64; sums are rounded term by term in the order of columns, the same at every level."""

class ByteMatrix(Coefficients):
    """Multiplies and adds bytes in GF(2^8) with polynomial 0x11d."""

class Sums:
    """The rows of a matrix times a column of blocks, shared by encoding and decoding. Not thread-safe.

    The first block is written to the outputs, not added to zeros. Bytes count, so the caller checks the shapes.
    """

    def __init__(
        self, matrix: Coefficients, shape: tuple[int, ...], dtype: np.dtype, outputs: list[np.ndarray] | None = None
    ) -> None:
        """The outputs, one for each row of the matrix, get this shape and dtype, in the memory of the arrays `outputs`
        if there are any. ValueError when these are of another number or size."""

    def add(self, column: int, block: np.ndarray) -> None:
        """Add this column's block; a shorter one than the outputs counts as padded with zeros.

        ValueError if it is longer.
        """

    def add_all(self, blocks: list[np.ndarray]) -> None:
        """Add one block of each column, in order: in one pass over memory if all are of full size."""

    def finish(self) -> list[np.ndarray]:
        """The outputs, zeroed where no block reached; aligned, and not shared once this object is gone."""
