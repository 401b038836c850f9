"""Chooses few of many combinations so that each two values that can come together still do."""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Sequence

IS_WHOLE = "RIPRAP_SIM_SEEDS" in os.environ
"""True in `make sim`, which leaves nothing out."""


def chosen(combinations: Sequence[tuple[str, ...]], together: int = 2) -> list[tuple[str, ...]]:
    """Of `make sim` all; else some, in which each pair of values stands that stands in any: of a scheme and a shape, of
    a scheme and a fault, of a shape and a fault. With `together` 1 each value stands, for what another test shows of
    each pair."""
    return list(combinations) if IS_WHOLE else each_of(combinations, together)


def each_of(combinations: Sequence[tuple[str, ...]], together: int = 2) -> list[tuple[str, ...]]:
    """Each that has a pair (or so many values) which those before it have not, in an order that mixes the values."""
    kept, seen = [], set()
    for one in sorted(combinations, key=lambda values: zlib.crc32("-".join(values).encode())):
        parts = set(itertools.combinations(enumerate(one), together))
        if not parts <= seen:
            kept.append(one)
            seen |= parts
    return kept
