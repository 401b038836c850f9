"""Hybrid coded computation through the tasks: linear parts travel, are decoded, and are finished (LEC III-D)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from fake_port import items, processor, sink, source
from task_parts import HYBRID, NONE, SinkBench, processor_task, source_task

from riprap.codec.blocks import Block, Kind
from riprap.engine.flow.epoch_reader import RowsReader
from riprap.operators.base import Processor, Sink

K = 4


class Squash(Processor):
    """Three columns to two linear ones, and a squashed sum of these."""

    weights = np.array([[1.0, 0.5], [-2.0, 0.25], [0.125, 3.0]])

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items @ self.weights

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> list[np.ndarray]:
        return [np.tanh(linear.sum(axis=1))]

    def process_feedback(self, feedback: Any) -> None:
        pass


class Project(Processor):
    """Linear work, and nothing else."""

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items @ Squash.weights

    def process_feedback(self, feedback: Any) -> None:
        pass


class Keeping(Sink):
    """Keeps what it is given."""

    def __init__(self, processor: Processor) -> None:
        self.processor, self.kept = processor, []

    def aggregate(self, result: Any) -> None:
        self.kept.append(result[0])

    def commit(self, epoch: int) -> list[np.ndarray]:
        return []


class Scaled:
    """Rows between -0.5 and 0.5."""

    items, item_bytes = 3 * K, 24.0

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return items(stop - start, start) / 50 - 0.5, np.array([start, stop - start])


def emitted() -> tuple[Any, Any]:
    """A source's task, and its port, that has sent one window of one row."""
    task, port = source_task(HYBRID)
    task.reader = RowsReader(Scaled(), 1, 3 * K, 1 << 20, K, row=K)
    task.start()
    while task.work():
        pass
    return task, port


@pytest.mark.parametrize("kind", [Squash, Project])
@pytest.mark.parametrize("lost", [(), *itertools.combinations(range(K), 2)])
def test_results_of_dead_processors_are_finished_from_decoded_linear_parts(
    lost: tuple[int, ...], kind: type[Processor]
) -> None:
    emitter, emitter_port = emitted()
    layout = emitter.segment.layout
    bench = SinkBench(HYBRID, processors=6, operator=Keeping(kind()), feedback=False)
    for _, word in emitter_port.sent_on(layout.punctuation):
        bench.task.on_block(bench.layout.punctuation, source(), word)
    for to, block in emitter_port.sent_on(layout.data):
        worker, wire = processor_task(options=HYBRID, make=kind, feedback=False, begun=False)
        assert worker.admits(block)
        worker.on_block(worker.layout.data, source(), block)
        ((_, answer),) = wire.sent_on(worker.layout.result)
        part = answer.arrays[0] if answer.kind == Kind.PARITY else answer.attachment
        assert part is not None and part.shape == (3, 2), "the linear part travels in place of the items"
        if kind is Project:
            assert answer.nbytes == part.nbytes, "and alone, where it is all of the work (III-D)"
        if block.key.s_index in lost:
            bench.kill(to)
        else:
            assert bench.task.admits(answer)
            bench.task.on_block(bench.layout.result, to, answer)
    bench.work()
    assert bench.task.progress.last and len(bench.operator.kept) == K  # type: ignore[attr-defined]
    whole = Scaled().read(0, 3 * K)[0]
    for place, kept in enumerate(bench.operator.kept):  # type: ignore[attr-defined]
        wanted = kind().process_data(whole[3 * place : 3 * place + 3])[0]
        np.testing.assert_allclose(kept, wanted, rtol=1e-9, atol=1e-12)
    counts = bench.port.counts
    assert counts.get("decoded_items", 0) == 3 * len(lost) == counts.get("recomputed_items", 0)
    assert bench.task.lost == 0


def test_linear_parts_are_finished_under_the_model_of_their_window() -> None:
    """Decoding may come before the sink has closed the window before: it is finished in its turn."""

    class Weighted(Squash):
        weight = 1.0

        def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> list[np.ndarray]:
            return [linear.sum(axis=1)[:1] * self.weight]

        def process_feedback(self, feedback: Any) -> None:
            self.weight = float(feedback[0][0])

    class Weighing(Keeping):
        def commit(self, epoch: int) -> list[np.ndarray]:
            return [np.array([10.0])]

    bench = SinkBench(HYBRID, processors=6, operator=Weighing(Weighted()))
    bench.begin()
    bench.word(1, 1, 1, ends=True)
    bench.word(2, 2, 1, ends=True)
    linear = np.array([[1.0, 2.0], [3.0, 4.0]])
    meta = {"of": 1, "window": 2, "counts": [2]}
    key = bench.task.layout.me.index
    (parity,) = bench.decoder.half.pieces.code.encode([linear, *[linear[:0]] * 3])[:1]
    holder = bench.decoder.half.places(bench.decoder.half.ledgers[bench.row(2)], bench.row(2), 0, 0)[0]
    by = next(worker for worker in bench.layout.processors if worker != holder)
    block = Block(Kind.PARITY, bench.row(2), arrays=(parity,), meta=meta)
    block.key = block.key._replace(source=key, sink=key, row=0, s_index=4)
    bench.task.on_block(bench.layout.result, by, block)
    bench.kill(holder)
    assert not bench.operator.kept, "the first window is open"  # type: ignore[attr-defined]
    first = Block(Kind.RESULT, bench.row(1), items=2, arrays=(np.array([7.0]),), attachment=linear)
    first.meta, first.key = {"of": 1, "window": 1}, block.key._replace(s_index=0)
    holder = bench.decoder.half.places(bench.decoder.half.ledgers[bench.row(1)], bench.row(1), 0, 0)[0]
    bench.task.on_block(bench.layout.result, holder, first)
    bench.work()
    assert [float(one[0]) for one in bench.operator.kept] == [7.0, 30.0]  # type: ignore[attr-defined]


def test_without_redundancy_nothing_linear_travels() -> None:
    task, port = processor_task(options=NONE, make=Squash, feedback=False, begun=False)
    block = Block(Kind.DATA, emitted()[0].ends[0].row, items=3, arrays=(items(3),), meta={"window": 1})
    task.on_block(task.layout.data, source(), block)
    ((to, answer),) = port.sent_on(task.layout.result)
    assert to == sink() and answer.attachment is None and len(answer.arrays) == 1
    assert task.layout.me == processor(1)
