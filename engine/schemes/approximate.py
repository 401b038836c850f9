"""Scheme `approximate` (AF 3.4): backups only when state or pending items have diverged by more than their thresholds.

state       A backup begins where the divergence crosses a part of theta. Nobody waits for it: input is acknowledged
            only while the state differs from what is durable by no more than theta. What is processed beyond that is
            acknowledged when a durable state includes it, and until then its sender can send it again. A source goes
            back to its last backup, so it loses nothing and needs no theta; its backups are made by a timer.
items       acknowledged on receipt as long as at most l of those that wait are not saved. Beyond that the sender keeps
            them, as long as it has room; when it says that it has none, all that wait are saved, and acknowledged when
            that is durable (3.4.2: backup and acknowledgement are the receiver's decision).
punctuation acknowledged when a durable state includes it, and so is what operators put out when they close a window.
            It costs no backup of its own: the sender keeps it, and what it sends behind it, until the next one. Where
            the sender's window fills up meanwhile, the progress is saved alone, if the state has not diverged.
feedback    that nobody waits for (ASP) is acknowledged at once: newer feedback follows.
output      at most gamma items are unacknowledged, beyond that the task waits; a block of more is saved, then sent. A
            source needs no bound: it goes back to what its receivers have.

All of this decides what is acknowledged; how soon the next backup is made only decides when (parts/pacing.py).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.links import Window
from riprap.engine.flow.outlet import PLACES
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import WINDOW, Heard, LinkKey
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.schemes.parts.pacing import Pacing
from riprap.engine.schemes.parts.recorder import Extras, Recorder, Recovered, is_punctuation, take_over
from riprap.engine.schemes.parts.thresholds import Limits, Thresholds

TRIGGER = 0.5
"""The part of theta that starts a backup of the state."""
NEAR = 0.5
"""The part of that beyond which kernels stop at the item; before, the divergence is looked at behind each block."""
HALF_FULL = 0.5
"""The part of a link's window that may wait for a durable state. What waits to be processed waits for no backup."""
SAVE_EVERY_S = 0.5
"""A source is restored to where its last backup is, and reads again from there."""
COLD_BYTES = 1 << 22
"""Blocks kept of a link beyond that fall out of the caches of its sender, at more cost than a record of progress."""
MUCH_BYTES, LOOK_AGAIN_S, PATIENCE_S = 1 << 16, 0.01, 1.0
"""A source's backup holds its output that has not arrived: while that is so much, it waits for acknowledgements."""
SAVE_ABOVE = 0.1
"""The part of theta by which an entry of a state must have changed to be in a partial backup, where it can tell."""
URGENT = 0.5
"""The part of gamma beyond which a sender asks for acknowledgements."""


class Approximate(Scheme):
    """One task's half; there is nothing that sources and destinations do differently but reading and writing."""

    saves = reorders = True

    window = Window(1024, 1 << 24)
    """Small blocks pass in numbers, so that a state is not saved each tenth of a second for them."""

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
        self._queued: Counter[LinkKey] = Counter()
        self._queued_bytes: Counter[LinkKey] = Counter()
        """Number of blocks of each link that this is."""
        self._kept: Counter[LinkKey] = Counter()
        """Entries of each link that are not acknowledged. Nothing of the link is, before they are: a number covers all
        smaller ones."""
        self._leaving: deque[Entry] = deque()
        """Entries that are processed, while what they caused may be here; until it has left they count as waiting."""
        self._counted = True
        """True when the failure before this incarnation is durable. Until then nothing may be lost: an incarnation that
        ends before is one that no later incarnation knows of, and its thresholds would be used once more."""
        self._durable = 0
        self._window = self._saved_window = bench.progress.epoch
        """The last window that is closed durably, and the one that the newest record under way has. A new incarnation
        would go on from the former, and count the failure there; so limits are raised no sooner."""
        self._turn = 0
        """The last entry that was processed, in this order; so are `_covered`, the last one that a durable state
        includes, and `_saving`, that the state under way does."""
        self._covered = self._saving = 0
        self._closed = self._closing = 0
        """The same of durable progress, while the state was no further than theta from what is durable."""
        self._under_way = 0.0  # the divergence that it was saved for
        self._emptied = False
        """True when the state was emptied since its last backup: nobody knows how far it was from what is durable."""
        self._refused = False
        self._pacing = Pacing(bench.port, bench.cpu_share, SAVE_EVERY_S if bench.layout.is_source else 0.0)
        self._set_limits()

    def _set_limits(self) -> None:
        limits = self.thresholds.after(self.bench.progress.failures, self._window)
        self.limits: Limits = limits if self._counted else Limits(0, 0, 0)
        self._set_theta()

    def _set_theta(self) -> None:
        """Kernels stop nowhere, before `_look` says so."""
        state = self.bench.operator.state
        if state is not None and not self.bench.layout.is_source:
            state.theta, state.save_above = math.inf, self.limits.theta * SAVE_ABOVE
            state.share = self.limits.share * TRIGGER

    def _look(self) -> None:
        """Make the backup that is due, for theta or for what was saved behind the last one. Kernels stop at the item
        only when theta is near: what a block does beyond it is not acknowledged before it is durable, so the bound
        holds wherever they stop."""
        state = self.bench.operator.state
        if (state is None and not self.recorder.needs_base) or not self._may_save():
            return
        if state is None:
            self._save_progress()
            return
        if self.bench.layout.is_source:
            self._save_state()
            return
        state.theta = self.limits.theta * TRIGGER
        if state.exceeded or self.recorder.needs_base:
            self._save_state()
        elif state.state_divergence() <= state.theta * NEAR:
            state.theta = math.inf

    def _may_save(self) -> bool:
        return self._is_durable and self._pacing.is_due and not self._is_crowded()

    def _is_crowded(self) -> bool:
        """At a source: so much of its output has not arrived that a backup had better wait, for a while."""
        if not self.bench.layout.is_source or self._pacing.late_s > PATIENCE_S:
            return False
        sizes = accumulate(block.nbytes for _, block in self._pending())
        if all(size <= MUCH_BYTES for size in sizes):
            return False
        self._pacing.put_off(LOOK_AGAIN_S)
        return True

    def _divergence(self) -> float:
        """Most that the state may differ from what is durable."""
        state = self.bench.operator.state
        if state is None:
            return 0.0
        return self._under_way + (math.inf if self._emptied else state.state_divergence())

    def _pending(self) -> Iterator[tuple[LinkKey, Block]]:
        """Blocks not arrived; of feedback only what somebody waits for, as models are large."""
        outlet = self.bench.outlet
        return ((key, block) for key, block in outlet.pending() if outlet.links[key].joint.is_awaited)

    def _save_state(self) -> None:
        self._under_way, self._saving, self._emptied = self._divergence(), self._turn, False
        self._save(self.recorder.save_state)
        self._set_theta()

    def _save_progress(self) -> None:
        """Save progress without the state, which must be no further than theta from the durable one; with it where a
        state is to be saved anyway."""
        if self.recorder.needs_state:
            self._save_state()
            return
        self._closing = self._turn
        self._save(self.recorder.save_progress)

    def _save(self, record: Callable[[Extras], None]) -> None:
        """Save with what has not arrived, and count what it costs."""
        began = self.bench.port.now()
        record(self._pending())
        self._saved_window = self.bench.progress.epoch
        self._pacing.made(began, self.recorder.size)

    @property
    def _is_durable(self) -> bool:
        return not self.recorder.full and self.recorder.state_number <= self._durable

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        bench, recovered = self.bench, Recovered(state, records)
        former = recovered.progress or bench.progress
        before = self.thresholds.after(former.failures, former.epoch)
        lacked = [self.thresholds.after(former.failures[:i], epoch) for i, epoch in enumerate(former.failures)]
        take_over(bench.progress, recovered, bench.operator.state)
        self.recorder.go_on_from(recovered)
        replayed = recovered.latest_run()
        bench.outlet.put_back(recovered.extras)
        bench.outlet.mute_put_out(recovered.extras)
        for link in bench.outlet.links.values():
            self._leave_out_the_rest(link.logged)
        self.lacks = Limits(0, 0, 0) if bench.layout.is_source else before
        self.lacked = [] if bench.layout.is_source else lacked
        lacks = Limits(0, 0, 0) if bench.operator.state is None else self.lacks
        bench.operator.recovered(lacks.theta, int(lacks.items) if math.isfinite(lacks.items) else lacks.items)
        self._counted = False
        self._set_limits()
        self._save_state()
        return replayed

    def on_placed(self, link: OutletLink, heard: Heard, told: Sequence[np.ndarray]) -> None:
        self._leave_out_the_rest(link.muted)

    def _leave_out_the_rest(self, names: dict[LinkKey, tuple[int, float]]) -> None:
        """These are the last names of what a former incarnation put out. Where it went further in a block than the
        state, nobody knows where it stopped, and this one stops elsewhere: the rest of the block is lost, lest it count
        twice."""
        progress = self.bench.progress
        if self.bench.operator.state is None:
            return
        in_part = {link: items for (link, _), items in progress.partial.items()}
        for cause, (number, sibling) in names.items():
            ahead = number - progress.last_included(cause) if cause != WINDOW else 0
            if ahead > 1 or (ahead == 1 and sibling >= in_part.get(cause, 0) * PLACES):
                names[cause] = number, math.inf

    def on_receive(self, entry: Entry) -> None:
        if entry.is_input:
            return
        if entry.link in self.bench.layout.unawaited:
            self.bench.acknowledge(entry)
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
            self._pacing.press()

    def _acknowledge_when_safe(self, entry: Entry) -> None:
        self._queue.append(entry)
        self._queued[entry.link] += 1
        self._queued_bytes[entry.link] += entry.block.nbytes
        much = self._queued_bytes[entry.link] > self.window.nbytes * HALF_FULL
        if (much or self._queued[entry.link] > self.window.blocks * HALF_FULL) and self._is_durable:
            self._pacing.press()

    def _acknowledge(self, entry: Entry) -> None:
        self._queued[entry.link] -= 1
        self._queued_bytes[entry.link] -= entry.block.nbytes
        self._kept[entry.link] -= 1
        self.bench.acknowledge(entry)

    def _save_waiting(self) -> None:
        """Save all that waits; what the store does not take stays unacknowledged, and is tried again."""
        while self._unsaved and (self._unsaved[0].record or self._save_block(self._unsaved[0])):
            entry = self._unsaved.popleft()
            if entry.acknowledged:
                self._exposed -= entry.block.items
            else:
                self._acknowledge_when_safe(entry)
        self._refused = bool(self._unsaved)

    def may_process(self, entry: Entry) -> bool:
        """Always; a backup that has become due is made first."""
        self._look()
        return True

    def _save_block(self, entry: Entry) -> bool:
        """Save an entry behind a state that includes all before it that nobody else will have: its record tells a new
        incarnation that all of that has come. False when the store has no room."""
        if any(not one.record and one.turn > self._saving for one in self._queue):
            self._save_state()
        return not self.recorder.full and self.recorder.save_block(entry)

    def on_crossed(self) -> None:
        if self._may_save():
            self._save_state()

    def on_processed(self, entry: Entry) -> None:
        self._turn += 1
        entry.turn = self._turn
        self._leaving.append(entry)
        if entry.block.kind != Kind.PUNCTUATION:  # else `on_window` must be told first
            self._look()

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
            self._acknowledge_when_safe(entry)
            self._release()

    def _release(self) -> None:
        """Acknowledge what is safe, in order; see to it that the next becomes safe."""
        while self._queue and self._is_safe(self._queue[0]):
            self._acknowledge(self._queue.popleft())
        if self._queue and not self._queue[0].record and self._is_durable:
            self._secure()

    def _secure(self) -> None:
        """Make the backup that the oldest entry waits for, if it may be made: the cheap one, if that is enough."""
        is_due = self._may_save()
        if self._divergence() <= self.limits.theta and (is_due or max(self._queued_bytes.values()) > COLD_BYTES):
            self._save_progress()
        elif is_due:
            self._save_state()
        else:
            self.bench.port.alarm(self._pacing.wait_s)

    def on_alarm(self) -> None:
        self._release()

    def _is_safe(self, entry: Entry) -> bool:
        if entry.record:
            return entry.record <= self._durable
        if entry.turn <= self._covered:
            return True
        if is_punctuation(entry.block):
            return entry.turn <= self._closed
        return self._divergence() <= self.limits.theta

    def on_window(self, epoch: int) -> None:
        """No backup is due for it: what closed the window is kept by its senders."""
        state = self.bench.operator.state
        self._emptied |= state is not None and state.cleared

    def may_leave(self, link: OutletLink, block: Block) -> bool:
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
        """True when a new incarnation would put this out again. It is saved, unless it is."""
        if not self.recorder.holds(link, block) and not self.recorder.full:
            if self.recorder.needs_state:
                self._save_state()
            else:
                self.recorder.save_output(self._pending())
                self._set_theta()
        return self.recorder.holds(link, block) and self._is_durable

    def on_sender_lost(self, link: LinkKey) -> None:
        """A source that starts again goes on behind what has come."""
        self._save_waiting()
        if self._kept[link]:
            self._save_state()

    def settled(self, link: LinkKey) -> bool:
        return not self._kept[link]

    def on_durable(self, number: int) -> None:
        self._durable = number
        self.recorder.retry()
        if self._is_durable:
            self._covered, self._under_way = max(self._covered, self._saving), 0.0
            self._closed = max(self._closed, self._closing)
            if not self._counted or self._window < self._saved_window:
                self._counted, self._window = True, self._saved_window
                self._set_limits()
        self._release()
        if self._refused:
            self._save_waiting()

    @property
    def safe(self) -> bool:
        return self._is_durable
