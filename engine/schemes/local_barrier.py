"""Scheme `barrier` with `recovery: local` (after Clonos): only who is lost goes back to the last whole checkpoint.

Its senders keep what they have sent since, in memory up to `memory_bytes` and then on disk, and send it again; its
receivers have gone on, so it must put out the same under the same numbers. Operators do, if they take the same blocks
in the same order, and that is what the next incarnation learns from its receivers (engine/flow/turns.py): what one of
them has seen follows from the turns that came with it. Behind those it is free, for nobody has seen anything of them.
What its receivers have is not sent again, but kept for them.

It draws no line before it has taken those turns: what it has put out by then is all that was heard of it, so the
checkpoint fits together. A checkpoint under way is given up by any loss. Until one is whole with it in, it owes its
neighbours what they rely on: if one of them is lost too, all go back (engine/schemes/plans.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Kind
from riprap.codec.errors import JobFailed
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.flow.progress import INPUT, NOWHERE, Heard, LinkKey, number_of
from riprap.engine.flow.scheme import Bench
from riprap.engine.flow.turns import Turns, pack, unpack
from riprap.engine.schemes.barrier import Barrier, Line
from riprap.engine.schemes.parts.spool import Spool


class LocalBarrier(Barrier):
    """One task's half."""

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self._index = {link: index for index, link in enumerate(sorted({INPUT, *self._links}))}
        """The number of each link in: any two incarnations count alike."""
        self._turns = Turns()
        self._shown: dict[LinkKey, int] = {}
        """Of each link out, up to which turn its blocks have told."""
        self._lines: dict[int, tuple[int, dict[LinkKey, int]]] = {}
        """Of each line that was drawn: the turns before it, and the number of the last block on each link."""
        self._heard: dict[LinkKey, Turns] = {}
        """The turns of each sender since the last whole checkpoint, as far as it has told."""
        self._barriers: dict[int, dict[LinkKey, int]] = {}
        """Of each checkpoint, the turns of senders that had been told when their barriers came."""
        self._told_of: dict[LinkKey, Turns] = {}
        """Our turns, as receivers tell of them, while not all have."""
        self._again: deque[int] | None = None
        """The turns to be taken as a former incarnation took them; None when that is done."""
        self._is_ordered = True
        """False while a new incarnation does not know that order."""
        self._lets_in = False
        """True when the last of them was taken, and what waited meanwhile is let in."""
        self._numbers: dict[LinkKey, int] = {}
        """Of each link out, the number of the last block."""
        self._spool, self._memory_bytes = Spool(), int(options["memory_bytes"])
        for link in bench.outlet.links.values():
            link.retains = True

    # its turns
    def on_take(self, entry: Entry) -> None:
        if self._again:
            self._again.popleft()
        self._turns.note(self._index[entry.link])

    def may_come(self, link: LinkKey) -> bool:
        if self._again is None:
            return self._is_ordered
        inbox = self.bench.inbox
        return bool(self._again) and self._again[0] == self._index[link] and (not inbox or inbox[0].link != link)

    def may_process(self, entry: Entry) -> bool:
        return not self._again or self._again[0] == self._index[entry.link]

    def on_put(self, link: OutletLink, block: Block, muted: bool) -> None:
        before = self._shown.get(link.key, self._turns.start)
        block.meta["turns"] = pack(before, self._turns.behind(before))
        self._shown[link.key] = self._turns.end
        self._check_repeated(link, block, muted)
        self._spool.note(block, self._memory_bytes, self._kept)

    def _kept(self) -> Iterator[Block]:
        return (block for link in self.bench.outlet.links.values() for block in link.held)

    def _check_repeated(self, link: OutletLink, block: Block, muted: bool) -> None:
        """A former incarnation put out what the receiver has: as many blocks of the same causes, as many items."""
        number, came = number_of(block), link.came
        expected = self._numbers.get(link.key, number - 1) + 1
        counts = number != came.number or self.bench.progress.sent[link.key] == came
        if number != expected or muted != (number <= came.number) or not counts:
            raise JobFailed(
                f"{self.bench.layout.me} has put out something else than before it was lost: block {expected} to"
                f" {link.to} on {link.joint.edge.name}, of cause {list(block.meta['cause'])}",
                "have its operator compute the same from the same items, or set fault_tolerance.recovery to global",
            )
        self._numbers[link.key] = number

    # those of its senders
    def on_receive(self, entry: Entry) -> None:
        super().on_receive(entry)
        if "turns" in entry.block.meta:
            self._heard.setdefault(entry.link, Turns()).extend(*unpack(entry.block.meta["turns"]))

    def told(self, link: LinkKey) -> tuple[np.ndarray, ...]:
        turns = self._heard.get(link, Turns())
        return np.array([turns.start], np.int64), np.frombuffer(turns.behind(0), np.uint8)

    # checkpoints
    def on_barrier(self, link: LinkKey, block: Block) -> None:
        number = block.epoch
        if self._is_over(number):
            self._over = max(self._over, number)
        if link in self._heard:
            self._barriers.setdefault(number, {})[link] = self._heard[link].end
        super().on_barrier(link, block)

    def _is_over(self, checkpoint: int) -> bool:
        """True when a checkpoint was given up, or is whole."""
        return checkpoint <= self._told and checkpoint != self._triggered

    def _draw(self, line: Line) -> None:
        progress = self.bench.progress
        progress.turns = self._turns.end
        sent = {key: progress.sent[key].number for key in self.bench.outlet.links if key in progress.sent}
        self._lines[line.number] = self._turns.end, sent
        super()._draw(line)

    def on_checkpoint(self, triggered: int, completed: int, savepoint: str) -> None:
        if completed > self._completed:
            self._forget(completed)
        super().on_checkpoint(triggered, completed, savepoint)

    def _forget(self, completed: int) -> None:
        """A checkpoint is whole: nobody goes back behind it any more."""
        if completed in self._lines:
            turns, sent = self._lines[completed]
            for key, link in self.bench.outlet.links.items():
                link.forget(sent.get(key, 0), completed)
                self._shown[key] = max(self._shown.get(key, 0), turns)
            self._turns.forget(min(self._shown.values(), default=turns))
        for sender, place in self._barriers.get(completed, {}).items():
            self._heard[sender].forget(place)
        self._lines = {number: line for number, line in self._lines.items() if number > completed}
        self._barriers = {number: ends for number, ends in self._barriers.items() if number > completed}

    # a new incarnation
    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        entries = super().restore(state, records)
        progress = self.bench.progress
        self._turns = Turns(progress.turns if state is not None else 0)
        self._numbers = {key: progress.sent.get(key, NOWHERE).number for key in self.bench.outlet.links}
        self._over = int(state.epoch) if state is not None else 0
        self._is_ordered = not self.bench.outlet.links
        return entries

    def on_placed(self, link: OutletLink, heard: Heard, told: Sequence[np.ndarray]) -> None:
        turns = _turns_of(told)
        if turns.end > self._turns.end and heard.at.number > self.bench.progress.sent.get(link.key, NOWHERE).number:
            self._expected.pop(link.key, None)  # it has not gone back to the checkpoint
        super().on_placed(link, heard, told)
        for block in [block for block in link.waiting if block.kind == Kind.BARRIER and self._is_over(block.epoch)]:
            link.waiting.remove(block)
        self._check_kept(link)
        if not self._is_ordered:
            self._told_of[link.key] = turns
            if self.bench.outlet.placed:
                self._order()

    def _check_kept(self, link: OutletLink) -> None:
        """All that the receiver lacks is here, or it cannot go on."""
        following = next((number_of(b) for b in link.waiting if b.kind != Kind.BARRIER), None)
        if following is not None and following != link.came.number + 1:
            raise JobFailed(
                f"{link.to} lacks the blocks from {link.came.number + 1} to {following - 1} of {link.joint.edge.name},"
                " and nobody has kept them",
                "resume the job from its last checkpoint; this is a bug of Riprap, please report it",
            )

    def _order(self) -> None:
        """All receivers have said what they know of our turns: who knows of most knows of all that any has seen."""
        most = max(self._told_of.values(), key=lambda turns: turns.end)
        self._told_of.clear()
        place, self._is_ordered = self._turns.end, True
        links = most.links(place) if most.end > place else []
        if links and (most.start > place or max(links) >= len(self._index)):
            raise JobFailed(
                f"{self.bench.layout.me} cannot take blocks in the same order again: it took more of them between two"
                " that it put out than one of these can tell of, or a receiver tells of links that it does not have",
                "resume the job from its last checkpoint, with fault_tolerance.recovery: global",
            )
        self._again = deque(links)

    def on_turn(self) -> bool:
        if self._again is not None:  # no line is drawn before that is over
            if not self._again and not self.bench.inbox:
                self._again, self._lets_in = None, True
            return True
        if not self._is_ordered:
            return False
        if self._lets_in:
            self._lets_in = False
            if self._line is not None and self._line.turn is not None:
                self._line.turn = self.bench.progress.received
        return super().on_turn()


def _turns_of(told: Sequence[np.ndarray]) -> Turns:
    """Our turns, as far as a receiver knows them."""
    if not told:
        return Turns()
    start, turns = told
    return Turns(int(start[0]), turns.tobytes())
