"""Medians, and 95 % confidence intervals of means by Student's t, as the paper gives them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantiles of Student's t for 1 to 10 degrees of freedom; beyond that 1.96 is near enough."""


class Summary(NamedTuple):
    """A summary of some runs: the median, and the half width of the mean's 95 % interval (0 for a single run)."""

    median: float
    half_width: float
    runs: tuple[float, ...]


def summarise(runs: Sequence[float]) -> Summary:
    """Median and confidence interval; ValueError without runs."""
    if not runs:
        raise ValueError("no runs")
    half = 0.0
    if len(runs) > 1:
        freedom = len(runs) - 1
        t = T_975[freedom - 1] if freedom <= len(T_975) else 1.96
        half = t * statistics.stdev(runs) / math.sqrt(len(runs))
    return Summary(statistics.median(runs), half, tuple(runs))
