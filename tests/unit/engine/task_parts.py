"""Tasks before a port that records, and the blocks that they are fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fake_port import (
    COMMIT,
    FEEDBACK,
    RESULT,
    FakePort,
    items,
    layout_of,
    processor,
    reader_of,
    sink,
    source,
)  # fmt: skip

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.port import Boundary
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.sink import SinkTask
from riprap.engine.flow.three_stage.source import SourceTask
from riprap.engine.schemes import make_scheme
from riprap.operators.base import Processor, Sink

Made = tuple[Any, FakePort]
ERASURE = {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 100, "attachment": "eager"}


def place(task: SourceTask, epoch: int = 0) -> None:
    """The sink says where the stream goes on."""
    task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(epoch)))


def source_task(
    options: dict[str, Any], item_count: int = 50, window: int = 2, block_bytes: int = 72, placed: bool = True
) -> Made:
    layout = layout_of(source())
    port = FakePort(layout)
    scheme = make_scheme(layout, options)
    task = SourceTask(layout, scheme, port, reader_of(items(item_count), 20, block_bytes, scheme.unit), window)
    if placed:
        place(task)
        port.acked.clear()
    return task, port


def emit(task: SourceTask) -> int:
    """Work until there is nothing to do; how many blocks came of it."""
    return sum(1 for _ in iter(task.work, False))


class Doubling(Processor):
    """Results are the items' sum times the newest feedback."""

    factor = 1.0

    def process_data(self, items: np.ndarray) -> Sequence[np.ndarray]:
        return [np.array([items.sum() * self.factor])]

    def process_feedback(self, feedback: Sequence[np.ndarray]) -> None:
        self.factor = float(feedback[0][0])


def processor_task(
    pairs: int = 1, feedback: bool = True, options: dict[str, Any] = ERASURE, begun: bool = True
) -> Made:
    layout = layout_of(processor(1), pairs=pairs, feedback=feedback)
    port = FakePort(layout)
    task = ProcessorTask(layout, make_scheme(layout, options), port, Doubling)
    for pair in range(pairs if begun else 0):
        task.on_block(FEEDBACK, sink(pair), Block(Kind.FEEDBACK, Epoch(0)))
    port.acked.clear()
    return task, port


def data(epoch: int, row: int = 0, s_index: int = 0, pair: int = 0, count: int = 2) -> Block:
    return Block(Kind.DATA, Epoch(epoch), Key(pair, pair, row, s_index), count, (np.ones((count, 3)),), meta={"of": 8})


def feed(task: ProcessorTask, epoch: int, value: float, pair: int = 0) -> None:
    task.on_block(FEEDBACK, sink(pair), Block(Kind.FEEDBACK, Epoch(epoch), arrays=(np.array([value]),)))


def results(port: FakePort, to: WorkerId | None = None) -> list[tuple[int, int, float]]:
    sent = [block for at, block in port.sent_on(RESULT) if block.kind == Kind.RESULT and to in (None, at)]
    return [(block.epoch, block.key.row, float(block.arrays[0][0])) for block in sent]


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

    def __init__(self) -> None:
        self.committed_, self.durable_, self.resumed = [], [], None

    def committed(self, boundary: Boundary, latency_s: float, rows: np.ndarray | None) -> None:
        self.committed_.append((boundary, latency_s))

    def durable(self, epoch: Epoch) -> None:
        self.durable_.append(epoch)

    def notes(self) -> dict[str, Any]:
        return {"epochs": len(self.committed_)}

    def resume(self, notes: Any) -> None:
        self.resumed = notes


def sink_task(options: dict[str, Any], processors: int = 3) -> tuple[SinkTask, FakePort, list[tuple[Boundary, float]]]:
    layout = layout_of(sink(), processors=processors)
    port, journal = FakePort(layout), Notebook()
    return SinkTask(layout, make_scheme(layout, options), port, Listing(), journal), port, journal.committed_


def result(epoch: int, row: int, s_index: int, value: float | None = None) -> Block:
    value = row * 10 + s_index if value is None else value
    return Block(Kind.RESULT, Epoch(epoch), Key(0, 0, row, s_index), 2, (np.array([float(value)]),))


def end(epoch: int, blocks: int, last: bool = False, **lives: int) -> Block:
    names = {f"processor.{i}": 1 for i in range(3)} | {f"processor.{name[1:]}": life for name, life in lives.items()}
    meta = {"items": 2 * blocks, "blocks": blocks, "last": last, "opened_at": 1.0}
    meta |= {"participants": names, "active": len(names)}
    return Block(Kind.PUNCTUATION, Epoch(epoch), meta=meta)
