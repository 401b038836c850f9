"""The scheme interface: five questions about a link, answered by small objects without sockets or clocks.

A scheme is a pure state machine. The task that owns the operator's state calls its hooks, per block, never per item;
all that a hook may do to the world goes through the Port. The same code runs in real workers and in the seeded
simulator of tests/sim.

Every hook that may unblock something returns what may be processed NOW, in order. Alignment returns nothing and later
the held blocks, de-duplication returns nothing, decoding returns the missing blocks for the last one in, and a
Boundary stands in the list at its place; so hooks never re-enter the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.three_stage.layout import Layout


class Scheme:
    """Worker half. Called by the thread that owns the operator's state; it must not block or keep array views
    beyond what it needs. A scheme overrides the hooks of its role and inherits the rest.
    """

    unit = 1
    """An epoch is cut into equal blocks whose number is a multiple of this."""

    linear = False
    """Hybrid coded computation (LEC III-D): parity is processed too, and what travels along with a result, and is
    decoded, is the linear part of a block, not the block."""

    saves_state = False
    """A processor's state is persisted with each feedback."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def admits(self, block: Block) -> bool:
        """True when an honest peer can have sent this after all that came before; asked before its link takes it.

        The message's form is checked already (engine/flow/intake.py). Changes nothing and raises nothing, whatever the
        message says. False drops and counts it. Hooks may rely on what was checked.
        """
        return block.kind != Kind.PARITY

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        """At a source, before the first block of an epoch: may it start now? Asked again after each event."""
        return True

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        """The operator emits a block; `cause` is the input block that it was computed from."""

    def on_receive(self, port: Port, edge: Edge, sender: WorkerId, block: Block) -> Ready:
        """A block came in, in order on its link."""
        return (block,)

    def on_resume(self, port: Port, epoch: Epoch) -> None:
        """At a source or a sink that starts (again), or that is told to: the next epoch is the one after this."""

    def on_restore(self, port: Port, blocks: Sequence[Block]) -> Ready:
        """At a processor that starts again: the items that its former life persisted, in their order."""
        return ()

    def on_epoch(self, port: Port, epoch: Epoch, items: int, last: bool) -> None:
        """A source has emitted, or a sink has processed, everything up to this epoch and nothing later."""

    def on_commit(self, port: Port, pair: int, epoch: Epoch) -> None:
        """At a processor: the sink of this pair has committed the epoch."""

    def on_durable(self, port: Port, number: int) -> None:
        """Everything saved up to this number is safe."""

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        """A worker that was up is known to be down: nothing more comes from that incarnation."""
        return ()

    def on_worker_restored(self, port: Port, worker: WorkerId) -> Ready:
        """A new incarnation of a worker is up, and the links to it are open."""
        return ()

    def on_alarm(self, port: Port) -> Ready:
        """The time asked for by `Port.alarm` has come."""
        return ()
