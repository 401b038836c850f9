"""Panes of any keys and times: as those near 0, moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dataflow_harness import Outbox
from hypothesis import given, settings
from hypothesis import strategies as st
from test_panes import Item, Run, rising, shapes, windows

from riprap.operators.dataflow import Items
from riprap.operators.panes.event_times import TIME_MAX

PERIOD = 10 * 7 * 9
"""All shapes of panes repeat after so long."""


class MovedRun(Run):
    """The same run with other keys, and other times."""

    def __init__(self, keys: int, time: int, **options: Any) -> None:
        super().__init__(**options)
        self._keys, self._time = keys, time

    def give(self, items: Sequence[Item], epoch: int, task: int = 0) -> None:
        keys = np.array([item.key + self._keys for item in items], np.int64)
        times = np.array([item.time + self._time for item in items], np.int64)
        values = np.array([item.value for item in items], float)
        block = Items(epoch, "s", task, len(items), (keys, times, values))
        assert self.operator.process_data(block, 0, Outbox()) == len(items)


@settings(max_examples=30)
@given(
    found=windows,
    shape=shapes,
    keys=st.sampled_from([-(2**63) + 2, 2**63 - 3, 2**62]),
    periods=st.integers(-(TIME_MAX // PERIOD) + 1, TIME_MAX // PERIOD - 1),
)
def test_keys_and_times_may_lie_anywhere(
    found: list[tuple[list[Item], int | None]], shape: dict[str, Any], keys: int, periods: int
) -> None:
    options = {"aggregate": "sum", "mode": "retracting", "lateness": 10, "early_items": 2, **shape}
    moved = periods * PERIOD
    run, other = Run(**options), MovedRun(keys, moved, **options)
    for items, time in rising(found):
        rows = other.window(items, None if time is None else time + moved)
        near = [row._replace(key=row.key - keys, start=row.start - moved, end=row.end - moved) for row in rows]
        assert near == run.window(items, time)
