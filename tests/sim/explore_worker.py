"""One worker as the explorer runs it: the real task, scheme, links and membership, whose whole state can be copied.

It has a clock that stands still until an alarm goes off, a wire that hands messages to the explorer, and a store
that has written a record once the explorer says so. What it does depends on its state and on the event alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from explore_plan import WIDE, Plan, Record, Sent

from riprap.codec.blocks import Block, Kind
from riprap.codec.header import Header, decode, encode
from riprap.codec.ids import Incarnation, Round, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import LinkPort, Links, Window
from riprap.engine.flow.task import Task
from riprap.engine.worker.membership import Membership

NOW = 0.0
WHERE = {"key": "", "host": "host", "ipc": "", "tcp": ""}
NEVER = 1 << 30


class Grave(NamedTuple):
    """What is left of a worker that died."""

    plan: Plan
    at: int
    life: int
    disk: list[Record]
    announced: list[tuple[int, int]]


class Node(LinkPort):
    """A life of a worker; what outlives it is `disk` and `announced`."""

    def __init__(self, plan: Plan, at: int, life: int, disk: list[Record], announced: list[tuple[int, int]]) -> None:
        self.plan, self.at, self.life = plan, at, life
        self.disk, self.announced = disk, announced
        self.unsaved: list[Record] = []
        self.saves = self.durable = self.told = 0
        self.clock, self.rings_in = NOW, 0.0
        self.out: list[tuple[int, int, Sent]] = []
        """Since the explorer looked last: to whom, on which edge, what."""
        self.use(Links(self, Window(plan.window)))
        self.membership = Membership(self, plan.make_task(self), self, "host", "zeromq", self.begin_anew)

    @property
    def task(self) -> Task:
        return self.membership.task

    @property
    def layout(self) -> Layout:
        return self.plan.layouts[self.at]

    @property
    def own_incarnation(self) -> int:
        return self.life

    @property
    def is_first(self) -> bool:
        return self.life == 1 and self.links.round == 0

    # the wire of its links
    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        block.seq = seq
        header, arrays = encode(Header("job", str(self.layout.me), self.life, edge.index), block)
        self._send("block", edge.index, to, (bytes(header), tuple(array.tobytes() for array in arrays)))

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq, room: int = 0) -> None:
        self._send("reply", -1 - edge.index, to, (int(kind), int(seq)))

    def _send(self, kind: str, lane: int, to: WorkerId, body: tuple[Any, ...]) -> None:
        sent = Sent(kind, self.at, self.life, self.links.round, self.links.incarnation(to), (lane, *body))
        self.out.append((self.plan.index[to], lane, sent))

    # the port of its task and scheme, beside the links
    def now(self) -> float:
        return self.clock

    cpu = now

    def alarm(self, seconds: float) -> None:
        self.rings_in = seconds

    def count(self, name: str, n: int = 1) -> None:
        """Nobody asks."""

    def report(self, event: str, **fields: Any) -> None:
        """Nobody asks."""

    @property
    def author(self) -> str:
        return str(self.layout.me)

    def save(self, kind: str, epoch: int, meta: dict[str, Any], arrays: Sequence[np.ndarray], since: int = 0) -> int:
        assert kind == "checkpoint"
        self.unsaved.append(Record.of(int(epoch), meta, arrays))
        self.saves += 1
        return self.saves

    def release(self, checkpoint: int) -> None:
        self.disk[:] = [record for record in self.disk if record.number >= checkpoint]

    # what its membership asks for
    def connect(self, *_: Any) -> None:
        """Messages find their way."""

    disconnect = expect = dismiss = connect

    def enter(self, round_: int) -> None:
        self.links.enter(Round(round_))

    def ask_anew(self) -> None:
        for edge, senders in self.layout.incoming().items():
            for sender in senders:
                self.links.ask_anew(edge, sender)

    def begin_anew(self, round_: int, checkpoint: int) -> Task:
        """As the worker does: once all that was saved is safe."""
        assert not self.unsaved, "the explorer tells of a round when the store has answered"
        self.enter(round_)
        self.durable, self.rings_in = self.saves, 0.0
        task = self.plan.make_task(self)
        self.restore(task, checkpoint)
        return task

    def restore(self, task: Task, checkpoint: int) -> None:
        """Go on from this worker's part of a checkpoint that is whole; 0: from the beginning."""
        parts = {record.number: record.block for record in self.disk if record.number <= checkpoint}
        assert checkpoint in parts or not checkpoint, f"no part of checkpoint {checkpoint}"
        chain = [parts[number] for number in sorted(parts)]
        task.restore(chain[-1] if checkpoint else None, chain[:-1] if checkpoint else [])
        assert task.epoch >= len(self.announced), "what was announced is taken back"

    # events
    def arrive(self, sent: Sent) -> None:
        """A message of a peer."""
        sender, lane = self.plan.workers[sent.sender], sent.body[0]
        if not self.links.is_of_round(sent.round):
            return
        life = Incarnation(sent.life)
        if sent.kind == "reply":
            kind, seq = sent.body[1:]
            self.links.on_reply(self.plan.edges[self.at][-1 - lane], sender, life, Kind(kind), Seq(seq))
            return
        edge = self.plan.edges[self.at][lane]
        _, block = decode(sent.body[1], [np.frombuffer(data, np.uint8) for data in sent.body[2]])
        self.plan.gates[self.at].checks[edge](sender, block)
        if self.links.accept(edge, sender, life, block.seq, block):
            self.task.on_block(edge, sender, block)

    def see(self, view: Sent) -> None:
        """A view of the controller."""
        triggered, completed, lives = view.body
        entries = {
            str(worker): {"incarnation": life, "state": "up" if up else "starting", **WHERE}
            for worker, (life, up) in zip(self.plan.workers, lives, strict=True)
        }
        self.membership.on_view(
            {"revision": 0, "phase": "RUNNING", "workers": entries, "checkpoint": [triggered, completed]}
            | ({"round": view.round} if view.round else {})
        )

    def ring(self) -> None:
        """The time has come that the task asked for: for one turn it is that late."""
        self.clock, self.rings_in = self.rings_in, 0.0
        self.task.on_alarm()
        self.task.work()
        self.clock = NOW

    def write(self) -> None:
        """The oldest record that the store has is safe."""
        self.disk.append(self.unsaved.pop(0))
        self.durable += 1
        self.task.on_durable(self.durable)

    def settle(self) -> None:
        """What a worker does behind each event: acknowledge, and say which of its parts is safe."""
        self.links.flush(NEVER if self.plan.window == WIDE else 1)
        if self.task.part.number > self.told:
            self.told = self.task.part.number
            self.tell("part", self.told)

    def tell(self, kind: str, *body: int) -> None:
        """Report to the controller."""
        self.out.append((len(self.plan.workers), 0, Sent(kind, self.at, self.life, 0, 0, body)))


def reborn(grave: Grave, start: Sent) -> Node:
    """The next life of a worker, that goes on from a checkpoint."""
    (completed,) = start.body
    node = Node(grave.plan, grave.at, start.to_life, grave.disk, grave.announced)
    node.restore(node.task, completed)
    node.tell("ready")
    return node
