"""The interface of the halves of a spread: what deals blocks over tasks, computes on them, and collects the results.

A half is a pure state machine without sockets or clocks. The end of a segment that owns it calls its hooks, per block,
never per item; all that a hook may do to the world goes through the Port. What they call an epoch is a row of the
segment (engine/spreads/encoder.py).

A hook that may unblock something returns what may be processed NOW, in order: de-duplication returns nothing, decoding
returns the missing blocks for the last one in, and a WholeRow stands in the list at its place; so hooks never re-enter
the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout


class WholeRow(NamedTuple):
    """Everything up to `epoch` has been returned; of what has not, nothing comes."""

    epoch: Epoch


Ready = Iterable[Block | WholeRow]


class Waiting:
    """Sends blocks, each once its link has room and in the order of its link. No alarm is needed: what makes room, the
    news of a peer or its acknowledgement, wakes the task, which flushes in every turn."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Edge, WorkerId], deque[Block]] = {}

    def send(self, port: Port, edge: Edge, to: WorkerId, block: Block) -> None:
        """Send a block, now or later."""
        waiting = self._blocks.get((edge, to))
        if waiting is not None:
            waiting.append(block)
        elif not port.send(edge, to, block):
            self._blocks[edge, to] = deque((block,))

    def flush(self, port: Port) -> None:
        """Send what there is room for now."""
        for (edge, to), waiting in list(self._blocks.items()):
            while waiting and port.send(edge, to, waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._blocks[edge, to]

    def forget(self, worker: WorkerId) -> None:
        """Drop what waits for an incarnation that is over: it is not for the next one."""
        for place in [place for place in self._blocks if place[1] == worker]:
            del self._blocks[place]


class Half:
    """Called by the thread that owns the task; it must not block or keep array views beyond what it needs. Each half
    overrides the hooks of its role and inherits the rest.
    """

    def __init__(self, layout: SegmentLayout) -> None:
        self.layout = layout
        self.waiting = Waiting()

    def flush(self, port: Port) -> None:
        """Send what had no room before. Called in every turn of the task."""
        self.waiting.flush(port)

    def admits(self, block: Block) -> bool:
        """True when an honest peer can have sent this after all that came before; asked before its link takes it.

        The message's form is checked already (engine/flow/intake.py). Changes nothing and raises nothing, whatever the
        message says. False drops and counts it. Hooks may rely on what was checked.
        """
        return block.kind != Kind.PARITY

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        """At the encoder, before the first block of an epoch: may it start now? Asked again after each event."""
        return True

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        """A block is to leave; `cause` is the piece that it was computed from."""

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        """A block came in, in order on its link."""
        return (block,)

    def on_resume(self, port: Port, epoch: Epoch) -> None:
        """At an end that starts (again): the next epoch is the one after this."""

    def on_epoch(self, port: Port, epoch: Epoch) -> None:
        """The encoder has emitted, or the decoder has taken in, everything up to this epoch and nothing later."""

    def on_commit(self, port: Port, pair: int, epoch: Epoch) -> None:
        """At the coded stage: the decoder of this pair needs nothing of the epoch any more."""

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        """A worker that was up is known to be down: nothing more comes from that incarnation."""
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        """A new incarnation of a worker is up, and the links to it are open."""
        return ()

    def on_alarm(self, port: Port) -> Ready:
        """The time asked for by `Port.alarm` has come."""
        return ()
