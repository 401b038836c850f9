"""Hybrid coded computation through the tasks: linear parts travel, are decoded, and are finished (LEC III-D)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from fake_port import DATA, FEEDBACK, PUNCTUATION, RESULT, FakePort, Silent, items, layout_of, sink, source

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.sink import SinkTask
from riprap.engine.schemes import make_scheme
from riprap.operators.base import Processor, Sink

K, R = 4, 2
HYBRID = {"scheme": "erasure", "code": "stable", "k": K, "r": R, "hedge": 100, "attachment": "hybrid"}


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


@pytest.mark.parametrize("kind", [Squash, Project])
@pytest.mark.parametrize("lost", [(), *itertools.combinations(range(K), 2)])
def test_results_of_dead_processors_are_finished_from_decoded_linear_parts(
    lost: tuple[int, ...], kind: type[Processor]
) -> None:
    layout = layout_of(source())
    emitter, scheme = FakePort(layout), make_scheme(layout, HYBRID)
    scheme.on_open(emitter, Epoch(1), K)
    blocks = [items(3, 3 * i) / 50 - 0.5 for i in range(K)]
    for block in blocks:
        scheme.on_emit(emitter, Block(Kind.DATA, Epoch(1), items=3, arrays=(block,)))
    scheme.on_epoch(emitter, Epoch(1), 12, last=True)
    here = layout_of(sink(), feedback=False)
    port = FakePort(here)
    task = SinkTask(here, make_scheme(here, HYBRID), port, Keeping(kind()), Silent())
    task.columns = 3
    task.on_block(PUNCTUATION, source(), emitter.sent_on(PUNCTUATION)[0][1])
    for to, block in emitter.sent_on(DATA):
        there = layout_of(to, feedback=False)
        wire = FakePort(there)
        worker = ProcessorTask(there, make_scheme(there, HYBRID), wire, kind)
        worker.on_block(FEEDBACK, sink(), Block(Kind.FEEDBACK, Epoch(0)))
        worker.on_block(DATA, source(), block)
        ((_, answer),) = wire.sent_on(RESULT)
        part = answer.arrays[0] if answer.kind == Kind.PARITY else answer.attachment
        assert part is not None and part.shape == (3, 2), "the linear part travels in place of the block"
        if kind is Project:
            assert answer.nbytes == part.nbytes, "and alone, where it is all of the work (III-D)"
        if block.key.s_index in lost:
            port.kill(to)
            task.on_worker_failed(to)
        else:
            assert task.admits(answer)
            task.on_block(RESULT, to, answer)
    assert task.finished and len(task.operator.kept) == K
    for kept, block in zip(task.operator.kept, blocks):
        np.testing.assert_allclose(kept, kind().process_data(block)[0], rtol=1e-9, atol=1e-12)
    assert port.counts.get("decoded_items", 0) == 3 * len(lost) == port.counts.get("recomputed_items", 0)


@pytest.mark.parametrize("part", [None, np.zeros((2, 2))], ids=["none", "of other rows"])
def test_a_result_without_its_linear_part_is_turned_away(part: np.ndarray | None) -> None:
    here = layout_of(sink(), feedback=False)
    task = SinkTask(here, make_scheme(here, HYBRID), FakePort(here), Keeping(Project()), Silent())
    task.columns = 3
    result = Block(Kind.RESULT, Epoch(1), items=3, attachment=part, meta={"of": K})
    assert not task.admits(result)
    result.attachment = np.zeros((3, 2))
    assert task.admits(result)
