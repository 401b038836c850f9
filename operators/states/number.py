"""A numeric variable with built-in fault tolerance (AF Table 8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from riprap.operators.states.checks import column
from riprap.operators.states.vector import ArrayState


class Number(ArrayState):
    """A float64, 0 at first; its divergence is the difference from the last backup, and all backups are full."""

    DIVERGENCES = ("difference",)

    def __init__(self, divergence: str = "difference") -> None:
        super().__init__((1,), divergence)

    @property
    def value(self) -> float:
        """The number."""
        return float(self._cells.values[0])

    def entries(self) -> tuple[np.ndarray, ...]:
        """The arguments of which `add` makes the same number."""
        return (self._cells.values.copy(),)

    def add(self, amounts: Any) -> int:  # type: ignore[override]
        """Add amounts, one item each; returns the number applied: up to and with the one that exceeds theta."""
        return self._cells.update(None, column(amounts, np.float64, "amounts"), self.theta, False)

    def assign(self, values: Any) -> int:  # type: ignore[override]
        """Take on one value after the other; else as `add`."""
        return self._cells.update(None, column(values, np.float64, "values"), self.theta, True)
