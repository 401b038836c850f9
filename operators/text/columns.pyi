"""Kernels that take the columns of lines apart, and read numbers; whatever is not plainly so is left to the caller.

A block of lines is a pair of bytes (uint8, without line ends) and n + 1 offsets (int64) that never go back. All return
None where anything is odd, so the caller, who is slower, can say what, and may where there are no bytes.
"""

import numpy as np

_Lines = tuple[np.ndarray, np.ndarray]

def column(data: np.ndarray, offsets: np.ndarray, separator: bytes, number: int) -> _Lines | None:
    """A column of each line, the first being 0, as such a pair. None where a line has none, and for a separator that is
    not one byte."""

def words(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The words between spaces, as such a pair, and how many of them each line has (n, int64)."""

def whole_numbers(data: np.ndarray, offsets: np.ndarray) -> np.ndarray | None:
    """The number in each line (n, int64): up to 18 digits, perhaps behind a minus."""

def numbers(data: np.ndarray, offsets: np.ndarray) -> np.ndarray | None:
    """The decimal number in each line (n, float64), rounded correctly; neither NaN nor infinity is one."""
