"""Whole numbers in the rows of a loop, which are float64: from 2^53 on, two of them may become one."""

from __future__ import annotations

import numpy as np

from riprap.codec.errors import DataError

EXACT_BELOW = 2**53
"""All smaller whole numbers are different ones as float64."""


def check_exact(numbers: np.ndarray, called: str) -> None:
    """DataError for a number, of what they are `called`, that may stand for another one."""
    beyond = (numbers >= EXACT_BELOW) | (numbers <= -EXACT_BELOW)
    if beyond.any():
        raise DataError(
            f"{called} {numbers[beyond].flat[0]} is not between -2^53 and 2^53 ({EXACT_BELOW}): in the rows of a loop,"
            " which are float64, it may become one with another",
            "Number keys from 0; send as float64 what need not be exact.",
        )
