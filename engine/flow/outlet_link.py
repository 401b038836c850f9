"""One link out of a task: what waits for it, what is on the way, and what is kept."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import WorkerId
from riprap.engine.flow.layout import Joint
from riprap.engine.flow.progress import At, Heard, LinkKey, link_key, number_of


class OutletLink:
    """One link out of a task: what waits for it, and what is on the way (for the bound on unacknowledged items)."""

    def __init__(self, joint: Joint, to: WorkerId) -> None:
        self.joint, self.to, self.key = joint, to, link_key(joint.edge, to)
        self.waiting: deque[Block] = deque()
        self.may_part = False
        """True when a barrier may be among what waits; False when none is."""
        self.is_over = False
        """True when more is on the way than the window, for a barrier's sake."""
        self.placed = False
        """True when the present incarnation of the receiver has said how far it is."""
        self.came = At()
        """Up to where the receiver has heard the incarnations of this task before."""
        self.muted: dict[LinkKey, tuple[int, float]] = {}
        """The last causes of that. What is computed again of them is not sent."""
        self.logged: dict[LinkKey, tuple[int, float]] = {}
        """The last causes of what was put back."""
        self.held: deque[Block] = deque()
        """Blocks that came but may die with the receiver: they are known safe once something newer is acknowledged."""
        self.closed = 0
        """The last window whose punctuation the receiver has."""
        self.read = 0
        """The last window whose punctuation it has had, before a rollback too."""
        self.last: Block | None = None  # punctuation or feedback: what a receiver that starts again must have
        self.retains = False
        """True when all that left stays held, acknowledged or not, until `forget`. A scheme says so at the start."""
        self.is_silent = False
        """True when the receiver hears another copy of this task: what is put out waits, until it asks for it."""
        self.overflows = False
        """True when as much as there is may wait, for a receiver that was down for long: a scheme says so, and it is
        over when all has left."""
        self.twins: tuple[OutletLink, ...] = ()
        """The links to active replicas of the receiver, which get the same blocks under the same numbers."""
        self.wanted = True
        """False of a link to a replica that is not to run now: nothing is put on it."""
        self.needed = 0
        """The receiver needs nothing up to this number any more, as a scheme has been told that lets go of it."""
        self._counts: deque[int] = deque()
        self._items = self._newer = 0

    @property
    def may_send(self) -> bool:
        """True when what waits may go, as far as the receiver is concerned."""
        return self.placed and not self.is_silent

    def has_come(self, block: Block, cause: LinkKey, made: tuple[int, int]) -> bool:
        """True when the receiver has this already, from a former incarnation: what a block of the cause made, by its
        number and the place among its siblings.

        An incarnation that lacks some of the state may make less of the same cause, so the end of a window is known by
        the window: taken for a sibling that came, it would never be sent.
        """
        if block.kind == Kind.PUNCTUATION:
            return block.epoch <= self.closed
        return made <= self.muted.get(cause, (-1, -1))

    def mute(self, block: Block) -> None:
        """This was put back: what its cause has made up to it is not put out once more."""
        edge, task, number, sibling = block.meta["cause"]
        self.logged[edge, task] = (number, sibling)

    def sent(self, block: Block) -> None:
        """A block left."""
        self._counts.append(block.items)
        self._items += block.items
        self._newer += 1
        if self.retains:
            self.held.append(block)

    def unacknowledged_items(self, blocks: int) -> int:
        """Items on the way, when so many blocks are."""
        while len(self._counts) > blocks:
            self._items -= self._counts.popleft()
        return self._items

    def release(self, blocks: int) -> None:
        """So many blocks are on the way; if some are not any more, what came before them is safe."""
        if self.held and self._newer > blocks and not self.retains:
            self.held.clear()

    def forget(self, number: int, checkpoint: int) -> None:
        """Let go of all that was retained up to a block, and to the barrier of a checkpoint; nor does what a silent
        link has not sent have to leave any more."""
        for kept in (self.held, *([self.waiting] if self.is_silent else [])):
            while kept and (
                kept[0].epoch <= checkpoint if kept[0].kind == Kind.BARRIER else number_of(kept[0]) <= number
            ):
                kept.popleft()

    def begin_as(self, other: OutletLink) -> None:
        """Its receiver is to run from now on, and begins from what another copy of it has saved: so it needs what is
        kept for that one."""
        self.wanted, self.needed, self.last, self.may_part = True, other.needed, other.last, True
        self.waiting.extend((*other.held, *other.waiting))

    def end(self) -> None:
        """Its receiver is not to run any more."""
        self.wanted = self.placed = False
        self.last = None
        self.waiting.clear()
        self.held.clear()

    def take_back(self, kept: Sequence[Block]) -> None:
        """The receiver died, and these were on the way: they wait for its next incarnation, with what is not safe."""
        self.release(len(kept))
        back = self.held if self.retains else sorted([*self.held, *kept], key=number_of)  # what is muted came late
        self.waiting.extendleft(reversed(back))
        self.held.clear()
        self.placed, self.may_part = False, True
        self._counts.clear()
        self._items = self._newer = 0

    def place(self, heard: Heard, was: int) -> None:
        """The receiver has said what came; the rest waits to be sent (again). Something may have come under another
        number, before what now stands before it."""
        self.placed, self.closed, self.muted = True, heard.closed, {**heard.causes}
        self.read = max(heard.closed, was)
        self.came = heard.at if heard.known else At()
        barriers: list[Block] = []  # have no number
        while self.waiting and number_of(self.waiting[0]) <= self.came.number:
            block = self.waiting.popleft()
            (barriers if block.kind == Kind.BARRIER else self.held).append(block)
        self.waiting.extendleft(reversed(barriers))
        rest, self.waiting = self.waiting, deque()
        for block in rest:
            (self.held if self._came_before(block) else self.waiting).append(block)

    def _came_before(self, block: Block) -> bool:
        if block.kind != Kind.DATA:
            return False
        edge, task, number, sibling = block.meta["cause"]
        return self.has_come(block, (edge, task), (number, sibling))


def first_kept(link: OutletLink) -> float:
    """The number from which on a link has kept its blocks; infinite where it has none."""
    return min((number_of(queue[0]) for queue in (link.held, link.waiting) if queue), default=math.inf)
