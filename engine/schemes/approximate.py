"""Scheme `approximate` (AF 3.4): backups only when state or pending items have diverged by more than their thresholds.

state       saved when its divergence from what is durable may exceed theta. Half of theta starts a backup, and the other
            half is for what is processed until it is durable; then the task waits. So the bound holds at each moment.
items       acknowledged on receipt as long as at most l of those that wait are not saved; beyond that all that wait
            are saved, and acknowledged when that is durable. What is processed at once needs neither.
punctuation always saved.
output      at most gamma items are unacknowledged, beyond that the task waits. A source needs no bound: it goes back to
            what its receivers have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from codec.blocks import Block
from engine.dataflow.entry import Entry
from engine.dataflow.outlet import OutLink
from engine.schemes.dataflow import Bench, DataflowScheme
from engine.schemes.parts.recorder import Recorder, Recovered, is_punctuation, take_over
from engine.schemes.parts.thresholds import Limits, Thresholds

INBOX_MAX = 128
"""Beyond so many blocks that wait nothing is acknowledged until it is processed."""


class Approximate(DataflowScheme):
    """One task's half; there is nothing that sources and destinations do differently but reading and writing."""

    saves = True

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self.thresholds = Thresholds(options, bench.layout.parallelism, bench.layout.depth)
        self.recorder = Recorder(bench.port, bench.progress, bench.operator.state)
        self._exposed = 0
        """Items that wait, are acknowledged and not saved. Invariant: at most l."""
        self._unsaved: deque[Entry] = deque()
        """Entries that wait and are not saved, in the order of receipt; the acknowledged ones first."""
        self._saved: deque[Entry] = deque()  # and not acknowledged
        self._durable = 0
        self._set_limits()

    def _set_limits(self) -> None:
        progress = self.bench.progress
        self.limits: Limits = self.thresholds.after(progress.failures, progress.epoch)
        if self.bench.operator.state is not None:
            self.bench.operator.state.theta = self.limits.theta / 2

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        bench, recovered = self.bench, Recovered(state, records)
        before = self.thresholds.after(recovered.progress.failures if recovered.progress else (), bench.progress.epoch)
        take_over(bench.progress, recovered, bench.operator.state)
        self.recorder.go_on_from(recovered.version)
        replayed = recovered.latest_run()
        bench.outlet.put_back(recovered.extras)
        lacks = before if bench.operator.state is not None else Limits(0, 0, 0)
        bench.operator.recovered(lacks.theta, int(lacks.items))
        self._set_limits()
        return replayed

    def on_receive(self, entry: Entry) -> None:
        if entry.is_input:
            return
        if is_punctuation(entry.block):
            self._unsaved.append(entry)
            self._save_waiting()
        elif len(self.bench.inbox) > INBOX_MAX:
            self._unsaved.append(entry)  # more than can be used soon: the sender keeps it
        elif not self._unsaved_unacknowledged() and self._exposed + entry.block.items <= self.limits.items:
            self._exposed += entry.block.items
            self._unsaved.append(entry)
            self.bench.acknowledge(entry)
        else:
            self._unsaved.append(entry)
            if len(self.bench.inbox) > 1:
                self._save_waiting()

    def _unsaved_unacknowledged(self) -> bool:
        return bool(self._unsaved) and not self._unsaved[-1].acknowledged

    def _save_waiting(self) -> None:
        """Save all that waits; what the store does not take stays unacknowledged, and is tried again."""
        while self._unsaved and self.recorder.save_block(self._unsaved[0]):
            entry = self._unsaved.popleft()
            if entry.acknowledged:
                self._exposed -= entry.block.items
            else:
                self._saved.append(entry)

    def may_process(self, entry: Entry) -> bool:
        state = self.bench.operator.state
        self.recorder.retry()
        if self.recorder.full:
            return False
        return state is None or not state.exceeded or self._state_is_durable()

    def _state_is_durable(self) -> bool:
        """A state that crossed theta again is saved as soon as the save before it is durable."""
        if self.recorder.state_number > self._durable:
            return False
        self.recorder.save_state(self.bench.outlet.pending())
        return not self.recorder.full

    def on_crossed(self) -> None:
        if self.recorder.state_number <= self._durable and not self.recorder.full:
            self.recorder.save_state(self.bench.outlet.pending())

    def on_processed(self, entry: Entry) -> None:
        if self._unsaved and self._unsaved[0] is entry:
            self._unsaved.popleft()
            if entry.acknowledged:
                self._exposed -= entry.block.items
        if not entry.record:
            self.bench.acknowledge(entry)

    def on_window(self, epoch: int) -> None:
        state, pending = self.bench.operator.state, self.bench.outlet.pending()
        if state is not None and state.cleared:
            self.recorder.save_state(pending)
        elif not self.bench.layout.is_source:
            self.recorder.save_progress(pending)
        self._set_limits()

    def may_leave(self, link: OutLink, block: Block) -> bool:
        if link.joint.feedback or self.bench.layout.is_source or not block.items:
            return True
        on_the_way = self.bench.outlet.unacknowledged_items()
        return on_the_way == 0 or on_the_way + block.items <= self.limits.unacknowledged

    def on_durable(self, number: int) -> None:
        self._durable = number
        while self._saved and self._saved[0].record <= number:
            self.bench.acknowledge(self._saved.popleft())
        if self._unsaved_unacknowledged():
            self._save_waiting()

    @property
    def safe(self) -> bool:
        return not self.recorder.full and self.recorder.state_number <= self._durable
