"""Tasks of jobs of Source, Processor and Sink before a port that records, and the blocks that they are fed.

Under schemes that spread, the edges of their coded segment come from its layout, which a task has as `.segment`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dataflow_parts import DataflowPort, no_files, topology
from fake_port import FakePort, Stream, items, processor, sink, source

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.epoch_reader import EpochReader, RowsReader
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.progress import Heard
from riprap.engine.flow.segment import CodedSegment
from riprap.engine.spreads.encoder import first_row
from riprap.engine.spreads.trained_stage import TrainedStageTask
from riprap.engine.worker.build import Hosted, block_unit, hosting_task, row_of
from riprap.engine.worker.operators import graph_of_stages
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceStage
from riprap.operators.base import Processor, Sink

Made = tuple[Any, Any]
NONE = {"scheme": "none"}
ERASURE = {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 100, "attachment": "eager"}
HYBRID = ERASURE | {"code": "stable", "attachment": "hybrid"}
COPIES = {"scheme": "replication", "copies": 3}
FIRST = first_row(1)
"""The number before the first row of an encoder's first life."""


def staged(options: Mapping[str, Any], processors: int = 6, pairs: int = 1, window: int = 2, **back: Any) -> Topology:
    """Sources, processors and sinks; `back` has the fields of the feedback edge, `feedback=False` leaves it out."""
    stages = {"source": pairs, "processor": processors, "sink": pairs}
    edges: list[dict[str, Any]] = [{"from": "source", "to": "processor"}, {"from": "processor", "to": "sink"}]
    if back.pop("feedback", True):
        edges.append({"from": "sink", "to": "processor", "feedback": True, **back})
    made = topology(stages, edges, **options).to_dict()
    made["links"]["window_epochs"] = window
    return graph_of_stages(Topology.from_dict(made))


def segment_of(topology: Topology, me: WorkerId) -> CodedSegment:
    """The coded segment as this worker sees it."""
    (segment,) = Layout.of(topology, me).segments
    return segment


def hosted_task(topology: Topology, me: WorkerId, hosted: Hosted, journal: Any = None, fresh: bool = True) -> Made:
    """A source's or sink's task, started, and its port."""
    layout = Layout.of(topology, me)
    port = DataflowPort(layout)
    task = hosting_task(topology, layout, port, hosted, no_files(), journal, fresh, 100, Window(256))
    if layout.segments:
        task.segment = layout.segments[0]  # type: ignore[attr-defined]
    return task, port


# sources
def source_task(
    options: Mapping[str, Any], item_count: int = 50, window: int = 2, block_bytes: int = 72, placed: bool = True,
    windows: int | None = 0,
) -> Made:  # fmt: skip
    """The task of a source that reads epochs of 20 items; `windows` None: without an end."""
    graph = staged(options, window=window)
    stream = Stream(items(item_count))
    count = -(-item_count // 20) if windows == 0 else windows
    reader = RowsReader(stream, count, 20, block_bytes, block_unit(graph), row=row_of(graph))
    task, port = hosted_task(graph, source(), Hosted(SourceStage(None), reader, 3))
    if placed:
        place(task)
    return task, port


def place(task: Any, heard: Heard | None = None) -> None:
    """The sink says where the stream goes on."""
    reply = Block(Kind.REPLY, Epoch(0), meta={"heard": (heard or Heard()).pack()})
    task.on_block(task.segment.reply, sink(), reply)


def emit(task: Any, port: Any = None, lull_s: float = 1.0) -> None:
    """Work until there is nothing to do; with a port, also what comes of a lull."""
    while task.work():
        pass
    if port is not None:
        port.clock += lull_s
        task.on_alarm()


def told(task: Any, rows: int, safe: int) -> Block:
    """The decoder's word: so many rows are whole, so many blocks are safe."""
    return Block(Kind.ACK, Epoch(FIRST + rows), meta={"safe": safe})


def say(task: Any, rows: int, safe: int) -> None:
    """Give an encoder's task that word."""
    task.on_block(task.segment.layout.commit, sink(), told(task, rows, safe))


def pieces(port: FakePort, task: Any, kind: Kind = Kind.DATA) -> list[tuple[int, int, int]]:
    """Row, place and first number of each piece that a source has sent."""
    sent = port.sent_on(task.segment.layout.data)
    return [(b.epoch - FIRST, b.key.s_index, int(b.arrays[0][0, 0])) for _, b in sent if b.kind == kind]


def words(port: FakePort, task: Any) -> list[Block]:
    """The words of rows."""
    sent = port.sent_on(task.segment.layout.punctuation)
    return [block for _, block in sent if "participants" in block.meta]


def ends(port: FakePort, task: Any) -> list[tuple[int, int, bool]]:
    """Window, items and `last` of each window's end that went along with a word."""
    told = [head for word in words(port, task) for head in word.meta["heads"] if head and isinstance(head[8], dict)]
    return [(head[0], head[8]["items"], head[8]["last"]) for head in told]


# processors
class Doubling(Processor):
    """Results are the items' sum times the newest feedback."""

    factor = 1.0

    def process_data(self, items: np.ndarray) -> Sequence[np.ndarray]:
        return [np.array([items.sum() * self.factor])]

    def process_feedback(self, feedback: Sequence[np.ndarray]) -> None:
        self.factor = float(feedback[0][0])


def processor_task(
    pairs: int = 1, options: Mapping[str, Any] = ERASURE, begun: bool = True, make: type[Processor] = Doubling,
    **back: Any,
) -> tuple[TrainedStageTask, FakePort]:  # fmt: skip
    """A task of the coded stage, whose sinks have said where they begin."""
    segment = segment_of(staged(options, pairs=pairs, **back), processor(1))
    port = FakePort(segment.layout)
    task = TrainedStageTask(segment, port, 3, make)
    for pair in range(pairs if begun else 0):
        feed(task, 0, pair=pair)
    port.acked.clear()
    return task, port


def piece(
    window: int, row: int, s_index: int = 0, pair: int = 0, count: int = 2, kind: Kind = Kind.DATA, of: int = 4
) -> Block:
    """A piece of a row: ones."""
    meta = {"window": window, "of": of} | ({"counts": [count] * of} if kind == Kind.PARITY else {})
    shape = np.ones((count, 3))
    return Block(
        kind, Epoch(FIRST + row), Key(pair, pair, 0, s_index), count * (kind == Kind.DATA), (shape,), meta=meta
    )


def give(task: Any, block: Block, pair: int = 0) -> None:
    """A source deals a piece to the task."""
    task.on_block(task.segment.layout.data, source(pair), block)


def feed(task: Any, window: int, value: float | None = None, whole: int = 0, pair: int = 0) -> None:
    """The sink's model of a window; rows up to `whole` are whole."""
    arrays = () if value is None else (np.array([value]),)
    block = Block(Kind.FEEDBACK, Epoch(FIRST + whole), arrays=arrays, meta={"window": window})
    task.on_block(task.segment.layout.feedback, sink(pair), block)


def results(port: FakePort, task: Any, to: WorkerId | None = None) -> list[tuple[int, int, float]]:
    """Row, place and value of each result that was sent."""
    sent = [b for at, b in port.sent_on(task.segment.layout.result) if b.kind == Kind.RESULT and to in (None, at)]
    return [(b.epoch - FIRST, b.key.s_index, float(b.arrays[0][0])) for b in sent]


# sinks
class Listing(Sink):
    """Remembers the order of results."""

    def __init__(self) -> None:
        self.processor, self.seen = Doubling(), []

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"seen": np.array(self.seen, dtype=float)}

    def restore(self, snapshot: Any) -> None:
        self.seen = list(snapshot["seen"])

    def aggregate(self, result: Sequence[np.ndarray]) -> None:
        self.seen.append(float(result[0][0]))

    def commit(self, epoch: int) -> Sequence[np.ndarray]:
        return [np.array([float(epoch + 1)])]


class Notebook:
    """A journal that lists what it is told."""

    writes, holds, others = True, False, 0

    def __init__(self) -> None:
        self.committed_: list[tuple[Boundary, float]] = []
        self.durable_: list[int] = []
        self.resumed: Any = None
        self.clocks = 0
        """Times that the clock has changed."""

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        self.committed_.append((boundary, latency_s))

    def tentative(
        self, boundary: Boundary, latency_s: float, absent: Sequence[str], rows: np.ndarray | None
    ) -> None: ...

    def durable(self, epoch: Epoch) -> None:
        if epoch > (self.durable_ or [0])[-1]:
            self.durable_.append(epoch)

    def change_clock(self) -> None:
        self.clocks += 1

    def cut(self, rows: int) -> None: ...

    def notes(self) -> dict[str, Any]:
        return {"epochs": len(self.committed_)}

    def resume(self, notes: Any) -> None:
        self.resumed = notes


class SinkBench:
    """A sink's task, and what the rest of its segment sends it: rows of so many pieces of two items each."""

    def __init__(
        self, options: Mapping[str, Any] = NONE, processors: int = 3, operator: Sink | None = None, life: int = 1,
        must_be_finite: bool = True, fresh: bool = True, **back: Any,
    ) -> None:  # fmt: skip
        self.topology = staged(options, processors, **back)
        self.operator, self.journal = operator or Listing(), Notebook()
        trains = any(edge.feedback for edge in self.topology.edges)
        stage = SinkStage(self.operator, trains, must_be_finite)
        self.task, self.port = hosted_task(self.topology, sink(), Hosted(stage, None, 3), self.journal, fresh)
        self.layout, self.processors = self.task.segment.layout, processors
        self.decoder = self.task.ends[0]
        self.task.start()
        self.life, self.at, self.number = life, (0, 0), 0
        """Of the encoder; its last block of the link, and its items."""

    def begin(self, life: int = 1, row: int = 0) -> None:
        """A life of the encoder begins behind a row of its own."""
        self.life = life
        self._punctuate(Block(Kind.PUNCTUATION, self.row(row), meta={"moved": [], "begin": True}))

    def row(self, row: int) -> Epoch:
        """The number of a row of the encoder's life."""
        return Epoch(first_row(self.life) + row)

    def word(
        self, row: int, window: int, blocks: int, ends: bool = False, last: bool = False, lives: Mapping[str, int] = {}
    ) -> None:
        """The word of a row of so many pieces, the last of its window where it `ends` with it."""
        names = {f"processor.{i}": 1 for i in range(self.processors)} | dict(lives)
        number, before = self.at
        heads: list[Any] = [[]]
        if blocks:
            number += 1
            heads = [[window, number, before, 2 * blocks, 2**31, 0, number, 0, [before, 2]]]
            before += 2 * blocks
        if ends:
            number += 1
            told = {"items": before - self.number, "last": last, "opened_at": 1.0}
            heads.append([window, number, before, 0, 2**31, 0, number, 0, told])
            self.number = before
        self.at = (number, before)
        meta = {"blocks": blocks, "participants": names, "active": len(names), "heads": heads}
        self._punctuate(Block(Kind.PUNCTUATION, self.row(row), meta=meta))

    def _punctuate(self, block: Block) -> None:
        assert self.task.admits(block)
        self.task.on_block(self.layout.punctuation, source(), block)
        self.work()

    def result(self, row: int, place: int, value: float | None = None, by: int | None = None) -> None:
        """A processor's result; the number of its place by default."""
        block = result(self.row(row), place, value, self.decoder.half.k if self.decoder.half else 1)
        assert self.task.admits(block)
        self.task.on_block(self.layout.result, processor(place % self.processors if by is None else by), block)
        self.work()

    def window(self, row: int, window: int, value: float, last: bool = False) -> None:
        """A window of one row with one piece."""
        self.result(row, 0, value)
        self.word(row, window, 1, ends=True, last=last)

    def work(self) -> None:
        """Process all that came."""
        while self.task.work():
            pass

    def lull(self, seconds: float = 1.0) -> None:
        """Nothing comes for so long."""
        self.port.clock += seconds
        self.task.on_alarm()
        self.work()

    @property
    def committed(self) -> list[Boundary]:
        """The windows that have closed."""
        return [boundary for boundary, _ in self.journal.committed_]

    def models(self, to: WorkerId | None = None) -> list[tuple[int, float]]:
        """Window and value of each model that was fed back to a processor, the first by default; 0.0 for none."""
        sent = [block for at, block in self.port.sent_on(self.layout.feedback) if at == (to or processor(0))]
        return [(b.meta["window"], float(b.arrays[0][0]) if b.arrays else 0.0) for b in sent]

    def kill(self, worker: WorkerId) -> None:
        """A worker is down."""
        self.port.kill(worker)
        self.task.on_worker_failed(worker)
        self.work()

    def restart(self, worker: WorkerId) -> None:
        """A new life of it is up."""
        self.port.renew(worker)
        self.task.on_worker_restored(worker)
        self.work()


def result(row: Epoch, place: int, value: float | None = None, k: int = 3) -> Block:
    """A result of two items; `k` pieces make a row of the code."""
    value = float(place) if value is None else value
    return Block(Kind.RESULT, row, Key(0, 0, *divmod(place, k)), 2, (np.array([value]),), meta={"window": 1})


def processor_stage(options: Mapping[str, Any], pairs: int = 1, **back: Any) -> Made:
    """A processor's task where its stage is not coded."""
    return hosted_task(
        staged(options, pairs=pairs, **back), processor(1), Hosted(ProcessorStage(Doubling, pairs), None)
    )


def epoch_reader(item_count: int, block_bytes: int, unit: int) -> EpochReader:
    """Of a source task whose stage is followed by one that is not coded."""
    return EpochReader(Stream(items(item_count)), -(-item_count // 20), 20, block_bytes, unit)


NEW_LIFE = Incarnation(2)
