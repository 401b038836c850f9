"""Chooses few of many combinations so that each two values that can come together still do."""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Sequence

IS_WHOLE = "RIPRAP_SIM_SEEDS" in os.environ
"""True in `make sim`, which leaves nothing out."""


def chosen(combinations: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Of `make sim` all; else some, in which each pair of values stands that stands in any: of a scheme and a shape, of
    a scheme and a fault, of a shape and a fault."""
    return list(combinations) if IS_WHOLE else each_pair(combinations)


def each_pair(combinations: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Each that has a pair which those before it have not, in an order that mixes the values."""
    kept, seen = [], set()
    for one in sorted(combinations, key=lambda values: zlib.crc32("-".join(values).encode())):
        pairs = set(itertools.combinations(enumerate(one), 2))
        if not pairs <= seen:
            kept.append(one)
            seen |= pairs
    return kept
