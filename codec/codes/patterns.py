"""Which r of the k + r blocks of a stripe row may be lost, and how well a code decodes after the worst such loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from riprap.codec.codes.code import Code

PATTERNS_MIN, WORK_MAX = 50, 2e7
"""So many systems of k x k are looked at, at least, or as many as have so many elements of a product: half a second."""


def losses(k: int, r: int, patterns_max: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """The s_indexes of r lost blocks: all ways where there are no more than `patterns_max`, else so many at random."""
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
