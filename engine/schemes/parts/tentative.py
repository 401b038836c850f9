"""Tentative output of a task: when a lane begins, where its output goes, and when it is over (PPA V-B).

A lane begins when the task has waited for `after_s` for who is absent, or when tentative output reaches it. It is over
when the task itself has closed all windows that the lane has. So each window of which tentative output was shown is
followed by its exact output, by the same task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry, on_our_clock
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import LinkKey, TaskProgress, number_of
from riprap.engine.flow.scheme import Bench
from riprap.engine.schemes.parts.absent import Absent
from riprap.engine.schemes.parts.lane import Closed, Inflow, Lane
from riprap.engine.schemes.parts.lane_outlet import LaneOutlet
from riprap.operators.states.base import Backup

WAITING_MAX = 64
"""Blocks that may wait to leave on a link before the lane waits too."""


class Tentative:
    """Of one task. `copy_state` returns all of its state; `on_taken` is told of each entry that a lane has taken."""

    def __init__(
        self, bench: Bench, after_s: float, copy_state: Callable[[], Backup | None],
        on_taken: Callable[[Entry], None],
    ) -> None:  # fmt: skip
        self._bench, self._copy_state, self._on_taken = bench, copy_state, on_taken
        self._absent = Absent(bench, after_s)
        self._early: dict[LinkKey, list[Block]] = {}
        """Blocks for a lane that could not begin yet."""
        self._lane: Lane | None = None
        self._entries: dict[int, Entry] = {}
        """Of what waits for the lane, what waits for the task as well, by the identity of the block."""
        self._leaving: dict[OutletLink, deque[Block]] = {}
        self._ended: dict[LinkKey, int] = {}
        """Of each link, the block that was the end of a window, and taken in by the task last."""
        self._shown = 0
        """Windows of which the lane under way has shown something, at a destination."""

    # what happens
    def on_sender_lost(self, link: LinkKey) -> None:
        """One of those who send on a link died."""
        if self._absent.lose(link) and self._lane is not None:
            self._lane.inflows[link].is_absent = True
            self._tell_deserted(self._lane)

    def on_arrival(self, entry: Entry) -> None:
        """A block came in, exact, in its order."""
        self._absent.come(entry.link)
        if self._lane is not None:
            self._bring(self._lane, entry)

    def on_receive(self, entry: Entry) -> None:
        """The task takes a block in."""
        if entry.block.kind == Kind.PUNCTUATION:
            self._ended[entry.link] = number_of(entry.block)

    def on_restored(self) -> None:
        """The task is where a checkpoint was made, at the end of a window."""
        self._ended = {link: self._bench.progress.last_included(link) for link in self._absent.senders}

    def on_tentative(self, link: LinkKey, block: Block) -> None:
        """A block of a sender's lane came."""
        if "after" not in block.meta:
            self._absent.write_off(link)
            if self._lane is not None:
                self._lane.inflows[link].is_absent = True
                self._tell_deserted(self._lane)
            return
        on_our_clock(block, self._bench.port.now())
        if self._lane is not None:
            self._lane.inflows[link].waiting.append(block)
        elif block.epoch > self._bench.progress.epoch:
            self._early.setdefault(link, []).append(block)

    def on_placed(self, link: OutletLink) -> None:
        """A receiver, perhaps a new incarnation of it, has said how far it is."""
        if self._lane is not None and self._lane.is_deserted:
            self._leaving.setdefault(link, deque()).append(self._notice(self._lane))

    def on_window(self, epoch: int) -> None:
        """The task itself has closed a window."""
        self._early = {link: late for link, blocks in self._early.items() if (late := _behind(blocks, epoch))}
        if self._lane is not None and epoch >= self._lane.epoch:
            self._end(epoch)

    # what is done
    def step(self, turn: LinkKey | None) -> bool:
        """Begin, or go on, if it is time; `turn`: the link that the task takes its next block from. True when something
        was done."""
        self._absent.let_pass()
        self._send()
        if self._lane is None:
            return self._begin(turn)
        if any(len(blocks) > WAITING_MAX for blocks in self._leaving.values()):
            return False
        done = self._lane.step()
        if isinstance(done, Closed):
            self._show(done)
        elif done is not None:
            entry = self._entries.pop(id(done), None)
            if entry is not None:
                self._on_taken(entry)
        return done is not None

    def _begin(self, turn: LinkKey | None) -> bool:
        """Not in the middle of a block: what is in the inbox is the task's alone."""
        if self._bench.inbox or not (self._early or self._absent.is_overdue(turn)):
            return False
        bench, backup = self._bench, self._copy_state()
        assert bench.twin is not None, "a source has no senders"
        operator = bench.twin()
        if operator.state is not None and backup is not None:
            operator.state.recover_state(backup)
            operator.recovered(0.0, 0)
        progress = TaskProgress.unpack(bench.progress.pack())
        outlet = LaneOutlet(bench.layout, bench.port, progress, bench.outlet.files.tentative())
        self._lane = lane = Lane(bench.port, operator, outlet, dict(self._inflows()))
        for link in self._absent.senders:
            for entry in bench.held.get(link, ()):
                self._bring(lane, entry)
            lane.inflows[link].waiting.extend(self._early.pop(link, ()))
        bench.port.count("tentative_lanes")
        bench.port.count("tentative_now")
        self._tell_deserted(lane)
        return True

    def _inflows(self) -> Iterator[tuple[LinkKey, Inflow]]:
        progress = self._bench.progress
        for link, (stage, copies) in self._absent.senders.items():
            closed, number = progress.closed.get(link, 0), progress.last_included(link)
            began = (progress.epoch + 1, number) if number > self._ended.get(link, 0) else (0, 0)
            inflow = Inflow(stage, str(copies[0]), number, closed, began=began)
            inflow.is_absent = link in self._absent
            yield link, inflow

    def _bring(self, lane: Lane, entry: Entry) -> None:
        on_our_clock(entry.block, self._bench.port.now())
        lane.inflows[entry.link].waiting.append(entry.block)
        self._entries[id(entry.block)] = entry

    def _tell_deserted(self, lane: Lane) -> None:
        """Receivers need not wait for the windows of a lane to which nobody sends."""
        if lane.is_deserted:
            for link in self._bench.outlet.all_links:
                if link.wanted:
                    self._leaving.setdefault(link, deque()).append(self._notice(lane))

    def _notice(self, lane: Lane) -> Block:
        return Block(Kind.TENTATIVE, Epoch(lane.epoch + 1), meta={"absent": lane.absent})

    def _show(self, window: Closed) -> None:
        for key, block in window.blocks:
            link = self._bench.outlet.links[key]
            for one in (link, *link.twins):
                if one.wanted:
                    self._leaving.setdefault(one, deque()).append(block)
        journal = self._bench.journal
        if journal is None or not journal.writes:
            return
        journal.tentative(window.boundary, window.latency_s, window.absent, window.rows)
        self._bench.port.count("tentative_windows")
        if not self._shown:
            self._bench.port.report("tentative", window=window.boundary.epoch, absent=window.absent)
        self._shown += 1

    def _send(self) -> None:
        for link, blocks in self._leaving.items():
            if not link.may_send:
                blocks.clear()  # who is down, or hears another copy, has no use for it
            edge, to = link.joint.edge, link.to
            while blocks and self._is_next(link, blocks[0]) and self._bench.port.send(edge, to, blocks[0]):
                blocks.popleft()

    def _is_next(self, link: OutletLink, block: Block) -> bool:
        """True when all has left that the block stands behind."""
        return not link.waiting or number_of(link.waiting[0]) > block.meta.get("after", 0)

    def _end(self, epoch: int) -> None:
        """All that was shown is exact now."""
        self._bench.port.count("tentative_now", -1)
        self._lane = None
        self._entries.clear()
        self._leaving.clear()
        if self._shown:
            self._bench.port.report("amended", window=epoch, windows=self._shown)
        self._shown = 0


def _behind(blocks: list[Block], epoch: int) -> list[Block]:
    """Those of later windows."""
    return [block for block in blocks if block.epoch > epoch]
