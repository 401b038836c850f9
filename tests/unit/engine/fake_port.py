"""A port that records, layouts and messages to put before tasks and schemes without any network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.clock import CLOCK
from riprap.codec.header import Bundle, Header, encode
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.channels import Neighbourhood
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.intake import identity
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.segment import SegmentLayout

NAMES = ("source->processor", "processor->sink", "sink->processor", "source->sink", "sink->source")
DATA, RESULT, FEEDBACK, PUNCTUATION, COMMIT = EDGES = tuple(Edge(index, name) for index, name in enumerate(NAMES))
JOB = "job"


def source(index: int = 0) -> WorkerId:
    return WorkerId("source", index)


def processor(index: int) -> WorkerId:
    return WorkerId("processor", index)


def sink(index: int = 0) -> WorkerId:
    return WorkerId("sink", index)


def layout_of(me: WorkerId, processors: int = 6, pairs: int = 1) -> SegmentLayout:
    """The layout of a coded segment around one worker."""
    return SegmentLayout(
        me,
        tuple(source(i) for i in range(pairs)),
        tuple(processor(i) for i in range(processors)),
        tuple(sink(i) for i in range(pairs)),
        DATA, RESULT, FEEDBACK, PUNCTUATION, COMMIT,
    )  # fmt: skip


class FakePort:
    """All peers are up, in life 1, with a window of `window` blocks each, until a test says otherwise."""

    own_incarnation = Incarnation(1)

    def __init__(self, layout: Neighbourhood, window: int = 64) -> None:
        joined = (*layout.receivers(), *chain.from_iterable(layout.incoming().values()))
        self.lives = {worker: Incarnation(1) for worker in joined}
        self.up = set(self.lives)
        self.stopped: set[WorkerId] = set()
        self.author = str(layout.me)
        self.window = window
        self.rooms: dict[WorkerId, int] = dict.fromkeys(self.lives, window)
        self.heavy: set[WorkerId] = set()
        """Workers whose links are full by bytes, however few blocks are on the way."""
        self.sent: list[tuple[Edge, WorkerId, Block]] = []
        self.acked: list[tuple[Any, ...]] = []
        self.saved: list[tuple[str, Epoch, dict[str, Any], tuple[np.ndarray, ...]]] = []
        self.full = False
        self.alarms: list[float] = []
        self.counts: dict[str, int] = {}
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.clock = 0.0

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        if self.room(edge, to) <= 0:
            return False
        self.rooms[to] -= 1
        self.sent.append((edge, to, block))
        return True

    def room(self, edge: Edge, to: WorkerId) -> int:
        return self.rooms[to] if to in self.up - self.heavy else 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.empty(shape, dtype)

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        return self.window - self.rooms[to]

    def ack(self, edge: Edge, sender: WorkerId, seq: Seq | None = None) -> None:
        self.acked.append((edge, sender) if seq is None else (edge, sender, seq))

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        return [block for its_edge, its_to, block in self.sent if (its_edge, its_to) == (edge, to)]

    def save(self, kind: str, epoch: Epoch, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        if self.full:
            return 0
        self.saved.append((kind, epoch, meta, tuple(arrays)))
        return len(self.saved)

    def incarnation(self, worker: WorkerId) -> Incarnation:
        return self.lives.get(worker, Incarnation(0))

    def is_up(self, worker: WorkerId) -> bool:
        return worker in self.up

    def alarm(self, seconds: float) -> None:
        self.alarms.append(seconds)

    def now(self) -> float:
        return self.clock

    def stands_still(self, worker: WorkerId) -> bool:
        return worker in self.stopped

    def cpu(self) -> float:
        return self.clock

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

    def report(self, event: str, **fields: Any) -> None:
        self.reports.append((event, fields))

    def kill(self, worker: WorkerId) -> None:
        """The port's knowledge of a death; the task is told by the test."""
        self.up.discard(worker)

    def restart(self, worker: WorkerId) -> None:
        self.lives[worker] = Incarnation(self.lives[worker] + 1)
        self.up.add(worker)

    def sent_on(self, edge: Edge) -> list[tuple[WorkerId, Block]]:
        """What was sent on one edge, in order."""
        return [(to, block) for its_edge, to, block in self.sent if its_edge == edge]


class Silent:
    """A journal that nobody reads."""

    writes, holds, others = True, False, 0

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None: ...

    def tentative(
        self, boundary: Boundary, latency_s: float, absent: Sequence[str], rows: np.ndarray | None
    ) -> None: ...

    def durable(self, epoch: Epoch) -> None: ...

    def notes(self) -> dict[str, Any]:
        return {}

    def resume(self, notes: Any) -> None: ...

    def change_clock(self) -> None: ...


def packed(
    edge: Edge, sender: WorkerId, block: Block, life: int = 1, job: str = JOB
) -> tuple[bytes, bytes, list[bytes]]:
    """(identity, header, frames) as they come from the network."""
    header, arrays = encode(Header(job, str(sender), Incarnation(life), edge.index), block)
    return identity(sender, life), header, [array.tobytes() for array in arrays]


def bundled(
    edge: Edge, sender: WorkerId, *blocks: Block, life: int = 1, job: str = JOB
) -> tuple[bytes, bytes, list[bytes]]:
    """The same of blocks in one bundle, which they fit in."""
    bundle = Bundle(Header(job, str(sender), Incarnation(life), edge.index).prefix)
    assert all(bundle.add(block, block.seq) for block in blocks)
    return identity(sender, life), *bundle.take()


class Stream:
    """Rows as a source task reads them."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.items, self.item_bytes = rows, len(rows), float(rows[:1].nbytes)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return self.rows[start:stop], np.array([start, stop - start])


def items(count: int, first: int = 0, columns: int = 3) -> np.ndarray:
    """A matrix of distinct numbers."""
    return np.arange(first * columns, (first + count) * columns, dtype=float).reshape(count, columns)


def head(window: int, row: int, before: int, count: int, start: int = 0, piece: int = 1) -> list[Any]:
    """Of a block with so many items, from a source's input: what the word of its row says of it."""
    return [window, row, before, count, 2**31, 0, row, 0, [start, piece]]


def window_end(window: int, row: int, before: int, items: int, last: bool = False) -> list[Any]:
    """The same of a window's end."""
    return [window, row, before, 0, 2**31, 0, row, 0, {"items": items, "last": last, "opened_at": 1.5, "clock": CLOCK}]


def samples() -> dict[str, tuple[Edge, WorkerId, Block]]:
    """One honest message of each form that travels forward, with its edge and sender; `me` is the receiver's role."""
    key, parity_key, keep = Key(0, 0, 0, 1), Key(0, 0, 0, 4), items(4)
    heads = [head(1, 1, 0, 16, 0, 4), window_end(1, 2, 16, 16)]
    end = {"blocks": 4, "participants": {"processor.0": 1}, "active": 1, "heads": heads}
    result = (np.ones(4), np.ones(3))
    one = Epoch(1)
    of, coded = {"window": 1, "of": 4}, {"window": 1, "of": 4, "counts": [4] * 4}
    return {
        "data": (DATA, source(), Block(Kind.DATA, one, key, 4, (keep,), meta=of, seq=Seq(1))),
        "parity": (DATA, source(), Block(Kind.PARITY, one, parity_key, 0, (keep,), meta=coded)),
        "feedback": (FEEDBACK, sink(), Block(Kind.FEEDBACK, one, arrays=(np.ones(4),), meta={"window": 1})),
        "result": (RESULT, processor(2), Block(Kind.RESULT, one, key, 4, result, keep, of, Seq(1))),
        "relayed": (RESULT, processor(3), Block(Kind.PARITY, one, parity_key, 0, (keep,), meta=coded)),
        "piece": (RESULT, processor(2), Block(Kind.DATA, one, key, 4, (keep,), meta=of)),
        "ask": (FEEDBACK, sink(), Block(Kind.RESEND, one, meta={"pieces": [[0, 1]]})),
        "avoid": (COMMIT, sink(), Block(Kind.ACK, one, meta={"avoided": ["processor.1"]})),
        "begin": (PUNCTUATION, source(), Block(Kind.PUNCTUATION, one, meta={"moved": [], "begin": True})),
        "end": (PUNCTUATION, source(), Block(Kind.PUNCTUATION, one, meta=end)),
        "moved": (PUNCTUATION, source(), Block(Kind.PUNCTUATION, one, meta={"moved": [[0, 1, "processor.0", 2]]})),
        "commit": (COMMIT, sink(), Block(Kind.ACK, one, meta={"safe": 2})),
        "resend": (COMMIT, sink(), Block(Kind.RESEND, one, meta={"pieces": [[0, 1]]})),
    }


def receiver_of(edge: Edge) -> WorkerId:
    """Some worker at the receiving end of an edge."""
    return {DATA: processor(1), FEEDBACK: processor(1), COMMIT: source()}.get(edge, sink())
