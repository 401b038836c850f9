"""Scheme `barrier` with the guarantee `at_least_once`: what is processed again after a loss is put out again."""

from __future__ import annotations

import numpy as np
import pytest
from dataflow_parts import data, topology
from task_parts import hosted_task

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.layout import Joint
from riprap.engine.flow.progress import At, Heard
from riprap.engine.worker.build import Hosted
from riprap.operators.dataflow import DataflowOperator, Emitter, Items

REPEATING = {
    "scheme": "barrier", "alignment": "aligned", "guarantee": "at_least_once", "debloat_ms": None, "recovery": "global",
}  # fmt: skip


class Hands(DataflowOperator):
    """Hands items on, and says back how many they were."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        out.send(items.arrays, items.count)
        out.feed_back((np.array([float(items.count)]),), to=0)
        return items.count


class Middle:
    """The task of b in a -> b -> c, with two senders, to the first of which it feeds back."""

    def __init__(self, record: Block | None = None) -> None:
        edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "b", "to": "a", "feedback": True}]
        graph = topology({"a": 2, "b": 1, "c": 1}, edges, **REPEATING)
        self.task, self.port = hosted_task(graph, WorkerId("b", 0), Hosted(Hands(), None), fresh=record is None)
        if record is not None:
            self.task.restore(record, [])
        (self.into,), (self.out, self.back) = self.task.layout.inputs, self.task.layout.outputs
        self.task.start()

    def place(self, out: Heard, back: Heard) -> None:
        """The receivers say what they have heard: c, and the first task of a; the other one nothing."""
        for joint, heards in ((self.out, [out]), (self.back, [back, Heard()])):
            for worker, heard in zip(joint.workers, heards, strict=True):
                self.task.on_block(joint.reply, worker, Block(Kind.REPLY, Epoch(0), meta={"heard": heard.pack()}))

    def give(self, sender: int, block: Block) -> None:
        """A block of a task of a."""
        self.task.on_block(self.into.edge, WorkerId("a", sender), block)
        while self.task.work():
            pass

    def record(self) -> Block:
        """Its newest part of a checkpoint, as a new incarnation gets it."""
        _, epoch, meta, arrays = self.port.saved[-1]
        return Block(Kind.DATA, epoch, arrays=arrays, meta=meta)

    def sent(self, joint: Joint) -> list[Block]:
        """Blocks that have left, but barriers."""
        return [block for _, block in self.port.sent_on(joint.edge) if block.kind != Kind.BARRIER]

    def heard(self, joint: Joint) -> Heard:
        """What their receiver has heard then."""
        heard = Heard()
        for block in self.sent(joint):
            heard.note(block)
        return heard


def barrier() -> Block:
    return Block(Kind.BARRIER, Epoch(1))


@pytest.fixture
def later() -> Middle:
    """A new incarnation, whose state includes the first block of a link which will come again."""
    former = Middle()
    former.place(Heard(), Heard())
    former.give(0, barrier())
    former.give(0, data(1, items=2))
    former.give(1, barrier())
    made = Middle(former.record())
    made.place(former.heard(former.out), former.heard(former.back))
    return made


def test_what_is_processed_again_is_put_out_again(later: Middle) -> None:
    """Under its number other items may come: those before its sender compute in another order."""
    later.give(0, data(1, items=3))
    (block,) = later.sent(later.out)
    assert block.items == 3
    assert At.before(block) == At(1, 2), "the receiver misses nothing"


def test_what_was_fed_back_is_not_said_again_and_leaves_no_gap(later: Middle) -> None:
    later.give(0, data(1, items=3))
    assert not later.sent(later.back)
    later.give(0, data(2, before=3, cause=(0, 0, 2, 0)))
    (block,) = later.sent(later.back)
    assert At.before(block) == At(1, 1)
