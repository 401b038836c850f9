"""Checks of numbers in the files that `riprap plan` reads."""

from __future__ import annotations

import sys
from typing import Any


def is_rate(value: Any) -> bool:
    """True for a number that is not below 0, and none that a float cannot hold: YAML's integers have no end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def wrong_number(value: Any) -> str:
    """The expected form of a number above 0, or nothing where it is one."""
    return "" if is_rate(value) and value > 0 else "a finite number above 0"
