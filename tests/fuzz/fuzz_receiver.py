"""A worker without its sockets, and the honest messages that it would get: what the fuzz run works on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

UNIT = Path(__file__).parents[1] / "unit"
sys.path[:0] = [str(Path(__file__).parents[2]), str(UNIT / "engine"), str(UNIT / "codec")]

# ruff: noqa: E402, F401, I001  (the path comes first; the other files of this folder take their names from here)
from dumb_header import Fields, read, write
from fake_port import (
    COMMIT, DATA, FEEDBACK, JOB, PUNCTUATION, RESULT, FakePort, Silent, items, layout_of, packed, processor, reader_of,
    sink, source,
)  # fmt: skip

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.engine.flow.three_stage.gate import ThreeStageGate
from riprap.engine.flow.intake import Intake
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.links import Links, Window
from riprap.engine.schemes import make_scheme
from riprap.engine.wire.sharing import Borrower, Roots
from riprap.engine.flow.three_stage.processor import ProcessorTask
from riprap.engine.flow.three_stage.sink import SinkTask
from riprap.engine.flow.three_stage.source import SourceTask
from riprap.engine.flow.three_stage.task import Task
from riprap.operators.base import Processor, Sink

WINDOW = 400
COLUMNS = 3
SCHEMES: tuple[dict[str, Any], ...] = (
    {"scheme": "none"},
    {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 100, "attachment": "lazy"},
    {"scheme": "erasure", "code": "stable", "k": 2, "r": 1, "hedge": 100, "attachment": "eager"},
    {"scheme": "reactive"},
    {"scheme": "replication", "copies": 2},
)
ROLES = (source(), processor(1), sink())
Message = tuple[bytes, bytes, list[bytes]]
"""Identity of the connection, header, frames."""


class Summing(Processor):
    """An operator that takes any numbers, so that what raises is the engine."""

    def process_data(self, items: np.ndarray) -> Sequence[np.ndarray]:
        return [items.sum(0)]

    def process_feedback(self, feedback: Sequence[np.ndarray]) -> None:
        pass


class Counting(Sink):
    """The same for results; whether their shapes are right is the operator's to say."""

    def __init__(self) -> None:
        self.processor = Summing()

    def aggregate(self, result: Sequence[np.ndarray]) -> None:
        pass

    def commit(self, epoch: int) -> Sequence[np.ndarray]:
        return [np.zeros(1)]


class Receiver:
    """A worker without its sockets: gate, links and task, joined as engine/worker/port.py joins them."""

    def __init__(self, me: WorkerId, options: dict[str, Any]) -> None:
        layout = layout_of(me)
        self.intake, self.links = (
            Intake(JOB, layout, ThreeStageGate(layout), Borrower(Roots([])).fetch),
            Links(self, Window(WINDOW)),
        )
        self.port = FakePort(layout, WINDOW)
        self.task = make_task(me, options, self.port)
        for peer in self.port.lives:
            self.links.raise_(peer, Incarnation(1))

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None: ...

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq) -> None: ...

    def forward(self, message: Message) -> str:
        """What became of a message: dropped, refused, passed over by its link, or taken."""
        passed = self.intake.forward(*message)
        if passed is None:
            return "dropped"
        edge, sender, head, block = passed
        if block.kind != Kind.HELLO and not self.task.admits(block):
            return "refused"
        if not self.links.accept(edge, sender, head.incarnation, block.seq, block):
            return "passed over"
        self.task.on_block(edge, sender, block)
        return "taken"

    def backward(self, header: bytes) -> str:
        passed = self.intake.backward(header)
        if passed is None:
            return "dropped"
        edge, peer, head, block = passed
        self.links.on_reply(edge, peer, head.incarnation, block.kind, block.seq)
        return "taken"

    def disturb(self, verb: int, worker: WorkerId) -> None:
        """Now and then a timer, a death or a restart, as they come between messages."""
        if verb == 0:
            self.task.on_alarm()
        elif verb == 1 and worker in self.port.up:
            self.port.kill(worker)
            self.task.on_worker_failed(worker)
        elif verb == 2 and worker in self.port.lives and worker not in self.port.up:
            self.port.restart(worker)
            self.task.on_worker_restored(worker)
        else:
            self.task.work()


def make_task(me: WorkerId, options: dict[str, Any], port: FakePort) -> Task:
    layout = layout_of(me)
    scheme, stream = make_scheme(layout, options), items(200)
    task: Task
    if me in layout.sources:
        source_task = SourceTask(layout, scheme, port, reader_of(stream, 20, 72, scheme.unit), 3)
        source_task.start()
        source_task.on_block(COMMIT, sink(), Block(Kind.ACK, Epoch(0)))
        for _ in range(30):
            source_task.work()
        task = source_task
    elif me in layout.sinks:
        task = SinkTask(layout, scheme, port, Counting(), Silent())
    else:
        task = ProcessorTask(layout, scheme, port, Summing)
        task.on_block(FEEDBACK, sink(), Block(Kind.FEEDBACK, Epoch(0)))
    task.columns = COLUMNS
    return task


def honest(me: WorkerId, options: dict[str, Any]) -> list[tuple[Edge, WorkerId, Block]]:
    """What this receiver gets in the first epochs of an undisturbed job, in a possible order."""
    emitter = FakePort(layout_of(source()), 10 * WINDOW)
    make_task(source(), options, emitter)
    if me == source():
        return [(COMMIT, sink(), block) for epoch in (1, 2) for block in commits(Epoch(epoch))]
    if me == sink():
        dealt = [(RESULT, to, answer(to, block, options)) for to, block in emitter.sent_on(DATA)]
        ends = {block.epoch: block for _, block in emitter.sent_on(PUNCTUATION)}
        return sorted(
            [*dealt, *((PUNCTUATION, source(), block) for block in ends.values())], key=lambda entry: entry[2].epoch
        )
    mine = [(DATA, source(), block) for to, block in emitter.sent_on(DATA) if to == me]
    feedback = [(FEEDBACK, sink(), Block(Kind.FEEDBACK, Epoch(e), arrays=(np.zeros(1),))) for e in (1, 2)]
    return sorted([*mine, *feedback], key=lambda entry: entry[2].epoch)


def commits(epoch: Epoch) -> list[Block]:
    return [Block(Kind.RESEND, epoch, meta={"pieces": [[0, 0], [1, 0]]}), Block(Kind.ACK, epoch)]


def answer(worker: WorkerId, block: Block, options: dict[str, Any]) -> Block:
    """What a processor's scheme makes of a block: a result, or under lazy attachment parity that was asked for."""
    port = FakePort(layout_of(worker))
    task = ProcessorTask(layout_of(worker), make_scheme(layout_of(worker), options), port, Summing)
    task.known = [Epoch(block.epoch - 1)]
    task.on_block(DATA, source(), block)
    return next((made for _, made in port.sent_on(RESULT)), block)


Corpus = dict[tuple[WorkerId, int], list[tuple[Edge, WorkerId, Block]]]


def make_corpus() -> Corpus:
    return {(me, i): honest(me, options) for me in ROLES for i, options in enumerate(SCHEMES)}
