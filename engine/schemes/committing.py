"""The scheme of what stands around a coded stage that all the job goes through (LEC III-A): `erasure`, `replication`.

A destination acknowledges a window as it closes, and its state is saved then, at most once in SAVE_EVERY_S. One that
starts again says how far its saved state is; its source goes on from there, and so does a source that starts again,
for both read the same input. What is computed once more comes out the same: results are aggregated in the order of the
stream. The coded stage itself needs no scheme.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.losses import NOTHING
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.schemes.parts.recorder import Recorder, Recovered, take_over

SAVE_EVERY_S = 0.02  # a record costs the worker and the server half a millisecond, which short windows would feel
SAVES_MAX = 32
"""More saves than this are never under way; a later one makes up for those that were left out."""


class SavedState(NamedTuple):
    """A state that is under way to the servers."""

    record: int
    window: int


class Committing(Scheme):
    """One task's half. A destination that cannot be restored saves nothing, and its loss ends the job."""

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self.lacks = NOTHING
        self.saves = bench.layout.is_sink and bench.operator.is_restorable
        notes = bench.journal.notes if bench.journal is not None else dict
        self._recorder = Recorder(bench.port, bench.progress, bench.operator.state, notes)
        self._processed: Entry | None = None
        """The newest: behind a coded stage there is one link."""
        self._under_way: deque[SavedState] = deque()
        self._save_at = 0.0  # not before
        self._is_behind = False
        """True when a window has closed since the newest save."""
        self._window = 0
        """The last window of the newest state, which may wait for room in the store."""
        self._durable = 0
        """The last window that is safe."""

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        recovered = Recovered(state, records)
        take_over(self.bench.progress, recovered, self.bench.operator.state)
        self._recorder.go_on_from(recovered)
        if self.bench.journal is not None and recovered.progress is not None:
            self.bench.journal.resume(recovered.notes)
        self._durable = self.bench.progress.epoch
        return []

    def on_processed(self, entry: Entry) -> None:
        self._processed = entry

    def on_window(self, epoch: int) -> None:
        if self._processed is not None:
            self.bench.acknowledge(self._processed)
        if self.saves:
            self._save()
        else:
            self._settle(epoch)

    def on_turn(self) -> bool:
        """Save what was not saved as its window closed."""
        if self._is_behind and self.bench.port.now() >= self._save_at:
            self._save()
        return False

    def _save(self) -> None:
        progress, now = self.bench.progress, self.bench.port.now()
        self._is_behind = True
        if len(self._under_way) >= SAVES_MAX or (now < self._save_at and not progress.last):
            return
        if not self._recorder.full:
            self._recorder.save_state(())
            self._window = progress.epoch
        self._recorder.retry()
        if not self._recorder.full:
            self._save_at = now + SAVE_EVERY_S
            self._is_behind = self._window < progress.epoch
            self._under_way.append(SavedState(self._recorder.state_number, self._window))

    def on_durable(self, number: int) -> None:
        while self._under_way and self._under_way[0].record <= number:
            self._settle(self._under_way.popleft().window)

    def _settle(self, window: int) -> None:
        self._durable = window
        if self.bench.journal is not None:
            self.bench.journal.durable(Epoch(window))

    @property
    def announced(self) -> int:
        return self._durable

    @property
    def safe(self) -> bool:
        return self._durable == self.bench.progress.epoch and self.bench.progress.last
