"""Scheme `partially_active` (PPA): a checkpoint per task, and senders that keep what the checkpoint lacks.

Each task saves its state by itself, at the first end of a window after `checkpoint_s`, with what it has put out and
its receivers may need once more. Then it tells its senders up to where they need not keep anything. Whoever dies
starts from its own checkpoint, gets from its senders what that lacks, and computes it in the same order as before, for
all inboxes are `ordered` (engine/flow/rotation.py): so it puts out the same blocks under the same numbers, and
receivers drop those that they have. Nobody else goes back.

A task without a state saves nothing that it has put out: it computes it again. Its checkpoint is a place in its inputs,
as old as what its receivers may need. So no item is saved but what leaves a state, or is fed back: in a circle of tasks
without a state, each would wait for the next one's checkpoint.

Without checkpoints (`checkpoint_s: null`, after Storm in PPA VI-A) destinations alone save their states. Others then
begin with an empty one, so far back that they have computed `replay_s` of their input again before they come to what
their receivers need. So nothing is lacking of a state that depends on no more than that.

There is room on a link again as soon as a block is processed, or waits for blocks of other links that may need that
room to come (Kahn, Parks: what is acknowledged must not depend on the order). What is kept beyond `memory_bytes` goes
to disk.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.digests import DigestNews, Digests
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.losses import NOTHING
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import INPUT, NOWHERE, Heard, LinkKey, TaskProgress, link_key, number_of
from riprap.engine.flow.rotation import Rotation
from riprap.engine.flow.scheme import Bench, Overtaken, Scheme
from riprap.engine.schemes.parts.in_place import InPlace
from riprap.engine.schemes.parts.lag import Lag
from riprap.engine.schemes.parts.recorder import Recorder, Recovered, take_over
from riprap.engine.schemes.parts.spool import Spool
from riprap.engine.schemes.parts.tentative import Tentative

MARKS = 16
"""Places that are noted within `replay_s`, without checkpoints."""
OTHERS_S = 1.0
"""At most, between two records of the other tasks then. Destinations save states, for what was announced must stay."""


@dataclass
class RestartPoint:
    """The end of a window that a new incarnation may start from."""

    progress: TaskProgress
    at: float
    """The moment, by the port's clock."""
    record: int = 0
    """The record that it was saved as; 0 while it was not."""


class PartiallyActive(Scheme):
    """One task's half."""

    saves = exact = ordered = True
    overtakes = False

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        every_s, has_state = options["checkpoint_s"], bench.operator.state is not None
        replays = every_s is None and has_state and not bench.layout.is_sink
        self._state = None if replays else bench.operator.state
        """The state, where it is saved."""
        self.recorder = Recorder(bench.port, bench.progress, self._state)
        self._keeps_output = self._state is not None or any(joint.feedback for joint in bench.layout.outputs)
        """True when it is saved: checkpoints need not wait for those of receivers then."""
        self._replay_s = float(options["replay_s"]) if replays else 0.0
        """So much is computed again before anything that a receiver may need."""
        self._every_s = self._replay_s / MARKS if replays else float(every_s or min(options["replay_s"], OTHERS_S))
        if replays:
            self.lacks = NOTHING._replace(theta=math.inf, share=math.inf)
        self._marked_s = bench.port.now()
        """When the newest mark was made."""
        self._owes_mark = False
        """One is due, once another copy has announced what was closed here: nothing further is processed before."""
        self._senders = {
            link_key(joint.edge, worker): [(joint.reply, copy) for copy in joint.with_copies(worker)]
            for joint in bench.layout.inputs
            for worker in joint.workers
        }
        self._loops = bench.layout.unawaited
        """The links whose blocks have no turns: supersteps say the same in whatever order these come."""
        self._marks: deque[RestartPoint] = deque()
        """Those that are not durable, oldest first."""
        self._safe = 0
        """The last window that a durable mark includes."""
        self._untold: dict[tuple[Edge, WorkerId], int] = {}
        """Of senders, by the way back to them, the number up to which they need keep nothing and have not heard it."""
        self._links = tuple(bench.outlet.all_links)
        self._spool, self._memory_bytes = Spool(), int(options["memory_bytes"])
        for link in self._links:
            link.retains = True
        in_place, after_s = not options["reconcile"], (options["tentative_after_ms"] or 0.0) / 1000
        self._digests = Digests(bench.layout.me, bench.port) if bench.layout.copied and not in_place else None
        self._news: dict[LinkKey, DigestNews] = {}
        """Of links whose senders have copies, what these are to be told."""
        self._lag, self._rebuild_after_s = Lag(), options["rebuild_after_s"]
        self._tentative: Tentative | InPlace | None = None
        self._in_place: InPlace | None = None
        """The same, where that is what it is."""
        if in_place:
            self._in_place = self._tentative = InPlace(bench, after_s, lambda: self._rotation)
            self.lacks = NOTHING._replace(items=math.inf, unacknowledged=math.inf)
        elif after_s:
            self._tentative = Tentative(bench, after_s, self.recorder.copy_state, self._on_taken)

    # order
    @cached_property
    def _rotation(self) -> Rotation:
        """Begun when the first block comes: all that was saved is restored by then."""
        progress, leads = self.bench.progress, self.bench.layout.leads
        awaited = [link for link in self._senders if link not in self._loops]
        links = [*awaited, *([INPUT] if self.bench.layout.is_source else [])]
        closed = {link: (progress.feedback if link in leads else progress.closed).get(link, 0) for link in links}
        return Rotation(closed, leads)

    def may_come(self, link: LinkKey) -> bool:
        return link == self._rotation.turn or link in self._loops

    def on_receive(self, entry: Entry) -> None:
        if self._in_place is not None and self._in_place.is_late(entry):
            self.bench.port.count("late_items_dropped", entry.block.items)
            return
        if entry.link not in self._loops:
            self._rotation.note(entry.block)
        if not entry.is_input:
            if "digests" in entry.block.meta:
                self._pass_on(entry)
            if self._tentative is not None:
                self._tentative.on_receive(entry)

    def _pass_on(self, entry: Entry) -> None:
        """Note what the sender's other copies are to be told of what it has put out."""
        link, sender = entry.link, entry.sender
        if sender is None or len(self._senders[link]) == 1:
            return
        news = self._news.get(link)
        if news is None or news.sender != sender:
            self._tell_news(link)
            news = self._news[link] = DigestNews(sender)
        news.add(entry.block.epoch, entry.block.meta["digests"])
        if entry.block.meta["last"] or news.due(self.bench.port.now()):
            self._tell_news(link)

    def _tell_news(self, link: LinkKey) -> None:
        """Tell all copies but the one that is heard. Who cannot be told now compares what is told next."""
        if (news := self._news.get(link)) is None or not (windows := news.taken(self.bench.port.now())):
            return
        for reply, copy in self._senders[link]:
            if copy != news.sender:
                self.bench.port.send(reply, copy, Block(Kind.REPLY, Epoch(0), meta={"digests": windows}))

    def may_process(self, entry: Entry) -> bool:
        return not self._owes_mark

    def on_turn(self) -> bool:
        if self._owes_mark:
            self._mark()
        if self._untold:
            self._tell()
        held, turn = self.bench.held, self._rotation.turn
        if turn is None or not held or self.bench.inbox:
            return False
        if held.get(turn):
            return True
        self._make_room()
        return False

    def _make_room(self) -> None:
        """Nothing can be taken before another link's block comes. What that may wait for is the rest of this window,
        and no more: so nobody runs ahead."""
        window = self.bench.progress.epoch + 1
        for waiting in self.bench.held.values():
            fresh = [*takewhile(lambda entry: not entry.acknowledged, reversed(waiting))]
            for entry in reversed([entry for entry in fresh if entry.block.epoch <= window]):
                self._on_taken(entry)

    def _on_taken(self, entry: Entry) -> None:
        """It waits on, and no longer takes up room on its link."""
        self.bench.acknowledge(entry)
        self._spool.note(entry.block, self._memory_bytes, self._kept)

    def on_processed(self, entry: Entry) -> None:
        self.bench.acknowledge(entry)

    def _look_for_gap(self, entry: Entry) -> None:
        """A replica that began from what was saved before its senders knew that it is to run may lack blocks that are
        gone. It begins anew: they keep them now."""
        waiting = self.bench.held.get(entry.link)
        last = number_of(waiting[-1].block) if waiting else self.bench.progress.heard[entry.link].at.number
        if number_of(entry.block) > last + 1:
            self.bench.port.report("overtaken", window=self.bench.progress.epoch, lacks_after=last)
            raise Overtaken

    # tentative output
    def on_arrival(self, entry: Entry) -> None:
        if self._in_place is None:
            self._look_for_gap(entry)
        if self._tentative is not None:
            self._tentative.on_arrival(entry)

    def on_tentative(self, link: LinkKey, block: Block) -> None:
        if self._tentative is not None:
            self._tentative.on_tentative(link, block)

    def on_sender_lost(self, link: LinkKey) -> None:
        if self._tentative is not None:
            self._tentative.on_sender_lost(link)

    def on_placed(self, link: OutletLink, heard: Heard, told: Sequence[np.ndarray]) -> None:
        if self._tentative is not None:
            self._tentative.on_placed(link)

    def aside(self) -> bool:
        return self._tentative is not None and self._tentative.step(self._rotation.turn)

    # what is kept
    @property
    def absent(self) -> Sequence[str]:
        return () if self._in_place is None else self._in_place.absent

    def on_put(self, link: OutletLink, block: Block, muted: bool) -> None:
        if block.kind == Kind.PUNCTUATION and (absent := self.absent):
            block.meta["absent"] = list(absent)
        if self._digests is not None and not link.to.copy and link.joint.is_awaited:
            self._digests.put(link.key, block)
        self._spool.note(block, self._memory_bytes, self._kept)

    def _kept(self) -> Iterator[Block]:
        for link in self._links:
            yield from link.held
            yield from link.waiting
        for waiting in self.bench.held.values():
            yield from (entry.block for entry in waiting)

    def on_needed(self, link: OutletLink, number: int) -> None:
        link.needed = number
        link.forget(number, 0)
        if self._digests is not None:
            of_copies = self.bench.outlet.links[link.key]
            self._digests.forget(link.key, min(one.needed for one in (of_copies, *of_copies.twins) if one.wanted))
        self._save()

    def on_digests(self, link: OutletLink, news: list[list[Any]]) -> None:
        if self._digests is not None:
            for window, told in news:
                self._digests.hear(link.key, window, link.to, told)
            self._look_at_lag(news[-1][0])

    def _look_at_lag(self, window: int) -> None:
        """The other copy has closed this window. Overtaken where this one is too far behind."""
        if self._rebuild_after_s is None:
            return
        now, closed = self.bench.port.now(), self.bench.progress.epoch
        self._lag.hear(window, now)
        behind_s = self._lag.behind_s(closed, now)
        if behind_s > self._rebuild_after_s:
            self.bench.port.report("overtaken", window=closed, other=window, behind_s=behind_s)
            raise Overtaken

    # checkpoints
    def on_window(self, epoch: int) -> None:
        is_whole = not self.absent
        if self._tentative is not None:
            self._tentative.on_window(epoch)
        if self.bench.journal is not None and (others := self.bench.journal.others):
            self._look_at_lag(others)
        is_due = is_whole and self.bench.port.now() - self._marked_s >= self._every_s
        if self.bench.progress.last or is_due:
            self._mark()

    def _mark(self) -> None:
        """This end of a window is one to start from; not while a state waits for room in the store, nor while what was
        closed before it may be lost with this copy."""
        self._owes_mark = self.bench.journal is not None and self.bench.journal.holds
        if self._owes_mark or (self._keeps_output and self.recorder.full):
            return
        self._marked_s = self.bench.port.now()
        if self._keeps_output:
            self.recorder.save_state(self.bench.outlet.pending())
        self._marks.append(RestartPoint(TaskProgress.unpack(self.bench.progress.pack()), self._marked_s))
        if self._keeps_output:
            self._note_saved()
        else:
            self._save()

    def _save(self) -> None:
        """Save the newest mark, where no output is saved, behind which is all that receivers may need, and before that
        the input that the state has to be computed from."""
        if self._keeps_output or self.recorder.full:
            return
        behind = [mark for mark in self._marks if self._is_behind(mark)]
        fit = [mark for mark in behind if not mark.record and mark.at <= behind[-1].at - self._replay_s]
        if not fit:
            return
        self.recorder.progress = fit[-1].progress
        self.recorder.save_progress(())
        for mark in fit[:-1]:
            self._marks.remove(mark)
        self._note_saved()

    def _is_behind(self, mark: RestartPoint) -> bool:
        sent = mark.progress.sent
        return all(link.needed >= sent.get(link.key, NOWHERE).number for link in self._links if link.wanted)

    def _note_saved(self) -> None:
        """The oldest mark without a record is the one that was saved last, once the store has taken it."""
        if not self.recorder.full:
            waiting = next((mark for mark in self._marks if not mark.record), None)
            if waiting is not None:
                waiting.record = self.recorder.state_number

    def on_durable(self, number: int) -> None:
        if self.recorder.full:
            self.recorder.retry()
            self._note_saved()
        while self._marks and 0 < self._marks[0].record <= number:
            progress = self._marks.popleft().progress
            self._safe = progress.epoch
            for link, senders in self._senders.items():
                self._untold |= dict.fromkeys(senders, progress.last_included(link))
        self._tell()
        self._save()
        if self.bench.progress.last and not self._is_marked:
            self._mark()  # there was no room when the last window ended, and no other end follows

    @property
    def _is_marked(self) -> bool:
        """True when the last window closed is a mark."""
        newest = self._marks[-1].progress.epoch if self._marks else self._safe
        return newest == self.bench.progress.epoch

    def _tell(self) -> None:
        """Have senders let go of what a durable mark includes; who is down hears it later. What they are to compare
        they must hear before."""
        for link in self._news if self._untold else ():
            self._tell_news(link)
        for (reply, worker), number in [*self._untold.items()]:
            if self.bench.port.send(reply, worker, Block(Kind.REPLY, Epoch(0), meta={"needed": number})):
                del self._untold[reply, worker]

    def on_begun(self, nbytes: int) -> None:
        self._safe = self.bench.progress.epoch

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        recovered = Recovered(state, [record for record in records if "version" in record.meta])
        take_over(self.bench.progress, recovered, self._state)
        self.recorder.go_on_from(recovered)
        self.bench.outlet.put_back(recovered.extras)
        self.bench.operator.recovered(self.lacks.theta, 0)
        self._safe = self.bench.progress.epoch
        if self._tentative is not None:
            self._tentative.on_restored()
        return []

    @property
    def safe(self) -> bool:
        return self._safe == self.bench.progress.epoch
