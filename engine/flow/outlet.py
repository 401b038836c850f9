"""An operator's output: numbered, dealt to links, held back where a link or the scheme says so."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.clock import opened
from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.layout import Joint, Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.outlet_link import OutletLink, first_kept
from riprap.engine.flow.progress import NOWHERE, WINDOW, At, Cause, Heard, LinkKey, TaskProgress, link_key, number_of
from riprap.engine.flow.window_files import WindowFiles
from riprap.operators import returns
from riprap.operators.keyed import shares
from riprap.operators.states.checks import Keys

if TYPE_CHECKING:
    from riprap.engine.flow.port import Port  # whose package imports this module

PLACES = 1 << 20
"""Siblings that each item of a cause has room for. The names of all that a block makes are in order, in however many
parts it is processed, and a new incarnation that goes on within a block gives the same names."""


class Leave(Protocol):
    """The part of a scheme that is about what leaves (engine/flow/scheme.py)."""

    def on_emit(self, link: OutletLink, block: Block) -> None:
        """A block stands last on a link, waiting to leave."""

    def may_leave(self, link: OutletLink, block: Block) -> bool:
        """True when the block may be sent now."""

    @property
    def waiting_max(self) -> int:
        """Blocks that may wait to leave on a link while more is processed."""

    @property
    def window(self) -> Window:
        """The limit on unacknowledged blocks."""


class Outlet:
    """The Emitter of an operator (operators/dataflow.py). Nothing here waits: what cannot leave is kept in order,
    and the task processes nothing more until it has left.
    """

    scheme: Leave
    on_put: Callable[[OutletLink, Block, bool], None] | None = None
    """The scheme's hook, where it has one."""
    ends_feedback = False
    """True when the end of a window is put on edges that lead back too, but for loops."""

    def __init__(self, layout: Layout, port: Port, progress: TaskProgress, files: WindowFiles) -> None:
        self.layout, self.port, self.progress = layout, port, progress
        self.links = {link_key(j.edge, to): OutletLink(j, to) for j in layout.outputs for to in j.workers}
        for joint in layout.outputs:
            for to in joint.copies:
                self.links[link_key(joint.edge, to)].twins += (OutletLink(joint, to),)
        self.all_links = self._with_twins()
        """Those to replicas of receivers too."""
        self.epoch = Epoch(0)
        self.files = files
        self._forward = [joint for joint in layout.outputs if not joint.feedback]
        self._back = [joint for joint in layout.outputs if joint.feedback]
        self.train: Callable[[Epoch, Sequence[np.ndarray]], None] | None = None
        """Takes what is fed back to a coded stage (engine/spreads/end.py)."""
        self._cause: tuple[LinkKey, int] = ((0, 0), 0)
        self._siblings: dict[LinkKey, int] = {}
        self._before = -1
        """The sibling before the first one."""
        self._dealt = 0
        self._stands_by: bool | None = None
        """As it was told last; None before a receiver has answered."""

    def begin(self, epoch: Epoch, link: LinkKey, number: int, first: int = 0) -> None:
        """This block, from its item `first` on, causes what is sent from now on."""
        self.epoch, self._cause, self._before = epoch, (link, number), first * PLACES - 1
        self._siblings.clear()
        self._dealt = zlib.crc32(b"%d %d %d" % (*link, number))

    def begin_loop(self, epoch: Epoch) -> None:
        """The loop of a window sends from now on. All that it sends has the window as its cause, whatever
        came last, so a new incarnation that hears its peers in another order puts out the same blocks under the same
        names.
        """
        self.begin(epoch, WINDOW, epoch)
        self._siblings.update(self.progress.siblings)

    def rest_loop(self) -> None:
        """The loop goes on when more has come back: note how far its output is."""
        self.progress.siblings = dict(self._siblings)

    # what operators call
    def send(self, arrays: Sequence[np.ndarray], count: int, to: int | None = None, stage: str | None = None) -> None:
        arrays, count = returns.sent("out.send", arrays, count)
        self._emit(Kind.DATA, self._joint(self._forward, stage), arrays, count, to)

    def send_row(self, pieces: tuple[np.ndarray, ...], count: int) -> None:
        """Items for a coded stage, cut into its pieces: more arrays than a message carries."""
        self._emit(Kind.DATA, self._joint(self._forward, None), pieces, count, None)

    def send_by_key(self, keys: Keys, columns: Sequence[np.ndarray] = (), stage: str | None = None) -> None:
        arrays, _ = returns.sent("out.send_by_key", columns, 0)
        joint = self._joint(self._forward, stage)
        if joint.partitioning != "full":
            raise JobFailed(
                f"{joint.edge.name} is {joint.partitioning}, and keys are dealt out over all tasks",
                "give the edge the partitioning full",
            )
        for share in shares(keys, arrays, len(joint.workers)):
            self._emit(Kind.DATA, joint, share.arrays, share.items, share.task)

    def feed_back(
        self, arrays: Sequence[np.ndarray], count: int = 1, to: int | None = None, stage: str | None = None
    ) -> None:
        arrays, count = returns.sent("out.feed_back", arrays, count)
        if self.train is not None:
            self.train(self.epoch, arrays)
            return
        self._emit(Kind.FEEDBACK, self._joint(self._back, stage), arrays, count, to)

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        self.files.write(name, self.epoch, returns.written(name, arrays))

    def watermark(self, at: int) -> None:
        self.progress.times.promise(returns.watermark(at, self.promised))

    def idle(self) -> None:
        self.progress.times.quiet = True

    @property
    def event_time(self) -> int | None:
        return self.progress.times.now

    @property
    def promised(self) -> int | None:
        return self.progress.times.promised

    def punctuate(self, items: int, opened_at: float, last: bool) -> None:
        """Close the window on all data links; its items are shared out, so that they add up at the destinations. Where
        they are to know, those to whom it fed back hear last that this was all."""
        links = [link for link in self.links.values() if not link.joint.feedback]
        told = self.progress.times.told()
        for i, link in enumerate(links):
            share = items * (i + 1) // len(links) - items * i // len(links)
            meta = {"items": share, "last": last} | opened(opened_at, self.port.now()) | told
            self._put(link, Block(Kind.PUNCTUATION, self.epoch, meta=meta))
        for link in self.links.values() if self.ends_feedback else ():
            if link.joint.feedback and link.joint.is_awaited:
                meta = {"items": 0, "last": last} | opened(opened_at, self.port.now())
                self._put(link, Block(Kind.PUNCTUATION, self.epoch, meta=meta))

    def put_barrier(self, checkpoint: int, overtakes: bool, savepoint: str = "") -> None:
        """Part what was put out on all links, back edges too, from what will be: behind what waits, or before it."""
        meta = {"savepoint": savepoint} if savepoint else {}
        for link in self.links.values():
            barrier = Block(Kind.BARRIER, Epoch(checkpoint), meta=dict(meta))
            link.may_part = True
            if overtakes:
                link.waiting.appendleft(barrier)
            else:
                link.waiting.append(barrier)

    def _joint(self, joints: list[Joint], stage: str | None) -> Joint:
        found = [joint for joint in joints if stage in (None, joint.stage)]
        if len(found) != 1:
            names = ", ".join(joint.stage for joint in joints) or "none"
            raise JobFailed(
                f"{self.layout.me} sends to stage {stage!r}, but its edges lead to {names}",
                "name one of them in send(..., stage=...), or correct the topology's edges",
            )
        return found[0]

    def _emit(self, kind: Kind, joint: Joint, arrays: tuple[np.ndarray, ...], count: int, to: int | None) -> None:
        for worker in self._receivers(joint, to):
            link = self.links[link_key(joint.edge, worker)]
            self._put(link, Block(kind, self.epoch, items=count, arrays=arrays))

    def _receivers(self, joint: Joint, to: int | None) -> Sequence[WorkerId]:
        if to is not None:
            found = [worker for worker in joint.workers if worker.index == to]
            if not found:
                raise JobFailed(f"{joint.edge.name}: no task {to} is joined to {self.layout.me}", "send to one that is")
            return found
        if joint.partitioning not in ("split", "stripe") or joint.feedback:
            return joint.workers
        self._dealt += 1  # from a place that the cause decides, so that what is computed again goes where it went
        turn = self._dealt % len(joint.workers)
        return joint.workers[turn : turn + 1]

    def _put(self, link: OutletLink, block: Block) -> None:
        cause, number = self._cause
        sibling = self._siblings.get(link.key, self._before) + 1
        self._siblings[link.key] = sibling
        if (number, sibling) <= link.logged.get(cause, (-1, -1)):
            return
        made = (number, sibling)
        muted = link.has_come(block, cause, made)
        at = self.progress.sent.get(link.key, NOWHERE)
        if not muted:
            at = max(at, link.came)
        block.meta["cause"] = Cause(*cause, number, sibling)
        self.progress.sent[link.key] = at.put(block, self.layout.me.index, link.to.index)
        for twin in link.twins:
            if twin.wanted:
                self._put_on(twin, block, twin.has_come(block, cause, made))
        self._put_on(link, block, muted)

    def _put_on(self, link: OutletLink, block: Block, muted: bool) -> None:
        if block.kind != Kind.DATA:
            link.last = block
        if self.on_put is not None:
            self.on_put(link, block, muted)
        if muted:
            self.port.count("muted_blocks")
            (link.held if link.placed else link.waiting).append(block)
            return
        link.waiting.append(block)
        self.scheme.on_emit(link, block)

    # what the task calls
    def _with_twins(self) -> tuple[OutletLink, ...]:
        return tuple(one for link in self.links.values() for one in (link, *link.twins))

    def link_to(self, edge: Edge, worker: WorkerId) -> OutletLink:
        """The link on an edge to a worker."""
        link = self.links[link_key(edge, worker)]
        return link if link.to == worker else next(twin for twin in link.twins if twin.to == worker)

    @property
    def placed(self) -> bool:
        """True when of all receivers one copy has said how far it is."""
        return all(any(one.placed for one in (link, *link.twins)) for link in self.links.values())

    @property
    def blocked(self) -> bool:
        """True when too much waits on a data link. For a receiver that is down nothing may: whoever runs ahead of it
        takes the processors from its next incarnation, for which all will wait. A copy that lags, or is down, holds
        nobody up while another copy does not."""
        for link in self.links.values():
            if link.joint.feedback or not self._is_blocked(link):
                continue
            if all(self._is_blocked(twin) for twin in link.twins if twin.wanted):
                return True
        return False

    def _is_blocked(self, link: OutletLink) -> bool:
        if link.is_silent or link.overflows:
            return False
        return link.is_over or len(link.waiting) > (self.scheme.waiting_max if link.placed else 0)

    def flush(self) -> None:
        """Send what waits, in order, as far as the links and the scheme allow."""
        for link in self.all_links:
            if link.held:
                link.release(self.port.unacknowledged(link.joint.edge, link.to))
            if link.is_over:
                link.is_over = self.port.unacknowledged(link.joint.edge, link.to) > self.scheme.window.blocks
            if link.waiting:
                self._send_what_waits(link)
            if link.overflows:
                link.overflows = bool(link.waiting)

    def _send_what_waits(self, link: OutletLink) -> None:
        while link.waiting and link.may_send:
            block = link.waiting[0]
            if not self.scheme.may_leave(link, block) or not self._sent(link, block):
                break
            link.waiting.popleft()
            link.sent(block)

    def _sent(self, link: OutletLink, block: Block) -> bool:
        """Put a block on its link; where that is full, only for the sake of a barrier."""
        edge = link.joint.edge
        if self.port.send(edge, link.to, block):
            return True
        link.may_part = link.may_part and any(one.kind == Kind.BARRIER for one in link.waiting)
        if not link.may_part:
            return False
        link.is_over = True
        return self.port.send(edge, link.to, block, urgent=True)

    def want(self, worker: WorkerId, wanted: bool) -> None:
        """A replica of a receiver is to run from now on, or is not to."""
        for link in self.links.values():
            for twin in link.twins:
                if twin.to == worker and twin.wanted != wanted:
                    twin.begin_as(link) if wanted else twin.end()

    def of_worker(self, worker: WorkerId) -> Iterator[OutletLink]:
        """The links to a worker."""
        return (link for link in self.all_links if link.to == worker)

    def lost(self, worker: WorkerId) -> None:
        """A receiver died: what it had not acknowledged waits for its next incarnation."""
        for link in self.of_worker(worker):
            link.take_back(self.port.kept(link.joint.edge, worker))

    def forget(self) -> None:
        """Nothing was put out: all of it comes once more."""
        for key, link in self.links.items():
            self.links[key] = OutletLink(link.joint, link.to)
        self.all_links = self._with_twins()

    def place(self, link: OutletLink, heard: Heard, is_silent: bool = False, was: int = 0) -> None:
        """The receiver has said what came: the rest is sent (again), and nothing comes twice; or kept until it asks."""
        lost_another = link.placed and link.is_silent and not is_silent  # a receiver that began anew has lost nobody
        link.is_silent = is_silent
        link.place(heard, was)
        self._repeat_last(link, heard)
        self._note_role(lost_another)

    def _note_role(self, takes_over: bool) -> None:
        """Tell whether this task stands by: all receivers that have answered hear another copy of it. A destination
        does so while it does not write, whoever hears what it feeds back. It takes over where a receiver that heard
        another copy has turned to this one."""
        if self.layout.is_sink:
            return
        before, stands_by = self._stands_by, all(link.is_silent for link in self.all_links if link.placed)
        if stands_by != before:
            self._stands_by = stands_by
            self.port.count("standby", stands_by - bool(before))
            if takes_over:
                self.port.report("took_over")

    def _repeat_last(self, link: OutletLink, heard: Heard) -> None:
        """A receiver that has lost the last punctuation or feedback would wait for it for ever."""
        last = link.last
        if last is None or (heard.known and heard.at.number >= number_of(last)) or last in link.waiting:
            return
        link.waiting.appendleft(last)

    def pending(self) -> Iterator[tuple[LinkKey, Block]]:
        """Blocks put out and not acknowledged, in order: a new incarnation must be able to send them again. So must it
        the last punctuation or feedback, whoever has it: that may be a receiver whose scheme saves nothing."""
        for link in (min((link, *link.twins), key=first_kept) for link in self.links.values()):
            is_kept_there = link.placed and not link.retains  # what retains has it in `held` too
            on_the_way = self.port.kept(link.joint.edge, link.to) if is_kept_there else []
            blocks = [*link.held, *on_the_way, *link.waiting]
            last = link.last if link.joint.is_awaited and not link.retains else None
            if last is not None and (not blocks or number_of(last) < number_of(blocks[0])):
                yield link.key, last
            for block in blocks:
                yield link.key, block

    def put_back(self, pending: Iterable[tuple[LinkKey, Block]]) -> None:
        """Restore a former incarnation's output; each receiver says what of it has come."""
        for key, block in pending:
            for link in (self.links[key], *self.links[key].twins):
                if not link.wanted:
                    continue
                link.waiting.append(block)
                link.may_part = True
                if block.kind != Kind.DATA:
                    link.last = block

    def mute_put_out(self, pending: Iterable[tuple[LinkKey, Block]]) -> None:
        """Of what was put back, causes that the restored state does not include come again, perhaps behind others than
        before: what they made is there already."""
        for key, block in pending:
            edge, task, number, _ = block.meta["cause"]
            if number > self.progress.last_included((edge, task)):
                self.links[key].mute(block)

    def put_back_logged(self, sent: Iterable[tuple[LinkKey, Block]]) -> None:
        """Restore a former incarnation's later output: it is not put out once more."""
        for key, block in sent:
            if number_of(block) > self.progress.sent.get(key, NOWHERE).number:
                self.put_back([(key, block)])
                self.progress.sent[key] = At.behind(block)
                self.links[key].mute(block)

    def unacknowledged_items(self) -> int:
        """Items that are on the way on all data links together."""
        return sum(
            link.unacknowledged_items(self.port.unacknowledged(link.joint.edge, link.to))
            for link in self.links.values()
            if not link.joint.feedback
        )
