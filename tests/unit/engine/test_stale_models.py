"""Processors of the three-stage form that run ahead of the feedback: SSP and ASP (AF 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from fake_port import DATA, FEEDBACK, RESULT, FakePort, layout_of, processor, sink, source

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.schemes import make_scheme
from riprap.operators.base import Processor


class Summing(Processor):
    """Whatever the model, the sum of the items."""

    def process_data(self, items: np.ndarray) -> Sequence[np.ndarray]:
        return (items.sum(0),)

    def process_feedback(self, feedback: Sequence[np.ndarray]) -> None: ...


def data(epoch: int) -> Block:
    return Block(Kind.DATA, Epoch(epoch), Key(0, 0, 0, 0), 2, (np.ones((2, 3)),), meta={"of": 8})


def feedback(epoch: int) -> Block:
    return Block(Kind.FEEDBACK, Epoch(epoch), arrays=(np.ones(1),) if epoch else ())


@pytest.mark.parametrize(("stale", "at_once"), [(0.0, 1), (2.0, 3), (float("inf"), 5)])
def test_a_stale_model_is_good_enough_for_so_many_epochs(stale: float, at_once: int) -> None:
    layout = replace(layout_of(processor(1)), stale_epochs=stale)
    port = FakePort(layout)
    task = ProcessorTask(layout, make_scheme(layout, {"scheme": "none"}), port, Summing)
    task.on_block(FEEDBACK, sink(), feedback(0))
    for epoch in range(1, 6):
        task.on_block(DATA, source(), data(epoch))

    def computed() -> list[int]:
        return [block.epoch for _, block in port.sent_on(RESULT) if block.kind == Kind.RESULT]

    assert computed() == list(range(1, at_once + 1))
    task.on_block(FEEDBACK, sink(), feedback(1))
    assert computed() == list(range(1, min(at_once + 1, 5) + 1)), "and none of them twice"
    task.on_worker_failed(sink())
    task.on_block(FEEDBACK, sink(), feedback(1))
    assert computed()[min(at_once + 1, 5) :] == list(range(2, min(at_once + 1, 5) + 1)), "a new sink has none of them"
