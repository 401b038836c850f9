"""Scheme `approximate` (AF 3.4): backups only when state or pending items have diverged by more than their thresholds.

state       saved when its divergence from what is durable may exceed theta. Most of theta starts a backup, and the rest
            is for what is processed until it is durable; then the task waits. So the bound holds at each moment.
items       acknowledged on receipt as long as at most l of those that wait are not saved. Beyond that the sender keeps
            them, as long as it has room; when it says that it has none, all that wait are saved, and acknowledged when
            that is durable (3.4.2: backup and acknowledgement are the receiver's decision).
punctuation always saved, and what operators put out when they close a window.
output      at most gamma items are unacknowledged, beyond that the task waits; a block of more is saved, then sent. A
            source needs no bound: it goes back to what its receivers have.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from codec.blocks import Block
from engine.dataflow.entry import Entry
from engine.dataflow.outlet import OutLink
from engine.dataflow.progress import LinkKey
from engine.schemes.dataflow import Bench, DataflowScheme
from engine.schemes.parts.recorder import Recorder, Recovered, is_punctuation, take_over
from engine.schemes.parts.thresholds import Limits, Thresholds

TRIGGER = 0.75
"""The part of theta that starts a backup of the state."""
SAVE_ABOVE = 0.1
"""The part of theta by which an entry of a state must have changed to be in a partial backup, where it can tell."""
URGENT = 0.5
"""The part of gamma beyond which a sender asks for acknowledgements."""


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
        """Entries that wait and are not saved, in the order of receipt."""
        self._saved: deque[Entry] = deque()
        """Entries that are acknowledged once they, and all before them, are durable or processed."""
        self._kept: Counter[LinkKey] = Counter()
        """Entries of each link that are not acknowledged. Nothing of the link is, before they are: a number covers all
        smaller ones."""
        self._leaving: deque[Entry] = deque()
        """Entries that are processed, while what they caused may be here; until it has left they count as waiting."""
        self._guarded: Block | None = None
        """What is larger than gamma, and leaves when it is durable."""
        self._durable = 0
        self._refused = False
        self._set_limits()

    def _set_limits(self) -> None:
        progress = self.bench.progress
        self.limits: Limits = self.thresholds.after(progress.failures, progress.epoch)
        self._set_theta()

    def _set_theta(self) -> None:
        """Until the newest backup is durable only the rest of theta is left."""
        if self.bench.operator.state is not None:
            share = TRIGGER if self._is_durable else 1 - TRIGGER
            self.bench.operator.state.theta = self.limits.theta * share
            self.bench.operator.state.save_above = self.limits.theta * SAVE_ABOVE

    @property
    def _is_durable(self) -> bool:
        return not self.recorder.full and self.recorder.state_number <= self._durable

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
        self._unsaved.append(entry)
        early = not is_punctuation(entry.block) and not self._kept[entry.link]
        if early and self._exposed + entry.block.items <= self.limits.items:
            self._exposed += entry.block.items
            self.bench.acknowledge(entry)
            return
        self._kept[entry.link] += 1
        if entry.block.meta.get("urgent"):
            self._save_waiting()

    def _acknowledge(self, entry: Entry) -> None:
        self._kept[entry.link] -= 1
        self.bench.acknowledge(entry)

    def _save_waiting(self) -> None:
        """Save all that waits; what the store does not take stays unacknowledged, and is tried again."""
        while self._unsaved and (self._unsaved[0].record or self.recorder.save_block(self._unsaved[0])):
            entry = self._unsaved.popleft()
            if entry.acknowledged:
                self._exposed -= entry.block.items
            else:
                self._saved.append(entry)
        self._refused = bool(self._unsaved)

    def may_process(self, entry: Entry) -> bool:
        """Not while the state is further from what is durable than theta.

        Punctuation is saved when its turn has come, if not before: its record tells a new life that all before it came.
        """
        state = self.bench.operator.state
        if state is not None and state.exceeded:
            self.on_crossed()
            if state.exceeded:
                return False
        if entry.is_input or entry.record or not is_punctuation(entry.block):
            return True
        return self.recorder.save_block(entry)

    def on_crossed(self) -> None:
        if self._is_durable:
            self.recorder.save_state(self.bench.outlet.pending())
            self._set_theta()

    def on_processed(self, entry: Entry) -> None:
        self._leaving.append(entry)

    def on_left(self) -> None:
        while self._leaving:
            self._settle(self._leaving.popleft())

    def _settle(self, entry: Entry) -> None:
        if entry not in self._unsaved:
            return
        self._unsaved.remove(entry)  # feedback overtakes what came before it
        if entry.acknowledged:
            self._exposed -= entry.block.items
        elif self._saved or entry.record > self._durable:
            self._saved.append(entry)
        else:
            self._acknowledge(entry)

    def on_window(self, epoch: int) -> None:
        state, pending = self.bench.operator.state, self.bench.outlet.pending()
        if state is not None and state.cleared:
            self.recorder.save_state(pending)
        elif not self.bench.layout.is_source:
            self.recorder.save_progress(pending)
        self._set_limits()

    def may_leave(self, link: OutLink, block: Block) -> bool:
        if self.bench.layout.is_source or link.joint.feedback or not block.items:
            return True
        on_the_way = self.bench.outlet.unacknowledged_items()
        if on_the_way + block.items > URGENT * self.limits.unacknowledged:
            block.meta["urgent"] = True
        if on_the_way + block.items <= self.limits.unacknowledged:
            return True
        return on_the_way == 0 and self._guards(block)

    def _guards(self, block: Block) -> bool:
        """Whether a new life would put this out again. It is saved, unless it is."""
        if self._guarded is not block and not self.recorder.full:
            self.recorder.save_progress(self.bench.outlet.pending())
            self._guarded = block
            self._set_theta()
        return self._guarded is block and self._is_durable

    def on_sender_lost(self, link: LinkKey) -> None:
        self._save_waiting()  # a source that starts again goes on behind what has come

    def settled(self, link: LinkKey) -> bool:
        return not self._kept[link]

    def on_durable(self, number: int) -> None:
        self._durable = number
        self.recorder.retry()
        self._set_theta()
        while self._saved and self._saved[0].record <= number:
            self._acknowledge(self._saved.popleft())
        if self._refused:
            self._save_waiting()

    @property
    def safe(self) -> bool:
        return self._is_durable
