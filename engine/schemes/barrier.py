"""Schemes `barrier` and `stop_the_world` (ABS 5.1.3 and 7.2): consistent checkpoints of the whole job, in no one's way.

The controller triggers a checkpoint at the sources (controller/checkpoints.py). Each saves where it is and sends a
barrier on all its links. A task waits at a link behind whose barrier it is, until the barriers of all links have come
and what came before them is processed; then it copies its state, sends its own barriers, and goes on. Feedback that
comes behind that copy and before the barrier of its link was on its way when the line was drawn: it is saved with the
state, and so is what could not be let in yet. Once all parts are safe the checkpoint is whole. After a loss all tasks
go back to the last whole one, and sources read on from there: each item counts once, and no output is announced that
could be taken back.

With the guarantee `at_least_once` only links that feed back wait: what is behind another one's barrier may be in the
state already, and is processed again after a loss; only windows that were closed by then are not. (What was fed back is
not said twice in a loop, which would take it for what comes next.)

Unaligned (or when it has waited for long enough), a task draws its line at the first barrier, or when it hears of the
checkpoint: what waits before it and behind it is saved too, as is what comes on each link until that link's barrier,
which overtakes what waits to leave. This is the algorithm of Chandy and Lamport (1985), so loops need nothing special.

So that barriers do not queue for long, no more waits before a task than it processes in a while (flow/backlog.py).

A task whose window is open for a loop always draws its line like that: what waits there is of later windows, and is
not processed before the loop has ended; for that it may need others, who are behind their lines already. For a
savepoint it waits until its loop has ended: what its peers say for that comes before their lines.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.links import Window
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import At, Heard, LinkKey, TaskProgress, link_key, number_of
from riprap.engine.flow.scheme import Bench, SavedPart, Scheme
from riprap.engine.schemes.parts.chain import Chain
from riprap.engine.schemes.parts.copies import bytes_of
from riprap.engine.schemes.parts.recorder import block_of, fields_of, plain, restored, type_of
from riprap.operators.outputs.transactional import TransactionalSink
from riprap.operators.states.base import Sliced


class Moving(NamedTuple):
    """A block that was on its way when the line was drawn."""

    link: LinkKey
    block: Block
    stage: str
    """It came from there; empty for what was to leave."""


@dataclass
class Cut:
    """A task as saved: all of it but for what is still to be heard on the links that are awaited."""

    progress: dict[str, Any]
    copy: Sliced
    came: list[Moving]
    leaving: list[Moving]
    awaited: set[LinkKey]
    notes: dict[str, Any]
    names: list[tuple[int, str]]
    """Of transactions that are not committed, each with the checkpoint that it came before."""
    aligned_s: float
    copy_s: float
    whole: Sliced | None = None
    """All of the state, until it is written to the directory of a savepoint; None where there is none to write."""
    savepoint: str = ""
    """The directory of a savepoint where the part is on disk; empty for none."""
    saved_as: int = 0
    nbytes: int = 0


@dataclass
class Line:
    """A checkpoint under way at this task."""

    number: int
    begun_at: float
    savepoint: str = ""
    """A second place for its parts, whole and aligned; empty for none."""
    came: set[LinkKey] = field(default_factory=set)
    """The links whose barrier has come."""
    passed: dict[LinkKey, Heard] = field(default_factory=dict)
    """Of links that do not wait: up to where they had been heard when their barrier came."""
    unaligned: bool = False
    """It is drawn at once, and what is on its way is saved."""
    turn: int | None = None
    """An aligned one is drawn when the entries up to this one are processed; None while barriers are awaited."""
    cut: Cut | None = None

    def is_behind(self, link: LinkKey, number: int) -> bool:
        """True for the number of a block that came behind the barrier of a link that did not wait."""
        return link in self.passed and number > self.passed[link].at.number


class Barrier(Scheme):
    """One task's half."""

    saves = exact = True
    window = Window(256, 1 << 23)  # barriers wait behind what is on its way, or it is saved

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        inputs = bench.layout.inputs
        self._forward = {link_key(joint.edge, w) for joint in inputs if not joint.feedback for w in joint.workers}
        self._links = {link_key(joint.edge, worker) for joint in inputs for worker in joint.workers}
        self._unaligned = options.get("alignment") == "unaligned"
        self._repeats = options.get("guarantee") == "at_least_once"
        patient = options.get("alignment") == "timeout"
        self._patience_s = options["alignment_timeout_ms"] / 1000 if patient else math.inf
        if debloat_ms := options.get("debloat_ms"):
            bench.receipts.debloat(debloat_ms / 1000, self.window.blocks)
        self._line: Line | None = None
        self._over = 0
        """Barriers up to this one hold nothing back."""
        self._triggered = self._told = 0
        """The checkpoint under way, and the newest that the controller has told of."""
        self._completed = 0
        self._closed: dict[int, int] = {}
        """The last window closed before each line that was drawn."""
        self._announced = 0
        self._chain = Chain(bench.operator.state)
        self._released = False
        self._names: list[tuple[int, str]] = []
        """Of transactions that are prepared: they are committed with the checkpoint, or a later one."""
        self._expected: dict[LinkKey, At] = {}
        """After a restoration, up to where each receiver must have heard us."""

    # what the controller says
    def on_checkpoint(self, triggered: int, completed: int, savepoint: str) -> None:
        if completed > self._completed:
            self._completed = completed
            self._announced = max(self._announced, self._closed.get(completed, 0))
            self._closed = {number: epoch for number, epoch in self._closed.items() if number > completed}
            self._commit(completed)
            self.bench.port.release(self._chain.complete(completed))
        self._triggered, self._told = triggered, max(self._told, triggered)
        line = self._line
        if line is not None and line.number <= self._told and line.number != triggered:
            self._give_up()
        may_begin = not self._forward or (self._unaligned and not savepoint)
        if triggered > self._over and self._line is None and may_begin:
            self._begin(triggered, savepoint)

    # what comes in
    def on_barrier(self, link: LinkKey, block: Block) -> None:
        number = block.epoch
        if number <= self._over and (self._line is None or number != self._line.number):
            return
        if self._line is None or number > self._line.number:
            self._give_up()
            self._begin(number, block.meta.get("savepoint", ""))
        line = self._line
        assert line is not None
        line.came.add(link)
        if self._repeats and not line.savepoint and link in self._forward:
            line.passed[link] = self._heard_of(link)
        if line.cut is not None:
            held = (entry for entry in self.bench.held.get(link, ()) if entry.block.kind != Kind.BARRIER)
            line.cut.came += (Moving(link, entry.block, entry.stage) for entry in held)
            line.cut.awaited.discard(link)
            self._save()
        elif line.turn is None and line.came >= self._forward:
            line.turn = self.bench.progress.received

    def has_passed(self, link: LinkKey, barrier: int) -> bool:
        line = self._line
        repeats = self._repeats and link in self._forward and not (line is not None and line.savepoint)
        return barrier <= self._over or repeats

    def _heard_of(self, link: LinkKey) -> Heard:
        """All that has come on a link, let in or not."""
        heard = copy.deepcopy(self.bench.progress.heard[link])
        for entry in self.bench.held.get(link, ()):
            if entry.block.kind != Kind.BARRIER:
                heard.note(entry.block)
        return heard

    def on_receive(self, entry: Entry) -> None:
        cut = self._line.cut if self._line is not None else None
        if cut is not None and entry.link in cut.awaited:
            cut.came.append(Moving(entry.link, _own(entry.block), entry.stage))

    def on_processed(self, entry: Entry) -> None:
        self.bench.acknowledge(entry)

    # the line
    def _begin(self, number: int, savepoint: str) -> None:
        unaligned = self._unaligned and not savepoint
        self._line = line = Line(number, self.bench.port.now(), savepoint, unaligned=unaligned)
        if not self._forward:
            line.turn = self.bench.progress.received
        elif self._patience_s < math.inf:
            self.bench.port.alarm(self._patience_s)

    def _give_up(self) -> None:
        if self._line is not None:
            if self._line.cut is not None and not self._line.cut.saved_as:
                self._chain.lose()
            self._over, self._line, self._released = max(self._over, self._line.number), None, True

    def on_turn(self) -> bool:
        line = self._line
        if line is not None and line.cut is None and self._may_draw(line):
            self._draw(line)
        elif line is not None and line.cut is not None and not line.cut.saved_as:
            self._save()
        released, self._released = self._released, False
        return released

    def _may_draw(self, line: Line) -> bool:
        """True when the state includes all that came before the barriers; when it need not, or is awaited no longer."""
        if not line.unaligned and not line.savepoint and self.bench.port.now() - line.begun_at >= self._patience_s:
            line.unaligned = True
        if self.bench.progress.iterating:
            line.unaligned = not line.savepoint
            return line.unaligned
        if line.unaligned or line.turn is None:
            return line.unaligned
        inbox = self.bench.inbox
        return not inbox or inbox[0].number > line.turn

    def _draw(self, line: Line) -> None:
        """Copy all that a new incarnation needs, and send the barriers."""
        bench, now = self.bench, self.bench.port.now
        began = now()
        if isinstance(bench.operator, TransactionalSink):
            name = bench.operator.pre_commit(line.number)
            self._names += [(line.number, name)] if name is not None else []
        leaving = list(self._leaving()) if line.unaligned else []
        came = [Moving(entry.link, entry.block, entry.stage) for entry in self._before(line)]
        progress = bench.progress.pack()
        progress["done"] = [
            [edge, task, line.passed[edge, task].pack() if line.is_behind((edge, task), done[0]) else done]
            for edge, task, done in progress["done"]
        ]
        notes = bench.journal.notes() if bench.journal is not None else {}
        line.cut = cut = Cut(
            progress, self._chain.copy(), came, leaving, self._links - line.came, notes,
            list(self._names), began - line.begun_at, 0.0,
        )  # fmt: skip
        if line.savepoint:
            cut.whole = cut.copy if cut.copy.backup.full else self._chain.copy_whole()
        cut.copy_s = now() - began
        bench.outlet.put_barrier(line.number, line.unaligned, line.savepoint)
        self._closed[line.number] = bench.progress.epoch
        self._over, self._released = line.number, True
        self._save()

    def _commit(self, completed: int) -> None:
        """Make visible what came before a checkpoint that is whole."""
        for number, name in self._names:
            if number <= completed:
                assert isinstance(self.bench.operator, TransactionalSink)
                self.bench.operator.commit(name)
        self._names = [(number, name) for number, name in self._names if number > completed]

    def _before(self, line: Line) -> Iterator[Entry]:
        """Entries before the line that are not processed, in the order of each link; the input is read again. Of links
        that are awaited what is held is noted later: as it is let in, or when their barriers come."""
        for entry in (*self.bench.inbox, *self.bench.feedback):
            if not (entry.is_input or line.is_behind(entry.link, number_of(entry.block))):
                yield entry
        for link, held in self.bench.held.items():
            if link not in line.came:
                continue
            for entry in held:
                if entry.block.kind == Kind.BARRIER:
                    if entry.block.epoch == line.number:
                        break  # what follows is behind the line
                elif not line.is_behind(link, number_of(entry.block)):
                    yield entry

    def _leaving(self) -> Iterator[Moving]:
        for link in self.bench.outlet.links.values():
            for block in link.waiting:
                if block.kind != Kind.BARRIER:
                    yield Moving(link.key, block, "")

    def _save(self) -> None:
        """Hand the part over once nothing of it is awaited; the store may have no room yet."""
        line = self._line
        cut = line.cut if line is not None else None
        if line is None or cut is None or cut.awaited or cut.saved_as:
            return
        if cut.whole is not None:
            meta, arrays = self._record(cut, cut.whole)
            written = self.bench.port.save_apart(line.savepoint, meta | {"checkpoint": line.number}, arrays)
            cut.whole, cut.savepoint = None, line.savepoint if written else ""
        meta, arrays = self._record(cut, cut.copy)
        cut.nbytes = bytes_of(arrays)
        cut.saved_as = self.bench.port.save("checkpoint", Epoch(line.number), meta, arrays)
        if cut.saved_as:
            self._chain.note_saved(line.number, cut.copy)
            self.bench.port.count("checkpoints")
            self.bench.port.count("checkpoint_bytes", cut.nbytes)

    def _record(self, cut: Cut, state: Sliced) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Fields and arrays of a part that holds this copy of the state."""
        arrays = list(state.arrays)
        moving = []
        for link, block, stage in (*cut.came, *cut.leaving):
            moving.append([list(link), stage, len(block.arrays), *fields_of(block)])
            arrays += block.arrays
        meta = {
            "progress": cut.progress, "state": len(state.arrays), **self._chain.fields(state),
            "came": len(cut.came), "moving": moving, "types": [type_of(array) for array in arrays],
            "notes": cut.notes, "names": cut.names,
        }  # fmt: skip
        return meta, [plain(array) for array in arrays]

    def on_durable(self, number: int) -> None:
        line = self._line
        if line is None or line.cut is None or not 0 < line.cut.saved_as <= number:
            return
        cut = line.cut
        self.part = SavedPart(line.number, cut.nbytes, cut.aligned_s * 1000, cut.copy_s * 1000, cut.savepoint)
        self._line = None

    # a new incarnation
    def on_begun(self, nbytes: int) -> None:
        self._chain.begin(nbytes)

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        bench, progress = self.bench, self.bench.progress
        entries: list[Entry] = []
        if state is None:  # no checkpoint was whole: all begin at the beginning
            for heard in progress.heard.values():
                heard.known = True
        else:
            entries = self._take_over(state, records)
            self._names = [(number, name) for number, name in state.meta["names"]]
        if isinstance(bench.operator, TransactionalSink):
            bench.operator.abort([name for _, name in self._names])
            self._commit(state.epoch if state is not None else 0)
        progress.failures.append(progress.epoch)
        self._announced = progress.epoch
        self._expected |= {key: progress.sent.get(key, At()) for key in bench.outlet.links if key not in self._expected}
        bench.operator.recovered(0.0, 0)
        return entries

    def _take_over(self, record: Block, earlier: Sequence[Block]) -> list[Entry]:
        bench, progress, meta = self.bench, self.bench.progress, record.meta
        heard = progress.heard
        vars(progress).update(vars(TaskProgress.unpack(meta["progress"])))
        progress.heard = {link: Heard() for link in heard} | progress.heard
        self._chain.restore(record, earlier)
        arrays = restored(record)
        if bench.journal is not None:
            bench.journal.resume(meta["notes"])
        at, entries = meta["state"], []
        for place, (link, stage, width, *fields) in enumerate(meta["moving"]):
            key, block = (link[0], link[1]), block_of(fields, arrays[at : at + width])
            at += width
            if place < meta["came"]:
                progress.heard[key].note(block)
                entries.append(Entry(0, key, block, stage=stage, acknowledged=True))
            else:
                self._expected.setdefault(key, At.before(block))
                bench.outlet.put_back([(key, block)])
        return entries

    def on_placed(self, link: OutletLink, heard: Heard, told: Sequence[np.ndarray]) -> None:
        """We have sent what was heard of us, or the checkpoint is no consistent cut (ABS 4.2.1)."""
        if self._repeats:
            self._put_out_again(link)
        expected = self._expected.pop(link.key, None)
        if expected is not None and heard.at != expected:
            raise JobFailed(
                f"a checkpoint does not fit together: {link.to} has {heard.at.number} blocks and {heard.at.items} items"
                f" of {link.joint.edge.name}, and {expected.number} and {expected.items} were sent",
                "go back to an earlier checkpoint; this is a bug of Riprap, please report it",
            )

    @staticmethod
    def _put_out_again(link: OutletLink) -> None:
        """Put out anew what is processed a second time: what comes again under a number may hold other items. What was
        fed back is left out, and gets no number: a loop would take it for what comes next."""
        if link.joint.feedback:
            link.logged = link.muted
        link.muted = {}

    @property
    def announced(self) -> int:
        return self._announced

    @property
    def safe(self) -> bool:
        return self._announced >= self.bench.progress.epoch


class StopTheWorld(Barrier):
    """The same, but nobody goes on before it is durable that the checkpoint is whole (Naiad's way, in ABS 6.0.4)."""

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self._stands_at = 0
        """The checkpoint that must be whole before this task goes on."""

    def _draw(self, line: Line) -> None:
        super()._draw(line)
        self._stands_at = line.number

    def may_process(self, entry: Entry) -> bool:
        return not self._stands_at

    def on_checkpoint(self, triggered: int, completed: int, savepoint: str) -> None:
        super().on_checkpoint(triggered, completed, savepoint)
        if self._stands_at <= self._told and self._stands_at != triggered:
            self._stands_at = 0


def _own(block: Block) -> Block:
    """A copy: once a block is acknowledged its memory is its sender's again."""
    arrays = tuple(np.array(array) for array in block.arrays)
    return Block(block.kind, block.epoch, block.key, block.items, arrays, meta=block.meta)
