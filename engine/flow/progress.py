"""Positions on the links of a task, in numbers that outlive the workers at their ends.

Every block on a link (one edge between two tasks) has a number and the count of items sent before it; both go on where
they were when the sender starts again, because the receiver tells it. A block also says what it was computed from: its
*cause*, the input link and the number there, and which of the blocks for this receiver it was. So a worker that
computes something a second time knows which of it has arrived already (AF 3.4.3: sequence numbers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import CLOCK
from riprap.codec.ids import WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.event_time import EventTimes, LinkKey

INPUT: LinkKey = (2**31, 0)
"""The job's input."""
WINDOW: LinkKey = (2**31 + 1, 0)
"""The cause of what an operator puts out when it closes a window; the number is the window's."""


class At(NamedTuple):
    """A place on a link: the number of the last block, and how many items there were up to it.

    Only what stands here knows where a block says its own: in the `row` and the `s_index` of its key.
    """

    number: int = 0
    items: int = 0

    @classmethod
    def before(cls, block: Block) -> At:
        """The place in front of a block."""
        return cls(block.key.row - 1, block.key.s_index)

    @classmethod
    def behind(cls, block: Block) -> At:
        """The place behind a block."""
        return cls(block.key.row, block.key.s_index + block.items)

    def put(self, block: Block, source: int, sink: int) -> At:
        """Have a block of the link from task `source` to task `sink` stand behind this; returns the place behind it."""
        block.key = Key(source, sink, self.number + 1, self.items)
        return At.behind(block)


def number_of(block: Block) -> int:
    """The number of a block on its link; of a block of the input, what `InputReader` counts up to its end."""
    return block.key.row


def input_key(number: int) -> Key:
    """The key of a block of the input, by its number."""
    return Key(0, 0, number, 0)


NOWHERE = At()


class Cause(NamedTuple):
    """The origin of a block: an input link, a number there, and the block's place among its siblings."""

    edge: int
    task: int
    number: int
    sibling: int


def link_key(edge: Edge, worker: WorkerId) -> LinkKey:
    """The name of a link at either of its ends."""
    return edge.index, worker.index


def identity(block: Block) -> tuple[int, ...]:
    """A block's identity on its link, also when its sender has computed it again, under another number."""
    cause: list[int] | None = block.meta.get("cause")
    return (number_of(block),) if cause is None else tuple(cause)


@dataclass
class Heard:
    """The receiving end of a link: what came, and the last cause of each input link of the sender."""

    at: At = NOWHERE
    causes: dict[LinkKey, tuple[int, int]] = field(default_factory=dict)
    known: bool = True
    """False when this task started again and remembers nothing of the link."""
    closed: int = 0
    """The last window whose punctuation came."""

    def note(self, block: Block) -> None:
        """A block came."""
        self.at, self.known = At.behind(block), True
        edge, task, number, sibling = block.meta["cause"]
        self.causes[edge, task] = (number, sibling)
        if block.kind == Kind.PUNCTUATION:
            self.closed = block.epoch

    def pack(self) -> list[Any]:
        """For records and messages."""
        return [*self.at, self.known, self.closed, [[*link, *last] for link, last in self.causes.items()]]

    @classmethod
    def unpack(cls, packed: list[Any]) -> Heard:
        """Inverse of `pack`."""
        number, items, known, closed, causes = packed
        return cls(At(number, items), {(e, t): (n, s) for e, t, n, s in causes}, known, closed)


@dataclass
class TaskProgress:
    """Progress of a task: what it has processed and put out; saved with its state."""

    received: int = 0
    """Blocks received by this task in all its incarnations; each has its number in this order."""
    included: int = 0
    """The last of them that the state includes."""
    partial: dict[tuple[LinkKey, tuple[int, ...]], int] = field(default_factory=dict)
    """Blocks that the state includes in part, by link and identity: how many of their items."""
    epoch: int = 0
    """The last window that was closed here."""
    last: bool = False
    """True when it was the last of all."""
    final: int = 0
    """The last window of all; 0 while the inputs have not named it."""
    iterating: bool = False
    """True when all inputs have closed the window after `epoch`, and its loop has not ended (ABS 7.2: cycles)."""
    siblings: dict[LinkKey, int] = field(default_factory=dict)
    """Of that window, the blocks that the loop has put out on each link so far, less one."""
    heard: dict[LinkKey, Heard] = field(default_factory=dict)
    """Arrivals on each input link."""
    done: dict[LinkKey, Heard] = field(default_factory=dict)
    """Processed arrivals. Only these are saved: what waits may come again."""
    closed: dict[LinkKey, int] = field(default_factory=dict)
    """The last window that each input link has closed."""
    windows: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Of windows that some input links have closed: the items, and when the window was opened (inf: not known)."""
    sent: dict[LinkKey, At] = field(default_factory=dict)
    """Up to where each output link has been numbered."""
    feedback: dict[LinkKey, int] = field(default_factory=dict)
    """The window of the newest feedback that was taken in, by link; all of it, where its end is put out."""
    failures: list[int] = field(default_factory=list)
    """By restored failure of this worker, the last window that a sender had closed (`begun`)."""
    rows: int = 0
    """The rows that a destination has put out for the job's output file, up to the last window it closed."""
    source: dict[str, Any] = field(default_factory=dict)
    """The place behind what is processed of a logged input (logged_reader.py); empty at its beginning."""
    times: EventTimes = field(default_factory=EventTimes)
    """Event time here, and what the links have promised."""
    lost: dict[int, int] = field(default_factory=dict)
    """Items that stay lost, by window, where they are counted: 0 for all windows that are closed."""
    turns: int = 0
    """Turns that were taken (turns.py), where they are counted."""
    clock: int = CLOCK
    """That of the host where it was saved."""

    @property
    def begun(self) -> int:
        """The last window that is closed here, or that a sender has closed: nothing of a window behind the next one
        can be processed, as the end of that has not come."""
        return max([self.epoch, *(heard.closed for heard in self.heard.values())])

    def next_number(self) -> int:
        """The number of a block that has just come."""
        self.received += 1
        return self.received

    def done_on(self, link: LinkKey) -> Heard:
        """The processed arrivals of an input link."""
        done = self.done.get(link)
        if done is None:
            done = self.done[link] = Heard()
        return done

    def last_included(self, cause: LinkKey) -> int:
        """The number of the last cause of a kind (an input link, or WINDOW) that the state includes."""
        if cause == WINDOW:
            return self.epoch
        done = self.done.get(cause)
        return 0 if done is None else done.at.number

    def included_of(self, link: LinkKey, block: Block) -> int:
        """Number of items of a block that comes (again) which the state includes."""
        return self.partial.get((link, identity(block)), 0) if self.partial else 0

    def note_end(self, link: LinkKey, block: Block) -> None:
        """An input link has closed a window; the same again changes nothing."""
        if block.epoch > self.closed.get(link, 0):
            items, opened_at = self.windows.get(block.epoch, (0, math.inf))
            self.windows[block.epoch] = items + block.meta["items"], min(opened_at, block.meta["opened_at"])
            self.closed[link] = block.epoch
            if link != INPUT:
                self.times.note(link, block.epoch, block.meta)

    def note_lost(self, block: Block) -> int:
        """A block is about to be processed of whose items some stay lost; returns how many."""
        lost: int = block.meta["lost"]
        self.lost[block.epoch] = self.lost.get(block.epoch, 0) + lost
        return lost

    def close_lost(self, epoch: int) -> int:
        """A window closes: the items of it that stay lost."""
        lost = self.lost.pop(epoch, 0)
        if lost:
            self.lost[0] = self.lost.get(0, 0) + lost
        return lost

    def pack(self) -> dict[str, Any]:
        """As the fields of a record."""
        return {
            "received": self.received,
            "included": self.included,
            "partial": [[*link, list(which), items] for (link, which), items in self.partial.items()],
            "epoch": self.epoch,
            "last": self.last,
            "final": self.final,
            "iterating": self.iterating,
            "siblings": [[*link, count] for link, count in self.siblings.items()],
            "done": [[*link, heard.pack()] for link, heard in self.done.items()],
            "closed": [[*link, epoch] for link, epoch in self.closed.items()],
            "windows": [[epoch, *window] for epoch, window in self.windows.items()],
            "clock": CLOCK,
            "sent": [[*link, *at] for link, at in self.sent.items()],
            "feedback": [[*link, epoch] for link, epoch in self.feedback.items()],
            "failures": self.failures,
            "rows": self.rows,
            "source": {**self.source, "places": dict(self.source["places"])} if self.source else {},
            "times": self.times.pack(),
            "lost": [[epoch, items] for epoch, items in self.lost.items()],
            "turns": self.turns,
        }

    @classmethod
    def unpack(cls, fields: dict[str, Any]) -> TaskProgress:
        """Inverse of `pack`."""
        return cls(
            fields["received"],
            fields["included"],
            {((edge, task), tuple(which)): items for edge, task, which, items in fields["partial"]},
            fields["epoch"],
            fields["last"],
            fields.get("final", 0),  # of a savepoint from before there were loops
            fields.get("iterating", False),
            {(edge, task): count for edge, task, count in fields.get("siblings", ())},
            {(edge, task): Heard.unpack(heard) for edge, task, heard in fields["done"]},
            {(edge, task): Heard.unpack(heard) for edge, task, heard in fields["done"]},
            {(edge, task): epoch for edge, task, epoch in fields["closed"]},
            {epoch: (items, at if fields["clock"] == CLOCK else math.inf) for epoch, items, at in fields["windows"]},
            {(edge, task): At(number, items) for edge, task, number, items in fields["sent"]},
            {(edge, task): epoch for edge, task, epoch in fields["feedback"]},
            list(fields["failures"]),
            fields["rows"],
            fields["source"],
            EventTimes.unpack(fields.get("times", ())),
            dict(fields.get("lost", ())),
            fields.get("turns", 0),
            fields["clock"],
        )
