"""Reads an input that has no length and may not be there a second time: it is logged before it counts.

Each block, and each cut between two windows, is a record of the worker's backups. It is handed out once its record is
durable, and a new incarnation hands out the same blocks and cuts under the same numbers. A record has the number of its
entry, so a state that includes the entry lets the servers forget it, as all items (schemes/parts/recorder.py).

    source.take -> port.save -> (durable) -> entry -> task
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import opened, opened_here
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import INPUT, Heard, TaskProgress, input_key, number_of
from riprap.engine.flow.rate import UNLIMITED, InputRate

AHEAD_MAX = 64
"""Blocks that are logged and not handed out: enough to keep the servers busy, few enough to be held."""
POLL_S = 0.02
"""Between two looks at a source that has nothing."""
RESTORED = -1
"""The record of what a former incarnation logged."""


class Taken(Protocol):
    """Some items, and what has changed of the places where the source goes on."""

    @property
    def text(self) -> np.ndarray:
        """Their bytes."""

    @property
    def offsets(self) -> np.ndarray:
        """Their bounds in these bytes."""

    @property
    def places(self) -> Mapping[str, Any]:
        """By the name of a part of the source; None for one that is done with."""

    @property
    def count(self) -> int:
        """Number of items."""


class LiveSource(Protocol):
    """A live source (operators/inputs/live_lines.py): no call waits."""

    def go_to(self, places: Mapping[str, Any]) -> None:
        """Go on from there."""

    def take(self, lines: int, nbytes: int, rest: bool) -> Taken | None:
        """Items that are there (`Taken`); None when there are none at present. `rest`: nothing is to be left."""


@dataclass
class LogEnd:
    """The log's end: the open window, the items before it and in it, and when it was opened."""

    epoch: int = 1
    position: int = 0
    """Items up to here, in all windows."""
    in_window: int = 0
    opened_at: float = math.inf


class Logged(NamedTuple):
    """A block with its number as an entry and its record."""

    number: int
    record: int
    block: Block


class LoggedReader:
    """Windows close after `window_items` items or `window_s` seconds, whichever is first; empty ones too.

    A cut is made once the window may be closed (controller/horizon.py). At the end that a drain decides, the windows
    that are left close with what is there.
    """

    def __init__(
        self, source: LiveSource, window_items: int, window_s: float, block_bytes: int, rate: InputRate = UNLIMITED
    ) -> None:
        self.source, self._window_items, self._window_s = source, window_items, window_s
        self._block_bytes, self._rate = block_bytes, rate
        self._at = LogEnd()
        self._granted = self._before = self._passed = 0
        """Windows: granted, granted before, and granted before that; at the last grant the foremost source was about
        behind those."""
        self._final = self._ended = self._closed_last = False
        self._places: dict[str, Any] = {}
        """Changes of the places that are in no record."""
        self._unsaved: Block | None = None
        self._logged: deque[Logged] = deque()
        self._durable = 0

    @property
    def finished(self) -> bool:
        """True when the last window is closed, and that was handed out."""
        return self._closed_last and not self._logged and self._unsaved is None

    @property
    def may_read(self) -> bool:
        """True when more is to come."""
        return not self.finished

    @property
    def epoch(self) -> int:
        """The window of the next block."""
        return self._logged[0].block.epoch if self._logged else self._at.epoch

    def number(self, closed: int) -> int:
        """Cuts are where the log says: no window's is known beforehand."""
        raise NotImplementedError("a scheme that protects a logged input goes back to what its state includes")

    def grant(self, windows: int, final: bool) -> None:
        """So many windows may be read; a window that is far behind closes at once, for others wait for it."""
        if windows > self._granted:
            self._passed, self._before, self._granted = self._before, self._granted, windows
        self._final = self._final or final

    def restore(self, records: Sequence[Block], progress: TaskProgress, now: float) -> None:
        """Take over what a former incarnation logged and its state does not include, in its order."""
        place = progress.source
        places = dict(place.get("places", {}))
        self._at = _log_end(place["at"], now) if place else LogEnd(opened_at=now)
        done = progress.done.get(INPUT, Heard()).at.number
        for record in sorted((r for r in records if "logged" in r.meta), key=lambda r: r.meta["logged"]):
            number, block = record.meta["logged"], _block_of(record)
            progress.received = max(progress.received, number)
            if number_of(block) > done:
                self._take_back(Logged(number, RESTORED, block), places, now)
        self.source.go_to(places)

    def _take_back(self, logged: Logged, places: dict[str, Any], now: float) -> None:
        block = logged.block
        merge(places, block.meta["places"])
        self._at = _log_end(block.meta["at"], now)
        if block.kind == Kind.PUNCTUATION:
            block.meta.update(opened(opened_here(block.meta, now), now))
            self._closed_last = block.meta["last"]
        self._logged.append(logged)

    def seek(self, number: int, known: int = 0) -> None:
        """The restored log stands behind this already."""
        assert not self._logged or number_of(self._logged[0].block) > number

    def on_durable(self, number: int) -> None:
        """Everything saved up to this number is safe."""
        self._durable = number

    def wait_s(self, now: float) -> float:
        """Seconds until it is worth to look again; 0 when the next block is safe."""
        return 0.0 if self._logged and self._logged[0].record <= self._durable else POLL_S

    def entry(self, now: float) -> Entry:
        """The next block, with its number and its record."""
        number, record, block = self._logged.popleft()
        return Entry(number, INPUT, block, record=record)

    def note(self, block: Block, place: dict[str, Any]) -> None:
        """A block is processed: a new incarnation goes on behind it."""
        place["at"] = block.meta["at"]
        merge(place.setdefault("places", {}), block.meta["places"])

    def fill(self, port: Port, progress: TaskProgress) -> None:
        """Log what the source has, and cut, as far as may be."""
        now = port.now()
        self._at.opened_at = min(self._at.opened_at, now)
        while len(self._logged) < AHEAD_MAX and self._log_next(port, progress, now):
            pass

    def _log_next(self, port: Port, progress: TaskProgress, now: float) -> bool:
        if self._unsaved is None and not self._closed_last:
            self._unsaved = self._next(now)
        block = self._unsaved
        if block is None:
            return False
        number = progress.received + 1
        fields = [int(block.kind), list(block.key), block.epoch, block.items, block.meta]
        record = port.save("item", Epoch(2 * number), {"logged": number, "block": fields}, block.arrays)
        if not record:
            return False
        progress.received, self._unsaved = number, None
        self._logged.append(Logged(number, record, block))
        port.count("logged_items", block.items)
        port.count("logged_bytes", block.nbytes)
        return True

    def _next(self, now: float) -> Block | None:
        at = self._at
        may_close = at.epoch < self._granted or (self._final and at.epoch <= self._granted)
        is_due = at.in_window >= self._window_items or now >= at.opened_at + self._window_s
        if may_close and is_due:
            return self._cut(now)
        room = self._window_items - at.in_window
        if room and at.epoch <= self._granted and not self._rate.wait_s(at.position, now):
            taken = self._take(room, self._final and at.epoch == self._granted)
            if taken is not None:
                return self._data(taken)
        return self._cut(now) if may_close and (self._final or at.epoch <= self._passed) else None

    def _take(self, room: int, is_end: bool) -> Taken | None:
        """Items that are there; None when there are none."""
        while (taken := self.source.take(room, self._block_bytes, is_end)) is not None:
            self._places.update(taken.places)
            if taken.count:
                return taken
        return None

    def _data(self, taken: Taken) -> Block:
        at, count = self._at, taken.count
        at.position, at.in_window = at.position + count, at.in_window + count
        key = input_key(at.position + at.epoch - 1)
        return Block(Kind.DATA, Epoch(at.epoch), key, count, (taken.text, taken.offsets), meta=self._meta())

    def _cut(self, now: float) -> Block:
        """Close the open window."""
        at = self._at
        epoch, items = at.epoch, at.in_window
        began = at.opened_at
        self._closed_last = self._final and epoch == self._granted
        self._at = LogEnd(epoch + 1, at.position, 0, now)
        meta = self._meta() | {"items": items, "last": self._closed_last} | opened(began, now)
        return Block(Kind.PUNCTUATION, Epoch(epoch), input_key(at.position + epoch), meta=meta)

    def _meta(self) -> dict[str, Any]:
        """The log's end behind the block, and the places that the block has changed."""
        places, self._places = self._places, {}
        return {"at": [self._at.epoch, self._at.position, self._at.in_window], "places": places}


def merge(places: dict[str, Any], changed: Mapping[str, Any]) -> None:
    """Bring places up to date; what is None is done with."""
    places.update(changed)
    for name in [name for name, place in changed.items() if place is None]:
        del places[name]


def _log_end(at: Sequence[int], now: float) -> LogEnd:
    epoch, position, in_window = at
    return LogEnd(epoch, position, in_window, now)


def _block_of(record: Block) -> Block:
    kind, key, epoch, items, meta = record.meta["block"]
    return Block(Kind(kind), Epoch(epoch), Key(*key), items, record.arrays, meta=meta)
