"""Losses of a restored worker against its former incarnation: bounds as bounds, and what was counted."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

from riprap.operators.states.base import State


class Limits(NamedTuple):
    """A task's largest loss in one failure: state divergence, unprocessed items, unacknowledged items."""

    theta: float
    items: float
    unacknowledged: float
    share: float = 0.0
    """The part of what a state promises of each entry (operators/states/base.py) that may go."""


EARLIER_MAX = 32
"""Recoveries that an incarnation reports of those before it: statistics are small, and few incarnations end before they
report."""
NOTHING = Limits(0, 0, 0)
EVERYTHING = Limits(math.inf, math.inf, math.inf, math.inf)


def recovery_of(state: State | None, lacks: Limits, failure: int, window: int) -> dict[str, Any]:
    """One recovery as it stands in summary.json, but for the worker and what is counted later; null is no bound.

    `failure` counts those of the worker that are known to its records, `window` is the last one that it
    or a sender of it had closed.
    """
    divergence = getattr(state, "divergence", "")
    relative = getattr(state, "relative", math.inf)
    return {
        "failure": failure,
        "window": window,
        "state": type(state).__name__ + (f", {divergence}" if divergence else "") if state is not None else "",
        "divergence_max": _finite(lacks.theta) if state is not None else 0.0,
        "each_max": _finite(relative * lacks.share) if math.isfinite(relative) else None,
        "entries_max": _entries(state, lacks, relative),
        "items_max": _finite(lacks.items),
        "output_max": _finite(lacks.unacknowledged),
    }


def recoveries_of(state: State | None, found: Sequence[tuple[Limits, int]], failure: int) -> dict[str, Any]:
    """The newest of these recoveries, each with its window, and the earlier ones in it."""
    *earlier, (lacks, window) = found
    before = [recovery_of(state, one, number, at) for number, (one, at) in enumerate(earlier, 1)]
    return recovery_of(state, lacks, failure, window) | {"earlier": before[-EARLIER_MAX:]}


def _entries(state: State | None, lacks: Limits, relative: float) -> int | None:
    """Most entries that may lack something. New ones may be gone whole, unless the state promises that none is."""
    if state is None or not lacks.theta:
        return 0
    promised = math.isfinite(relative) and math.isfinite(lacks.share) and not lacks.items
    return len(state) if promised and isinstance(state, Sized) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
