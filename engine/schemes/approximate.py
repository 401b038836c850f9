"""Scheme `approximate` (AF 3.4): backups only when state or pending items have diverged by more than their thresholds.

state       A backup begins where the divergence crosses a part of theta. Nobody waits for it: input is acknowledged
            only while the state differs from what is durable by no more than theta. What is processed beyond that is
            acknowledged when a durable state includes it, and until then its sender can send it again. A source goes
            back to its last backup, so it loses nothing and needs no theta; its backups are made twice a second, of
            large states less often.
items       acknowledged on receipt as long as at most l of those that wait are not saved. Beyond that the sender keeps
            them, as long as it has room; when it says that it has none, all that wait are saved, and acknowledged when
            that is durable (3.4.2: backup and acknowledgement are the receiver's decision).
punctuation always saved, and what operators put out when they close a window.
output      at most gamma items are unacknowledged, beyond that the task waits; a block of more is saved, then sent. A
            source needs no bound: it goes back to what its receivers have.
"""

from __future__ import annotations

import math
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

TRIGGER = 0.5
"""The part of theta that starts a backup of the state."""
PAUSE_S, PAUSE = 0.05, 100
"""From one backup of the state to the next, unless a sender waits for it: so long at least, and so many times as long
as making it took."""
HALF_FULL = 0.5
"""The part of a link's window beyond which its sender is taken to wait for acknowledgements."""
SAVE_EVERY_S = 0.5
"""A source is restored to where its last backup is, and reads again from there."""
SAVE_BYTES_S = 8e6
"""Backups of a source's state take no more of the backup server than this."""
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
        self._queue: deque[Entry] = deque()
        """Entries that are saved or processed, and acknowledged once they, and all before them, are safe."""
        self._kept: Counter[LinkKey] = Counter()
        """Entries of each link that are not acknowledged. Nothing of the link is, before they are: a number covers all
        smaller ones."""
        self._leaving: deque[Entry] = deque()
        """Entries that are processed, while what they caused may be here; until it has left they count as waiting."""
        self._counted = True
        """Whether the failure before this life is durable. Until then nothing may be lost: a life that ends before is
        one that no later life knows of, and its thresholds would be used once more."""
        self._durable = 0
        self._covered = 0
        """The last entry that a durable state includes."""
        self._saving = 0  # the last one that the state under way includes
        self._under_way = 0.0  # the divergence that it was saved for
        self._save_again_at = 0.0
        self._refused = False
        self._set_limits()

    def _set_limits(self) -> None:
        progress = self.bench.progress
        limits = self.thresholds.after(progress.failures, progress.epoch)
        self.limits: Limits = limits if self._counted else Limits(0, 0, 0)
        self._set_theta()

    def _set_theta(self) -> None:
        """Kernels stop where a backup can be made, and only there."""
        state = self.bench.operator.state
        if state is not None and not self.bench.layout.is_source:
            state.theta = self.limits.theta * TRIGGER if self._may_save() else math.inf
            state.save_above = self.limits.theta * SAVE_ABOVE

    def _may_save(self) -> bool:
        return self._is_durable and self.bench.port.now() >= self._save_again_at

    def _divergence(self) -> float:
        """How far the state is from what is durable, at most."""
        state = self.bench.operator.state
        return 0.0 if state is None else self._under_way + state.state_divergence()

    def _pending(self) -> list[tuple[LinkKey, Block]]:
        """What has not arrived; of feedback only what somebody waits for, as models are large."""
        outlet = self.bench.outlet
        return [(key, block) for key, block in outlet.pending() if outlet.links[key].joint.awaited]

    def _save_state(self) -> None:
        self._under_way, self._saving = self._divergence(), self.bench.progress.included
        began = self.bench.port.now()
        self.recorder.save_state(self._pending())
        ended = self.bench.port.now()
        self._save_again_at = ended + max(PAUSE_S, PAUSE * (ended - began))
        self._set_theta()

    @property
    def _is_durable(self) -> bool:
        return not self.recorder.full and self.recorder.state_number <= self._durable

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        bench, recovered = self.bench, Recovered(state, records)
        former = recovered.progress or bench.progress
        before = self.thresholds.after(former.failures, former.epoch)
        take_over(bench.progress, recovered, bench.operator.state)
        self.recorder.go_on_from(recovered.version)
        replayed = recovered.latest_run()
        bench.outlet.put_back(recovered.extras)
        lacks = Limits(0, 0, 0) if bench.layout.is_source or bench.operator.state is None else before
        bench.operator.recovered(lacks.theta, int(lacks.items))
        self._counted = False
        self._set_limits()
        self._save_state()
        return replayed

    def on_receive(self, entry: Entry) -> None:
        if entry.is_input:
            return
        self._unsaved.append(entry)
        early = not is_punctuation(entry.block) and not self._kept[entry.link]
        early = early and self._divergence() <= self.limits.theta
        if early and self._exposed + entry.block.items <= self.limits.items:
            self._exposed += entry.block.items
            self.bench.acknowledge(entry)
            return
        self._kept[entry.link] += 1
        if entry.block.meta.get("urgent"):
            self._save_waiting()
            self._save_again_at = 0.0
        elif self._kept[entry.link] > self.window * HALF_FULL and self._is_durable:
            self._save_again_at = 0.0

    def _acknowledge(self, entry: Entry) -> None:
        self._kept[entry.link] -= 1
        self.bench.acknowledge(entry)

    def _save_waiting(self) -> None:
        """Save all that waits; what the store does not take stays unacknowledged, and is tried again."""
        while self._unsaved and (self._unsaved[0].record or self._save_block(self._unsaved[0])):
            entry = self._unsaved.popleft()
            if entry.acknowledged:
                self._exposed -= entry.block.items
            else:
                self._queue.append(entry)
        self._refused = bool(self._unsaved)

    def may_process(self, entry: Entry) -> bool:
        """Punctuation is saved when its turn has come, if not before."""
        state = self.bench.operator.state
        if state is not None and state.theta == math.inf and self._may_save():
            self._set_theta()
            if self._is_old() if self.bench.layout.is_source else state.exceeded:
                self._save_state()
        if entry.is_input or entry.record or not is_punctuation(entry.block):
            return True
        return self._save_block(entry)

    def _save_block(self, entry: Entry) -> bool:
        """Save an entry behind a state that includes all before it that nobody else will have: its record tells a new
        life that all of that has come. False when the store has no room."""
        if any(one.processed and not one.record and one.number > self._saving for one in self._queue):
            self._save_state()
        return not self.recorder.full and self.recorder.save_block(entry)

    def _is_old(self) -> bool:
        interval_s = max(SAVE_EVERY_S, self.recorder.state_bytes / SAVE_BYTES_S)
        return self.bench.port.now() >= self._save_again_at + interval_s

    def on_crossed(self) -> None:
        if self._may_save():
            self._save_state()

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
        else:
            entry.processed = True
            self._queue.append(entry)
            self._release()

    def _release(self) -> None:
        """Acknowledge what is safe, in order; see to it that the next becomes safe."""
        while self._queue and self._is_safe(self._queue[0]):
            self._acknowledge(self._queue.popleft())
        if self._queue and not self._queue[0].record and self._is_durable:
            if self._may_save():
                self._save_state()
            else:
                self.bench.port.alarm(PAUSE_S)

    def on_alarm(self) -> None:
        self._release()

    def _is_safe(self, entry: Entry) -> bool:
        if entry.record:
            return entry.record <= self._durable
        return entry.processed and (entry.number <= self._covered or self._divergence() <= self.limits.theta)

    def on_window(self, epoch: int) -> None:
        state = self.bench.operator.state
        if state is not None and state.cleared:
            self._save_state()
        elif not self.bench.layout.is_source:
            self.recorder.save_progress(self._pending())
        self._set_limits()

    def may_leave(self, link: OutLink, block: Block) -> bool:
        if self.bench.layout.is_source or link.joint.feedback or not block.items:
            return True
        if not self._counted:
            return False
        on_the_way = self.bench.outlet.unacknowledged_items()
        if on_the_way + block.items > URGENT * self.limits.unacknowledged:
            block.meta["urgent"] = True
        if on_the_way + block.items <= self.limits.unacknowledged:
            return True
        return on_the_way == 0 and self._guards(link.key, block)

    def _guards(self, link: LinkKey, block: Block) -> bool:
        """Whether a new life would put this out again. It is saved, unless it is."""
        if not self.recorder.holds(link, block) and not self.recorder.full:
            self.recorder.save_progress(self._pending())
            self._set_theta()
        return self.recorder.holds(link, block) and self._is_durable

    def on_sender_lost(self, link: LinkKey) -> None:
        """A source that starts again goes on behind what has come."""
        self._save_waiting()
        if self._kept[link] and self.bench.operator.state is not None:
            self._save_state()

    def settled(self, link: LinkKey) -> bool:
        return not self._kept[link]

    def on_durable(self, number: int) -> None:
        self._durable = number
        self.recorder.retry()
        if self._is_durable:
            self._covered, self._under_way = max(self._covered, self._saving), 0.0
            if not self._counted:
                self._counted = True
                self._set_limits()
        self._set_theta()
        self._release()
        if self._refused:
            self._save_waiting()

    @property
    def safe(self) -> bool:
        return self._is_durable
