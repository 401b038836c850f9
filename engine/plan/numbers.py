"""Checks of numbers in the files that `riprap plan` reads."""

from __future__ import annotations

import math
from typing import Any


def is_rate(value: Any) -> bool:
    """True for a finite number that is not below 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def wrong_number(value: Any) -> str:
    """The expected form of a number above 0, or nothing where it is one."""
    return "" if is_rate(value) and value > 0 else "a finite number above 0"
