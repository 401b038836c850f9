"""Scheme `reactive` (LEC V-A): Spark Streaming's approach. Nothing is sent twice; every received item and every state
of a processor is persisted, and a new life restores them, reprocesses, and goes on, while everyone else waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, Incarnation, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.spreads.collector import Collector, Ledger
from riprap.engine.spreads.dealer import Dealer
from riprap.engine.spreads.relay import Relay


class ReactiveSource(Dealer):
    """Deals blocks in turn to all processors, and keeps for a dead one what it has not acknowledged.

    An acknowledged block is persisted, so its processor brings it back; the others are sent to its next life.
    """

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))
        self.unit = self.enough = self.k
        self._unsent: dict[WorkerId, deque[Block]] = {worker: deque() for worker in layout.processors}

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // self.k)

    def on_resume(self, port: Port, epoch: Epoch) -> None:
        super().on_resume(port, epoch)
        for blocks in self._unsent.values():
            blocks.clear()

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        opened = super().on_open(port, epoch, block_count)
        self.participants = {worker: Incarnation(0) for worker in self.layout.processors}  # in whichever life
        return opened

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        number = self.keep(block)
        to = self.layout.processors[number % self.k]
        self._unsent[to].append(block)
        self._flush(port, to)

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        ready = super().on_receive(port, edge, sender, block)
        for worker in self.layout.processors:
            self._flush(port, worker)
        return ready

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        if worker in self._unsent:
            unacknowledged = [block for block in port.kept(self.layout.data, worker) if block.epoch > self.committed]
            self._unsent[worker].extendleft(reversed(unacknowledged))
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        if worker in self._unsent:
            self._flush(port, worker)
        return ()

    def _flush(self, port: Port, to: WorkerId) -> None:
        blocks = self._unsent[to]
        while blocks and port.send(self.layout.data, to, blocks[0]):
            blocks.popleft()


class Received(NamedTuple):
    """A block on its way to the disk: where it came from, and its number there."""

    edge: Edge
    sender: WorkerId
    life: Incarnation
    block: Block


class ReactiveProcessor(Relay):
    """Persists each block, and acknowledges it once that is durable; the task persists the states.

    A block is processed while it is written: its result counts whether or not this life lives to acknowledge it.
    """

    saves_state = True

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout)
        self._unsaved: deque[Received] = deque()
        self._saved: deque[tuple[int, Received]] = deque()

    def on_restore(self, port: Port, blocks: Sequence[Block]) -> Ready:
        port.count("restored_items", sum(block.items for block in blocks))
        return blocks

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        self._unsaved.append(Received(edge, sender, port.incarnation(sender), block))
        self._save(port)
        return (block,)

    def on_durable(self, port: Port, number: int) -> None:
        while self._saved and self._saved[0][0] <= number:
            _, (edge, sender, life, block) = self._saved.popleft()
            if port.incarnation(sender) == life:
                port.ack(edge, sender, block.seq)
        self._save(port)

    def on_commit(self, port: Port, pair: int, epoch: Epoch) -> None:
        self._flush(port, self.layout.sinks[pair])
        port.ack(self.layout.feedback, self.layout.sinks[pair])
        self._save(port)

    def _save(self, port: Port) -> None:
        while self._unsaved:
            received = self._unsaved[0]
            block = received.block
            meta = {**block.meta, "key": list(block.key)}
            number = port.save("item", block.epoch, meta, (block.arrays[0],))
            if not number:
                return
            self._unsaved.popleft()
            self._saved.append((number, received))


class ReactiveSink(Collector):
    """Waits for every result: nothing is given up, for every block comes back with its processor."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        return (self.layout.processors[s_index],)

    def at_ease(self, ledger: Ledger) -> bool:
        return True

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        return ()
