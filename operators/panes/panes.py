"""Aggregates of keys over event time: panes that are put out early, in time and late (seed sections 3.1 and 5)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.event_time import ENDED, UNKNOWN
from riprap.operators.options import Option, check
from riprap.operators.panes.assigners import Assigner, Sessions, Sliding
from riprap.operators.panes.rows import AGGREGATES, Rows, joined, values_of
from riprap.operators.panes.state import PaneState
from riprap.operators.tables import Arrays

EARLY, ON_TIME, LATE, RETRACTION = range(4)
KINDS = ("early", "on_time", "late", "retraction")
MODES = ("accumulating", "discarding", "retracting")


class Panes(DataflowOperator):
    """The aggregate of each key in each pane of event time, once the watermark has passed the pane; earlier and later too.

    Items are (key int64, event time int64, value float64), as `timed_lines:TimedLines` sends them by key; the value is
    not needed for counts. It puts out rows (key, start, end, value, kind), as a file of the window (`panes`), or by key
    to the stage behind. State: rows of panes; divergence: the items since its last backup.
    """

    writes = ("panes",)
    combines: ClassVar[dict[str, str]] = {"late_items": "sum", "open_rows": "sum"}
    meanings: ClassVar[dict[str, str]] = {
        "late_items": "items that came when their last pane was given up",
        "open_rows": "keys and slices of event time that are kept",
    }

    def __init__(
        self,
        *,
        size: Annotated[int, Option("The length of a pane, in the unit of the timestamps", low=1, example="60000")] = 0,
        slide: Annotated[int, Option("From one pane's start to the next; 0: as long as a pane", low=0)] = 0,
        gap: Annotated[
            int, Option("In place of size: a pane ends when its key has had no item for so long", low=0)
        ] = 0,
        aggregate: Annotated[str, Option("What becomes of a pane's values", choices=AGGREGATES)] = "count",
        lateness: Annotated[int, Option("For so long behind its end a pane takes late items in", low=0)] = 0,
        mode: Annotated[
            str,
            Option(
                "What a pane that is put out again holds: all; what is new; all, and what it held before", choices=MODES
            ),
        ] = "accumulating",
        early_items: Annotated[int, Option("Put panes out early after so many items of a task; 0: never", low=0)] = 0,
        early_ms: Annotated[float, Option("Put panes out early every so long; 0: never", unit="ms", low=0)] = 0.0,
    ) -> None:
        self._assigner = _assigner(size, slide, gap)
        check(self, size=size, slide=slide, gap=gap, aggregate=aggregate, lateness=lateness, mode=mode,
              early_items=early_items, early_ms=early_ms)  # fmt: skip
        self._aggregate, self._lateness, self._mode = aggregate, lateness, mode
        self._early_items, self._early_s = early_items or math.inf, early_ms / 1000 or math.inf
        is_early = bool(early_items or early_ms)
        if is_early and mode == "discarding" and slide not in (0, size):
            raise ConfigError("early panes that discard what was put out cannot slide", "use the mode retracting")
        self.state: PaneState = PaneState(self._assigner, is_early)
        self._early_at = time.monotonic()

    def open(self, context: Context) -> None:
        self._is_last = not context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys, times, *values = items.arrays
        stop = first + self._room(items.count - first)
        keys, times = _column(keys, "keys")[first:stop], _column(times, "event times")[first:stop]
        given = values[0][first:stop] if values else np.zeros(len(keys))
        rows = self._assigner.kept(keys, times, given)
        if out.event_time != UNKNOWN:
            rows = self._in_time(rows, out.event_time - self._lateness)
        self.state.add(rows, stop - first)
        return stop

    def _room(self, count: int) -> int:
        """Number of items, of so many, that may be taken in: up to and with the one that exceeds theta."""
        room = self.state.theta - self.state.state_divergence()
        return count if room >= count else max(math.floor(room), 0) + 1

    def _in_time(self, rows: Rows, given_up: int) -> Rows:
        late = self._assigner.last_ends(rows) <= given_up
        if not late.any():
            return rows
        self.state.late += int(rows.sums[late, 0].sum())
        return rows.at(~late)

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        state, now = self.state, out.event_time
        came = state.take_in()
        found = [*self._late(came, now), *self._on_time(now), *self._early(now)]
        state.fired = max(state.fired, now)
        if now != UNKNOWN:
            state.drop(now - self._lateness)
        if found:
            self._put_out(found, out)

    def _late(self, came: Rows, now: int) -> Iterator[tuple[Rows, int]]:
        """Panes that were put out in time, and have had items since."""
        state = self.state
        if state.fired > UNKNOWN and came.size:
            whole = came if self._mode == "discarding" else state.kept
            yield self._assigner.panes(whole, came, now - self._lateness, state.fired), LATE

    def _on_time(self, now: int) -> Iterator[tuple[Rows, int]]:
        state = self.state
        if now > state.fired and state.kept.size:
            whole = state.fresh if self._mode == "discarding" and self._is_early else state.kept
            yield self._assigner.panes(whole, whole, state.fired, now), ON_TIME

    @property
    def _is_early(self) -> bool:
        return min(self._early_items, self._early_s) < math.inf

    def _early(self, now: int) -> Iterator[tuple[Rows, int]]:
        state = self.state
        due = state.since_early >= self._early_items or time.monotonic() - self._early_at >= self._early_s
        if not due or not state.fresh.size:
            return
        whole = state.fresh if self._mode == "discarding" else state.kept
        yield self._assigner.panes(whole, state.fresh, now, ENDED), EARLY
        state.fresh = state.fresh.at(np.zeros(state.fresh.size, bool))
        state.since_early, self._early_at = 0, time.monotonic()

    def _put_out(self, found: list[tuple[Rows, int]], out: Emitter) -> None:
        retracted = self._retracted(joined([panes for panes, _ in found]))
        parts = [(retracted, RETRACTION, retracted.sums[:, 0])]
        parts += [(panes, kind, values_of(self._aggregate, panes.sums)) for panes, kind in found]
        keys, starts, ends, _ = joined([panes for panes, _, _ in parts])
        values = np.concatenate([values for _, _, values in parts])
        kinds = np.concatenate([np.full(panes.size, kind, np.uint8) for panes, kind, _ in parts])
        if self._mode == "retracting":
            sums = np.column_stack([values] * 4)[kinds != RETRACTION]
            stay = kinds != RETRACTION
            again = Rows(keys[stay], starts[stay], ends[stay], sums)
            self.state.put_out = joined([self.state.put_out, again])
        if not len(keys):
            return
        if self._is_last:
            out.write("panes", {"key": keys, "start": starts, "end": ends, "value": values, "kind": kinds})
        else:
            out.send_by_key(keys, (starts, ends, values, kinds))

    def _retracted(self, panes: Rows) -> Rows:
        """What was put out before of the same panes; it is forgotten."""
        former = self.state.put_out
        replaced = self._assigner.replaced(former, panes) if former.size else np.zeros(0, bool)
        self.state.put_out = former.at(~replaced)
        return former.at(replaced)

    @classmethod
    def window_columns(cls, name: str, arrays: Arrays) -> dict[str, np.ndarray]:
        """The rows, with words for their kinds."""
        return {**arrays, "kind": np.array(KINDS, object)[arrays["kind"]]}

    def metrics(self) -> dict[str, float]:
        return {"late_items": float(self.state.late), "open_rows": float(self.state.kept.size)}


def _assigner(size: int, slide: int, gap: int) -> Assigner:
    if bool(size) == bool(gap):
        raise ConfigError("panes have a size, or a gap that ends a session", "give one of the options size and gap")
    if gap:
        return Sessions(gap)
    if slide and size % slide:
        raise ConfigError(f"a slide of {slide} does not divide the size {size}", "give one that does")
    return Sliding(size, slide or size)


def _column(array: np.ndarray, what: str) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{what} are whole numbers in one column, not {array.dtype} of shape {array.shape}", "send those"
        )
    return array.astype(np.int64, copy=False)
