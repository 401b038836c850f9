"""Losses of r of the k + r blocks of a stripe row, and the accuracy of a code after the worst of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from riprap.codec.codes.code import Code

PATTERNS_MIN, WORK_MAX = 50, 2e7
"""The fewest k x k systems looked at, and the work (k^3 each) that allows for more: half a second."""


def losses(k: int, r: int, patterns_max: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """The s_indexes of r lost blocks: all ways where they are at most `patterns_max`, else that many at random."""
    if comb(k + r, r) <= patterns_max:
        yield from combinations(range(k + r), r)
        return
    for _ in range(patterns_max):
        yield tuple(sorted(map(int, rng.choice(k + r, r, replace=False))))


def worst_condition(code: Code) -> float:
    """The largest condition number after the loss of r blocks, of all such losses or of many drawn at random."""
    if code.exact:
        return 1.0
    patterns_max = max(PATTERNS_MIN, int(WORK_MAX / code.k**3))
    return max(code.condition_number(lost) for lost in losses(code.k, code.r, patterns_max, np.random.default_rng(0)))
