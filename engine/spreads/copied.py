"""Spread `copied` (LEC V-A, Rep-wx): every block goes to all w tasks of a randomly drawn group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.collector import Collector, Ledger
from riprap.engine.spreads.dealer import Dealer
from riprap.engine.spreads.half import Ready
from riprap.engine.spreads.placement import random_group


class CopyingSource(Dealer):
    """Issues w copies of each block. A slow copy that lives is waited for a while: w copies are what was asked for."""

    patience_s = 1.0

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=1)
        self.copies = options["copies"]
        self._groups = len(layout.processors) // self.copies

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // self._groups)

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        number = self.keep(block)
        for to in random_group(self.layout.processors, self.participants, self.copies, block.epoch, number):
            self.deal(port, to, block)


class CopyingSink(Collector):
    """The first copy's result counts; a block whose copies are all gone is asked for again."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=1)
        self.copies = options["copies"]

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        return random_group(self.layout.processors, ledger.participants or (), self.copies, epoch, row)

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        if self.gone(port, ledger, epoch, row, 0):
            self.ask(port, ledger, epoch, row, [0])
        return ()


def row(options: Mapping[str, Any], tasks: int) -> int:
    """A block for each group of tasks."""
    return int(tasks // options["copies"])
