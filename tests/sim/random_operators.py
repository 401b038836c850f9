"""Operators of random graphs: rows of key and value along several edges, of which the sums of each window are known."""

from __future__ import annotations

from typing import Any

import dataflow_jobs
import numpy as np
from dataflow_jobs import BUCKETS

from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.panes.firing import Fired, TimedItems
from riprap.operators.panes.panes import Panes
from riprap.operators.panes.rows import RETRACTION
from riprap.operators.states import HashMap, Vector

KEYS = dataflow_jobs.KEYS
MARKS = KEYS
"""The key that marks go to."""
MODULUS = 1_000_003
WINDOW_TIME = 10
"""Event time in a window of a source that promises by windows."""
LATE_WEIGHT = 37
"""So often an item counts that came when all of its panes were over."""


def rows_of(items: Items) -> np.ndarray:
    """The items as rows of key and value, however they were sent."""
    return items.arrays[0] if len(items.arrays) == 1 else np.column_stack(items.arrays).astype(float)


class Routed(DataflowOperator):
    """Base: sends rows on along each of its edges. `outs` names them: `STAGE:MODE:TASKS`, with commas between."""

    def __init__(self, outs: str = "") -> None:
        self.outs = [
            (stage, mode, int(tasks)) for stage, mode, tasks in (one.split(":") for one in outs.split(",") if one)
        ]

    def put(self, rows: np.ndarray, out: Emitter) -> None:
        for stage, mode, tasks in self.outs:
            if mode == "key":
                for task in range(tasks):
                    chosen = rows[rows[:, 0] % tasks == task]
                    if len(chosen):
                        out.send((chosen,), len(chosen), to=task, stage=stage)
            elif mode == "hash":
                out.send_by_key(rows[:, 0].astype(np.int64), [column.copy() for column in rows[:, 1:].T], stage=stage)
            elif len(rows):
                out.send((rows.copy(),), len(rows), stage=stage)


class Pass(Routed):
    """Without a state."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.put(rows_of(items)[first:], out)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None:
        pass


class Turned(DataflowOperator):
    """In a coded stage."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send((rows_of(items)[::-1].copy(),), items.count)
        return items.count


class Summed(Routed):
    """Keeps the sum of each key, and hands all on."""

    def __init__(self, outs: str = "") -> None:
        super().__init__(outs)
        self.state: HashMap = HashMap()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        rows = rows_of(items)[first:]
        left = self.state.add(rows[:, 0].astype(np.int64), rows[:, 1])
        self.put(rows[:left], out)
        return first + left

    def process_feedback(self, items: Items, out: Emitter) -> None:
        pass


class Prepared(Summed):
    """The same; its blocks are prepared, on another thread perhaps."""

    def prepare(self, items: Items) -> Items:
        rows = rows_of(items)
        return items._replace(arrays=(rows, rows.sum(axis=0)))

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        rows, total = items.arrays
        assert (total == rows.sum(axis=0)).all()
        return super().process_data(items._replace(arrays=(rows,)), first, out)


class Closed(Routed):
    """Sends the sum of each key of a window when that is closed, and forgets it."""

    def __init__(self, outs: str = "") -> None:
        super().__init__(outs)
        self.state: HashMap = HashMap()

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        rows = rows_of(items)[first:]
        return first + self.state.add(rows[:, 0].astype(np.int64) * BUCKETS + items.epoch, rows[:, 1])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        keys = np.arange(KEYS + 1) * BUCKETS + epoch
        sums = self.state.get(keys)
        there = np.flatnonzero(sums)
        self.put(np.column_stack([there, sums[there]]).astype(float), out)
        self.state.assign(keys, np.zeros(KEYS + 1))

    def process_feedback(self, items: Items, out: Emitter) -> None:
        pass


class Marked(Routed):
    """Hands items on, and marks each block with what its state was before it and behind it: the marks add up to nothing
    if each begins where the one before it ended."""

    def __init__(self, outs: str = "") -> None:
        super().__init__(outs)
        self.state: Vector = Vector(2)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        rows = rows_of(items)
        now, weight = int(self.state.values[0]), int(rows[:, 1].sum() % MODULUS) + 1
        then = (now + weight) * 2 % MODULUS
        self.state.add(np.array([0]), np.array([then - now], dtype=float))
        self.put(np.vstack([rows, [MARKS, _mark(then) - _mark(now)]]), out)
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        now, before = int(self.state.values[0]), int(self.state.values[1])
        self.state.add(np.array([1]), np.array([now - before], dtype=float))
        self.put(np.array([[MARKS, _mark(before) - _mark(now)]]), out)

    def process_feedback(self, items: Items, out: Emitter) -> None:
        pass


def _mark(state: int) -> float:
    return float(state * state % 65_537)


class Ended(DataflowOperator):
    """Destination: the sum of each key in each window; feeds back each window's number to the stages of `back`."""

    def __init__(self, back: str = "") -> None:
        self.state: HashMap = HashMap()
        self.back = back.split(",") if back else []

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        rows = rows_of(items)[first:]
        return first + self.state.add(rows[:, 0].astype(np.int64) * BUCKETS + items.epoch, rows[:, 1])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        for stage in self.back:
            out.feed_back((np.array([float(epoch)]),), stage=stage)


class EndedWithRows(Ended):
    """Puts out each window's number and sum, as a row."""

    def __init__(self, back: str = "") -> None:
        super().__init__(back)
        self._rows: list[list[float]] = []

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        super().process_punctuation(epoch, out)
        self._rows.append([epoch, self.state.get(np.arange(KEYS) * BUCKETS + epoch).sum()])

    def outputs(self) -> np.ndarray | None:
        rows, self._rows = self._rows, []
        return np.array(rows) if rows else None


class Promising(Pass):
    """Source of rows of key, value and time: of each block it promises what is `disorder` behind its newest time, or
    with `at_end` as much of each window; and is idle in each window of which the number is no multiple of `wakes`."""

    def __init__(self, outs: str = "", disorder: int | None = 0, at_end: bool = False, wakes: int = 1) -> None:
        super().__init__(outs)
        self.disorder, self.at_end, self.wakes = disorder, at_end, wakes

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        if self.disorder is not None and not self.at_end:
            _promise(int(rows_of(items)[:, 2].max()) - self.disorder, out)
        return super().process_data(items, first, out)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if self.disorder is not None and self.at_end:
            _promise(WINDOW_TIME * epoch - self.disorder, out)
        if epoch % self.wakes:
            out.idle()


class Lagging(Pass):
    """Promises less than was promised to it."""

    def __init__(self, outs: str = "", lag: int = 0) -> None:
        super().__init__(outs)
        self.lag = lag

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if out.event_time is not None:
            _promise(out.event_time - self.lag, out)


def _promise(at: int, out: Emitter) -> None:
    out.watermark(at if out.promised is None else max(at, out.promised))


class Paned(Panes):
    """Panes whose rows go on with the last time that they hold; each counts so often as its bounds and kind say."""

    def __init__(self, outs: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.routed = Routed(outs)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, values, times = rows_of(items).T
        arrays = (keys.astype(np.int64), times.astype(np.int64), values.copy())
        return super().process_data(items._replace(arrays=arrays), first, out)

    def put_out(self, fired: Fired, out: Emitter) -> None:
        values = fired.values * weight(fired.starts, fired.ends, fired.kinds)
        self.routed.put(np.column_stack([fired.keys, values, fired.ends - 1]).astype(float), out)

    def put_out_late(self, late: TimedItems, out: Emitter) -> None:
        self.routed.put(np.column_stack([late.keys, late.values * LATE_WEIGHT, late.times]).astype(float), out)


def weight(start: Any, end: Any, kind: Any) -> Any:
    """So often a row of a pane counts."""
    return (1 + (7 * start + 3 * end + 5 * kind) % 31) * np.where(kind == RETRACTION, -1, 1)
