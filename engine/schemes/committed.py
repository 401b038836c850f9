"""The scheme of what stands around a coded stage that all the job goes through (LEC III-A): `erasure`, `replication`.

The state of a destination is saved as windows close, at most once in SAVE_EVERY_S; what it includes is acknowledged
once it is durable. Encoders keep the rest, and a source that starts again goes on behind what the destinations have. So
a destination that starts again gets once more what its saved state lacks, and computes the same: its results are
aggregated in the order of the stream. The coded stage itself needs no scheme.
"""

from __future__ import annotations

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


class Saved(NamedTuple):
    """A state that is under way to the servers: what it includes can be acknowledged and told once it is durable."""

    record: int
    window: int
    entries: list[Entry]
    last: bool


class Committed(Scheme):
    """One task's half. A destination that cannot be restored saves nothing, and its loss ends the job."""

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self.lacks = NOTHING
        self.saves = bench.layout.is_sink and bench.operator.is_restorable
        notes = bench.journal.notes if bench.journal is not None else dict
        self._recorder = Recorder(bench.port, bench.progress, bench.operator.state, notes)
        self._processed: list[Entry] = []
        """What no state includes that was saved."""
        self._under_way: list[Saved] = []
        self._save_at = 0.0  # not before
        self._window = self._durable = 0
        """The last window that was saved, and that is safe."""

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        recovered = Recovered(state, records)
        if state is None:
            return []
        take_over(self.bench.progress, recovered, self.bench.operator.state)
        self._recorder.go_on_from(recovered.version)
        if self.bench.journal is not None:
            self.bench.journal.resume(recovered.notes)
        self._window = self._durable = self.bench.progress.epoch
        return []

    def on_processed(self, entry: Entry) -> None:
        if self.bench.layout.is_sink:
            self._processed.append(entry)
        else:
            self.bench.acknowledge(entry)

    def on_window(self, epoch: int) -> None:
        self._save()

    def on_turn(self) -> bool:
        """Save what was not saved as its window closed."""
        if self._window < self.bench.progress.epoch:
            self._save()
        return False

    def _save(self) -> None:
        progress, now = self.bench.progress, self.bench.port.now()
        if not self.saves:
            self._settle(Saved(0, progress.epoch, self._take(), progress.last))
            return
        if len(self._under_way) >= SAVES_MAX or (now < self._save_at and not progress.last):
            return
        if self._recorder.full:
            self._recorder.retry()
        else:
            self._recorder.save_state(())
            self._under_way.append(Saved(0, progress.epoch, self._take(), progress.last))
        if not self._recorder.full:
            self._save_at = now + SAVE_EVERY_S
            self._under_way[-1] = saved = self._under_way[-1]._replace(record=self._recorder.state_number)
            self._window = saved.window

    def _take(self) -> list[Entry]:
        entries, self._processed = self._processed, []
        return entries

    def on_durable(self, number: int) -> None:
        while self._under_way and 0 < self._under_way[0].record <= number:
            self._settle(self._under_way.pop(0))

    def _settle(self, saved: Saved) -> None:
        self._window, self._durable = max(self._window, saved.window), saved.window
        for entry in saved.entries[-1:]:  # of one link, for a destination behind a coded stage has one
            self.bench.acknowledge(entry)
        if self.bench.journal is not None:
            self.bench.journal.durable(Epoch(self._durable))

    @property
    def announced(self) -> int:
        return self._durable

    @property
    def safe(self) -> bool:
        return self._durable == self.bench.progress.epoch and self.bench.progress.last
