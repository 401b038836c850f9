"""A worker without its sockets, and the honest messages that it would get: what the fuzz run works on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

UNIT = Path(__file__).parents[1] / "unit"
sys.path[:0] = [str(Path(__file__).parents[2]), str(UNIT / "engine"), str(UNIT / "codec")]

# ruff: noqa: E402, F401  (the path comes first; the other files of this folder take their names from here)
from dataflow_parts import DataflowPort, no_files
from dumb_header import Fields, read, write
from fake_port import JOB, FakePort, Silent, Stream, bundled, items, packed, processor, sink, source
from task_parts import FIRST, staged

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.header import Header
from riprap.codec.ids import Epoch, Incarnation, Seq, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.epoch_reader import EpochReader, RowsReader
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.intake import Intake
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Links, Window
from riprap.engine.flow.progress import Heard
from riprap.engine.flow.runs import Runs
from riprap.engine.spreads.trained_stage import TrainedStageTask
from riprap.engine.wire.sharing import Borrower, Roots
from riprap.engine.worker.build import Hosted, block_unit, hosting_task, row_of
from riprap.operators.adapters.stages import SinkStage, SourceStage
from riprap.operators.base import Processor, Sink
from riprap.operators.dataflow import DataflowOperator, Emitter, Items

WINDOW = 400
COLUMNS = 3
SCHEMES: tuple[dict[str, Any], ...] = (
    {"scheme": "none"},
    {"scheme": "erasure", "code": "gf256", "k": 4, "r": 2, "hedge": 100, "attachment": "lazy"},
    {"scheme": "erasure", "code": "stable", "k": 2, "r": 1, "hedge": 100, "attachment": "eager"},
    {"scheme": "erasure", "code": "stable", "k": 4, "r": 2, "hedge": 100, "attachment": "hybrid"},
    {"scheme": "reactive"},
    {"scheme": "replication", "copies": 2},
)
ROLES = (source(), processor(1), sink())
Message = tuple[bytes, bytes, list[bytes]]
"""Identity of the connection, header, frames."""
Script = list[tuple[Edge, WorkerId, Block]]


class Summing(Processor):
    """An operator that takes any numbers, so that what raises is the engine."""

    def process_data(self, items: np.ndarray) -> Sequence[np.ndarray]:
        return [items.sum(0)]

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> Sequence[np.ndarray]:
        return [linear.sum(0)]

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


class Anything(DataflowOperator):
    """An operator between others, or at the end, that takes any arrays."""

    def __init__(self, sends: bool) -> None:
        self._sends = sends

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        if self._sends:
            out.send([np.zeros(1)], 1)
        return items.count

    def process_feedback(self, items: Items, out: Emitter) -> None: ...

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        if not self._sends:
            out.feed_back([np.zeros(1)])


class Receiver:
    """A worker without its sockets: gate, links and task, joined as engine/worker/port.py joins them."""

    def __init__(self, me: WorkerId, options: dict[str, Any]) -> None:
        layout = Layout.of(staged(options), me)
        self.intake, self.links = (
            Intake(JOB, layout, TaskGate(layout), Borrower(Roots([])).fetch),
            Links(self, Window(WINDOW)),
        )
        self.port = DataflowPort(layout, WINDOW)
        self.task = make_task(me, options, self.port)
        for peer in self.port.lives:
            self.links.raise_(peer, Incarnation(1))

    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None: ...

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None: ...

    def forward(self, message: Message) -> list[str]:
        """What became of a message, of each block in it: dropped, refused, passed over by its link, or taken."""
        before = sum(self.intake.malformed.values())
        passed = self.intake.forward(*message)
        outcomes = ["dropped"] * (sum(self.intake.malformed.values()) - before)
        if passed is None:
            assert outcomes, "a drop that was not counted"
            return outcomes
        edge, sender, head, blocks = passed
        return outcomes + [self._deliver(edge, sender, head, block) for block in blocks]

    def _deliver(self, edge: Edge, sender: WorkerId, head: Header, block: Block) -> str:
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
        self.links.on_reply(edge, peer, head.incarnation, block.kind, block.seq, block.items)
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
            self.task.on_durable(len(self.port.saved))
            work(self.task)


def work(task: Runs) -> None:
    """Process what came; a bound, for what the port of a test has sent is never acknowledged."""
    for _ in range(100):
        if not task.work():
            return


def make_task(me: WorkerId, options: dict[str, Any], port: DataflowPort) -> Runs:
    """The task of a worker, begun as far as it goes without its peers' items."""
    graph = staged(options, window=3)
    layout = Layout.of(graph, me)
    if coded := [segment for segment in layout.segments if segment.computes]:
        task: Runs = TrainedStageTask(coded[0], port, COLUMNS, Summing)
        feedback = Block(Kind.FEEDBACK, Epoch(FIRST), meta={"window": 0})
        task.on_block(coded[0].layout.feedback, sink(), feedback)
        return task
    hosted = hosted_of(graph, layout)
    journal = Silent() if layout.is_sink else None
    task = hosting_task(graph, layout, port, hosted, no_files(), journal, True, 200, Window(WINDOW))
    task.start()
    for joint in layout.outputs:
        for worker in joint.workers:
            reply = Block(Kind.REPLY, Epoch(0), meta={"heard": Heard().pack()}, seq=Seq(1))
            task.on_block(joint.reply, worker, reply)
    work(task)
    task.on_durable(len(port.saved))
    work(task)
    return task


def hosted_of(graph: Topology, layout: Layout) -> Hosted:
    """The adapters of jobs that train; where no coded stage checks arrays, operators that take any."""
    if layout.is_source:
        cut = (Stream(items(200)), 10, 20, 72, block_unit(graph))
        if layout.segments:
            return Hosted(SourceStage(None), RowsReader(*cut, row=row_of(graph)), COLUMNS)
        reader = EpochReader(*cut)
        return Hosted(SourceStage(reader.turn), reader, COLUMNS)
    if layout.segments:
        return Hosted(SinkStage(Counting(), True, False), None, COLUMNS)
    return Hosted(Anything(sends=not layout.is_sink), None, COLUMNS)


def honest(me: WorkerId, options: dict[str, Any]) -> Script:
    """What this receiver gets in the first windows of an undisturbed job, in a possible order."""
    layout = Layout.of(staged(options), me)
    if not layout.segments:
        return [*replies(layout), *blocks_of(layout)]
    segment = layout.segments[0].layout
    emitter = DataflowPort(Layout.of(staged(options), source()), 10 * WINDOW)
    make_task(source(), options, emitter)
    if me == source():
        rows = (Epoch(FIRST + row) for row in (1, 2))
        return [*replies(layout), *((segment.commit, sink(), block) for row in rows for block in commits(row))]
    if me == sink():
        dealt = [(segment.result, to, answer(to, block, options)) for to, block in emitter.sent_on(segment.data)]
        words = [(segment.punctuation, source(), block) for _, block in emitter.sent_on(segment.punctuation)]
        return sorted([*dealt, *words], key=lambda entry: (entry[2].epoch, entry[0] == segment.result))
    mine = [(segment.data, source(), block) for to, block in emitter.sent_on(segment.data) if to == me]
    models = [Block(Kind.FEEDBACK, Epoch(FIRST + n), arrays=(np.zeros(1),), meta={"window": n}) for n in (1, 2)]
    feedback = [(segment.feedback, sink(), block) for block in models]
    return sorted([*mine, *feedback], key=lambda entry: entry[2].epoch)


def replies(layout: Layout) -> Script:
    """How far the receivers of a worker are: nowhere."""
    meta = {"heard": Heard().pack()}
    return [(j.reply, w, Block(Kind.REPLY, Epoch(0), meta=meta)) for j in layout.outputs for w in j.workers]


def blocks_of(layout: Layout) -> Script:
    """Two windows on each link that ends at a worker: a block and the end, or what is fed back."""
    found: Script = []
    for window in (1, 2):
        for joint in layout.inputs:
            for worker in joint.workers:
                made = fed_back(window) if joint.feedback else of_window(window)
                for block in made:
                    block.key = block.key._replace(source=worker.index, sink=layout.me.index)
                    found.append((joint.edge, worker, block))
    return found


def fed_back(window: int) -> list[Block]:
    meta = {"cause": [2**31 + 1, 0, window, 0]}
    return [Block(Kind.FEEDBACK, Epoch(window), Key(0, 0, window, window - 1), 1, (np.zeros(1),), meta=meta)]


def of_window(window: int) -> list[Block]:
    number, before = 2 * window - 1, 2 * window - 2
    arrays, cause = (items(2), np.array([before, 2])), [2**31, 0, number, 0]
    end = {"cause": [2**31 + 1, 0, window, 0], "items": 2, "last": False, "opened_at": 1.5}
    return [
        Block(Kind.DATA, Epoch(window), Key(0, 0, number, before), 2, arrays, meta={"cause": cause}),
        Block(Kind.PUNCTUATION, Epoch(window), Key(0, 0, number + 1, before + 2), meta=end),
    ]


def commits(row: Epoch) -> list[Block]:
    return [Block(Kind.RESEND, row, meta={"pieces": [[0, 0]]}), Block(Kind.ACK, row, meta={"safe": 1})]


def answer(worker: WorkerId, block: Block, options: dict[str, Any]) -> Block:
    """What a processor makes of a piece: a result, or under lazy attachment parity that was asked for."""
    (segment,) = Layout.of(staged(options), worker).segments
    port = FakePort(segment.layout)
    task = TrainedStageTask(segment, port, COLUMNS, Summing)
    task.pairs[0].known = Epoch(block.meta["window"] - 1)
    task.on_block(segment.layout.data, source(), block)
    return next((made for _, made in port.sent_on(segment.layout.result)), block)


Corpus = dict[tuple[WorkerId, int], Script]


def make_corpus() -> Corpus:
    return {(me, i): honest(me, options) for me in ROLES for i, options in enumerate(SCHEMES)}
