"""Sums of items by key and pane of event time, early, on time and late."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.panes.aggregates import AGGREGATES, Aggregate
from riprap.operators.panes.assigners import Assigner, FixedPanes, SessionPanes, SlidingPanes
from riprap.operators.panes.event_times import check_times, length
from riprap.operators.panes.firing import MODES, Fired, Plan, TimedItems, step
from riprap.operators.panes.key_names import KeyNames
from riprap.operators.panes.pane_state import NO_TIME, PaneState, TimedPart
from riprap.operators.panes.rows import RETRACTION
from riprap.operators.states.checks import is_pair
from riprap.operators.tables import Arrays, Schema, Table, lines_of

SHAPES = ("fixed", "sliding", "sessions")
KINDS = ("", "early", "on_time", "late", "retraction")
KEYS = ("int64", "bytes")
FORMS = ("keys (int64)", "keys (bytes, uint8, and offsets, int64)")


class Panes(DataflowOperator):
    """Sums up items by key in panes of event time, and puts panes out when their windows' punctuation says that it is
    time for them. Items are arrays of keys and event times (int64), and of values (float64) unless they are counted.
    Keys of `bytes` are two arrays: all their bytes (uint8), and count + 1 offsets (int64). Where `slide` is longer than
    `size` there are gaps between panes: items in one are in no pane, and count as late if the pane before is over.

    A destination writes the rows of each window as `panes`, and items that came too late as `late`; other stages send
    (key, start, end, value, kind) by key, and late items to the stage `late_to`, as they came.
    """

    combines: ClassVar[Mapping[str, str]] = {"fired": "sum", "late": "sum"}
    meanings: ClassVar[Mapping[str, str]] = {
        "fired": "rows that were put out of panes",
        "late": "items that came when all of their panes were over",
    }
    only_windows = True
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(
        self,
        panes: Annotated[str, Option("Which kind of panes", choices=SHAPES, example="fixed")],
        size: Annotated[int, length("Length of a pane, fixed or sliding")] = 0,
        slide: Annotated[int, length("From the start of a sliding pane to that of the next")] = 0,
        gap: Annotated[int, length("Time without items that ends a session")] = 0,
        offset: Annotated[int, length("A time at which a fixed or sliding pane starts")] = 0,
        aggregate: Annotated[str, Option("What is made of the values", choices=tuple(AGGREGATES))] = "count",
        mode: Annotated[str, Option("What a later row of a pane says of earlier ones", choices=MODES)] = "accumulating",
        lateness: Annotated[int, length("How far behind its end a pane takes items")] = 0,
        early_items: Annotated[
            int, Option("New items of a key that put an open pane out; 0: none do", unit="items", low=0)
        ] = 0,
        early_ms: Annotated[int, Option("Time after which open panes are put out; 0: never", unit="ms", low=0)] = 0,
        late_items: Annotated[int, Option("Late items of a key that put a pane out again", unit="items", low=1)] = 1,
        late_to: Annotated[str | None, Option("The stage that gets items that came too late")] = None,
        key: Annotated[str, Option("What keys are", choices=KEYS)] = "int64",
    ) -> None:
        check(
            self, panes=panes, size=size, slide=slide, gap=gap, offset=offset, aggregate=aggregate, mode=mode,
            lateness=lateness, early_items=early_items, early_ms=early_ms, late_items=late_items, late_to=late_to,
            key=key,
        )  # fmt: skip
        assigner = _assigner(panes, size, slide, gap, offset)
        self.plan = Plan(assigner, self.aggregate_of(aggregate), mode, lateness, early_items or math.inf, late_items)
        self.state: PaneState = PaneState(len(self.plan.aggregate.joins), key == "bytes")
        self._late_to, self._early_s = late_to, early_ms / 1000
        self._hurried_at = self.clock()

    def aggregate_of(self, name: str) -> Aggregate:
        """The aggregate of that name; a subclass gives its own."""
        return AGGREGATES[name]

    def open(self, context: Context) -> None:
        behind = [stage for stage in context.downstream if stage != self._late_to]
        if self._late_to and self._late_to not in context.downstream:
            raise ConfigError(f"late_to is {self._late_to!r}, to which no edge leads", "Add the edge, or leave it out.")
        self._to = behind[0] if behind else None
        self.writes = () if behind else ("panes",) if self._late_to else ("panes", "late")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Items wait for the end of their window; as many are taken in as theta allows."""
        room = self.state.theta - self.state.state_divergence()
        last = items.count if room >= items.count - first else first + max(int(room), 0) + 1
        origin = (zlib.crc32(items.stage.encode()) << 24) + items.task
        self.state.add(TimedPart(items.epoch, origin, _timed(items, slice(first, last), self.state.names)))
        return last

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        now = NO_TIME if out.event_time is None else max(self.state.time, out.event_time)
        done = step(self.plan, self.state.rows, self.state.items_of(epoch), self.state.time, now, self._hurries())
        late, fired = done.late, done.fired
        if self.state.names is not None:
            late, fired = _named(late, fired, self.state.names)
        self.state.close(epoch, done, now)
        if len(late.times):
            self.put_out_late(late, out)
        if len(fired.starts):
            self.put_out(fired, out)

    def put_out(self, fired: Fired, out: Emitter) -> None:
        """Send a window's rows, or write them; keys of bytes are a pair of arrays."""
        if self._to is None:
            out.write("panes", _columns(fired))
        else:
            out.send_by_key(fired.keys, fired[1:], stage=self._to)

    def put_out_late(self, late: TimedItems, out: Emitter) -> None:
        """Send a window's late items, or write them, where anybody wants them."""
        if self._late_to:
            keys = late.keys if is_pair(late.keys) else (late.keys,)
            out.send((*keys, late.times, late.values), len(late.times), stage=self._late_to)
        elif self._to is None:
            out.write("late", _columns(late))

    def _hurries(self) -> bool:
        """True once in `early_ms`."""
        if not self._early_s or self.clock() - self._hurried_at < self._early_s:
            return False
        self._hurried_at = self.clock()
        return True

    @classmethod
    def window_columns(cls, name: str, arrays: Arrays) -> dict[str, np.ndarray]:
        """Rows with `key`, `start`, `end`, `value` and `kind` in words; or late items."""
        keys = lines_of(arrays["keys"], arrays["offsets"]) if "offsets" in arrays else arrays["keys"]
        if name != "panes":
            return {"time": arrays["times"], "key": keys, "value": arrays["values"]}
        kinds = np.array(KINDS, dtype=object)[arrays["kinds"]]
        starts, ends = arrays["starts"], arrays["ends"]
        return {"key": keys, "start": starts, "end": ends, "value": arrays["values"], "kind": kinds}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """None: the rows are in the files of the windows."""
        return {}

    def results(self) -> dict[str, np.ndarray]:
        """The number of rows that were put out, and of items too late."""
        return {"fired": np.array([self.state.fired]), "late": np.array([self.state.late])}

    def metrics(self) -> dict[str, float]:
        return {"fired": float(self.state.fired), "late": float(self.state.late)}


def _assigner(panes: str, size: int, slide: int, gap: int, offset: int) -> Assigner:
    if panes == "sessions":
        return SessionPanes(gap)
    return FixedPanes(size, offset) if panes == "fixed" else SlidingPanes(size, slide, offset)


def _named(late: TimedItems, fired: Fired, names: KeyNames) -> tuple[TimedItems, Fired]:
    """Both with texts in place of their numbers; rows in the order of texts, as numbers depend on which came first."""
    order = np.lexsort((fired.starts, names.ranks(fired.keys), fired.kinds != RETRACTION))
    fired = Fired(*(column[order] for column in fired))
    return late._replace(keys=names.texts(late.keys)), fired._replace(keys=names.texts(fired.keys))


def _columns(found: Fired | TimedItems) -> dict[str, np.ndarray]:
    """By name; of keys of bytes `keys` and `offsets`."""
    columns = found._asdict()
    if is_pair(found.keys):
        columns["keys"], columns["offsets"] = found.keys
    return columns


def _timed(items: Items, chosen: slice, names: KeyNames | None) -> TimedItems:
    """Copies of some items' arrays. DataError when they are no times, keys and values."""
    width = 1 if names is None else 2
    if len(items.arrays) - width not in (1, 2):
        raise DataError(
            f"a block of {items.stage} has {len(items.arrays)} arrays",
            f"send {FORMS[width - 1]} and times (int64), and values (float64) where they are not counted",
        )
    times, *given = (array[chosen] for array in items.arrays[width:])
    times = _whole("times", times)
    keys = _numbered(items, chosen, names) if names is not None else _whole("keys", items.arrays[0][chosen])
    values = np.array(given[0], np.float64) if given else np.ones(len(times))
    check_times(times, f"a block of {items.stage} has")
    return TimedItems(times, keys, values)


def _numbered(items: Items, chosen: slice, names: KeyNames) -> np.ndarray:
    data, offsets = items.arrays[:2]
    try:
        return names.numbers((data, offsets[chosen.start : chosen.stop + 1]))
    except ValueError as error:
        raise DataError(f"a block of {items.stage} has no keys of bytes: {error}", f"send {FORMS[1]} first") from error


def _whole(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise DataError(f"{name} of items must be whole numbers, not {array.dtype}", "convert them in the stage before")
    return np.array(array, np.int64)
