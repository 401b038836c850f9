"""A block that came in and is processed in its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass

from riprap.codec.blocks import NO_SEQ, Block
from riprap.codec.clock import opened, opened_here
from riprap.codec.ids import Incarnation, Seq, WorkerId
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.progress import INPUT, LinkKey
from riprap.operators.dataflow import Items

NOBODY = Incarnation(0)


@dataclass(slots=True, eq=False)
class Entry:
    """`number` counts all that a task received, in all its incarnations; `seq` is the block's number on its connection.

    `edge` and `sender` are None for the job's input and for what was restored: nobody waits for an acknowledgement.
    """

    number: int
    link: LinkKey
    block: Block
    edge: Edge | None = None
    sender: WorkerId | None = None
    seq: Seq = NO_SEQ
    incarnation: Incarnation = NOBODY
    """The sender's; the numbers of its connection end with it."""
    stage: str = ""
    record: int = 0
    """The record that it was saved as; 0 while it was not."""
    acknowledged: bool = False
    turn: int = 0
    """Its place in the order of processing, which feedback does not keep to; 0 while it was not processed."""
    first: int = 0
    """The first of its items that is not processed."""
    prepared: Items | None = None
    """Its items as the operator has prepared them (threads.py); None before its turn, and when it is done with."""
    work: Future[Items] | None = None
    """The same, where helpers were asked to do it before its turn."""

    @property
    def items(self) -> Items:
        """Its items, for the operator."""
        block = self.block
        return Items(block.epoch, self.stage, self.link[1], block.items, block.arrays)

    @property
    def is_empty(self) -> bool:
        """True when a coded stage has made nothing of its block (engine/spreads/packing.py)."""
        return not self.block.items and not self.block.arrays

    @property
    def is_input(self) -> bool:
        """True when it was read from the job's input, which can be read again."""
        return self.link == INPUT


def on_our_clock(block: Block, now: float) -> None:
    """Have the end of a window, exact or tentative, say by this host's clock when that was opened: it may come from
    another host, or from what a former incarnation saved there."""
    if "opened_at" in block.meta:
        block.meta.update(opened(opened_here(block.meta, now), now))


def forget_held(held: MutableMapping[LinkKey, deque[Entry]], link: LinkKey, sender: WorkerId) -> None:
    """A sender died: its next incarnation, or a copy, sends again what of it waits here; not what the task was
    restored with."""
    if kept := deque(entry for entry in held.pop(link, ()) if entry.sender != sender):
        held[link] = kept
