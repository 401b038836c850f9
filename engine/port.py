"""The port of a real worker: links over the network, the clock, statistics and the event log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from codec.blocks import Block, Kind
from codec.errors import JobFailed
from codec.events import EventLog
from codec.header import Header, encode
from codec.ids import Epoch, Incarnation, Seq, WorkerId
from engine.intake import Gate, Intake, identity
from engine.layout import Edge, Neighbourhood
from engine.links import LinkPort, Links
from engine.network import DOWNSTREAM, Network
from engine.persistence import NoStore, Store
from engine.tasks.task import Runs

HELLO_EVERY_S = 0.5
ACK_EVERY_S = 0.01


class WorkerPort(LinkPort):
    """Carries out what schemes and tasks ask for (the Port), and moves the messages of their links (the Wire).

    Owned by the compute thread; nothing here waits except `step`, and that at most as long as it is told.
    """

    def __init__(
        self, job: str, layout: Neighbourhood, gate: Gate, life: Incarnation, network: Network, window: int,
        log: EventLog,
    ) -> None:  # fmt: skip
        self.job, self.layout, self.life, self.network, self.log = job, layout, life, network, log
        self.me = str(layout.me)
        self.links = Links(self, window)
        self.intake = Intake(job, layout, gate)
        self.counts: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()
        self.store: Store = NoStore()
        self.confirm_s = float("inf")
        """How long the backup servers may confirm nothing of what was saved, before the worker gives up."""
        self._saved = self._durable = 0
        self._confirmed_at = 0.0
        self._connections: dict[WorkerId, int] = {}
        self._peers: dict[int, WorkerId] = {}
        self._alarm_at = float("inf")
        self._hello_at = self._ack_at = 0.0
        self._ack_least = max(1, window // 4)

    # what schemes may do, beside the links
    def alarm(self, seconds: float) -> None:
        self._alarm_at = time.monotonic() + seconds

    def now(self) -> float:
        return time.monotonic()

    def count(self, name: str, n: int = 1) -> None:
        self.counts[name] += n

    def save(self, kind: str, epoch: Epoch, meta: dict[str, Any], arrays: Sequence[np.ndarray]) -> int:
        number = self.store.save(kind, epoch, meta, arrays)
        if number:
            if self._saved == self._durable:
                self._confirmed_at = time.monotonic()
            self._saved = number
        return number

    def report(self, event: str, **fields: Any) -> None:
        self.log.write(event, worker=self.me, incarnation=self.life, **fields)

    # the wire of the links
    def transmit(self, edge: Edge, to: WorkerId, seq: Seq, block: Block) -> None:
        connection = self._connections.get(to)
        if connection is None:
            return
        block.seq = seq
        header, arrays = encode(Header(self.job, self.me, self.life, edge.index), block)
        if self.network.send(connection, header, arrays):
            self.bytes_sent[edge.name] += len(header) + sum(array.nbytes for array in arrays)
        else:
            self.counts["ring_full"] += 1  # lost on the way; the next HELLO brings it back

    def reply(self, edge: Edge, to: WorkerId, kind: Kind, seq: Seq) -> None:
        header, _ = encode(Header(self.job, self.me, self.life, edge.index), Block(kind, Epoch(0), seq=seq))
        self.network.reply(identity(to, self.links.incarnation(to)), header)

    # what the worker does
    def connect(self, peer: WorkerId, endpoint: str) -> None:
        """Open the connection to a new life of a peer."""
        connection = self.network.connect(endpoint, identity(self.layout.me, self.life))
        self._connections[peer], self._peers[connection] = connection, peer

    def disconnect(self, peer: WorkerId) -> None:
        """Drop the connection to a peer that is down, and what is queued on it."""
        connection = self._connections.pop(peer, None)
        if connection is not None:
            del self._peers[connection]
            self.network.disconnect(connection)

    def step(self, task: Runs, wait_s: float) -> None:
        """Take what came in, or wait for it this long; then alarms, acknowledgements and HELLOs that are due."""
        now = time.monotonic()
        due = min(self._alarm_at, self._hello_at, self._ack_at) - now
        for origin, who, header, frames in self.network.receive(max(0.0, min(wait_s, due)) * 1000):
            if origin == DOWNSTREAM:
                self._on_reply(who, header)
            else:
                self._on_message(task, who, header, frames)
        self._look_at_store(task)
        self.links.flush(self._ack_least)
        self._timers(task, time.monotonic())

    def _look_at_store(self, task: Runs) -> None:
        """Tell the task what has become safe. JobFailed when nothing has for too long."""
        durable = self.store.durable
        if durable > self._durable:
            self._durable, self._confirmed_at = durable, time.monotonic()
            task.on_durable(durable)
        elif self._saved > durable and time.monotonic() > self._confirmed_at + self.confirm_s:
            raise JobFailed(
                f"no backup server has confirmed what {self.me} saved for {self.confirm_s:g} s",
                "see the backup servers' logs, start them again, and resume the job",
            )

    def _on_message(self, task: Runs, peer: bytes, header: bytes, frames: list[Any]) -> None:
        message = self.intake.forward(peer, header, frames)
        if message:
            edge, sender, head, block = message
            self.deliver(task, edge, sender, head.incarnation, block)

    def deliver(self, task: Runs, edge: Edge, sender: WorkerId, life: Incarnation, block: Block) -> None:
        """Hand a message on if the task admits it and it is the next of its link."""
        if block.kind != Kind.HELLO and not task.admits(block):
            self.intake.drop(f"a {block.kind.name} that contradicts what is known")
        elif self.links.accept(edge, sender, life, block.seq, block):
            task.on_block(edge, sender, block)

    def _on_reply(self, connection: int, header: bytes) -> None:
        message = self.intake.backward(header)
        if message and self._peers.get(connection) == message[1]:
            edge, peer, head, block = message
            self.links.on_reply(edge, peer, head.incarnation, block.kind, block.seq)

    def _timers(self, task: Runs, now: float) -> None:
        if now >= self._alarm_at:
            self._alarm_at = float("inf")
            task.on_alarm()
        if now >= self._ack_at:
            self._ack_at = now + ACK_EVERY_S
            self.links.flush(1)
        if now >= self._hello_at:
            self._hello_at = now + HELLO_EVERY_S
            self.links.hello()
