"""Spread `dealt`: each block goes to one task, and what is lost with that is given up and counted (scheme `none`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.port import Port
from riprap.engine.flow.segment import SegmentLayout
from riprap.engine.spreads.collector import Collector, Ledger
from riprap.engine.spreads.dealer import Dealer
from riprap.engine.spreads.half import Ready
from riprap.engine.spreads.placement import alternate


class DealingSource(Dealer):
    """Deals blocks in turn to the processors that are alive when the epoch starts."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))
        self._turns: Sequence[WorkerId] = ()

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // participants)

    def on_open(self, port: Port, epoch: Epoch, block_count: int) -> bool:
        opened = super().on_open(port, epoch, block_count)
        self._turns = sorted(self.participants)
        return opened

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        self.deal(port, alternate(self._turns, self.keep(block)), block)

    def deal(self, port: Port, to: WorkerId, block: Block) -> None:
        """Send, at the latest once its link has room: nobody else computes on it, so to skip it would be to lose it."""
        if self.participants.get(to) == port.incarnation(to) and port.is_up(to):
            self.waiting.send(port, self.layout.data, to, block)
        else:
            port.count("skipped_blocks")

    def on_worker_failed(self, port: Port, worker: WorkerId) -> Ready:
        self.waiting.forget(worker)
        return ()


class DealingSink(Collector):
    """Closes an epoch when each block has come or its worker is gone."""

    def __init__(self, layout: SegmentLayout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        return (alternate(sorted(ledger.participants or ()), row * self.k + s_index),)

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        for i in lacking:
            if self.gone(port, ledger, epoch, row, i):
                ledger.lost.add((row, i))
                port.count("lost_blocks")
        return ()


def row(options: Mapping[str, Any], tasks: int) -> int:
    """A block for each task."""
    return tasks
