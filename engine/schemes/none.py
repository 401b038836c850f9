"""Scheme `none`: no redundancy. What was lost with a worker stays lost, and is counted and reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riprap.codec.blocks import Block
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.port import Port, Ready
from riprap.engine.flow.scheme import DataflowScheme
from riprap.engine.flow.three_stage.layout import Layout
from riprap.engine.spreads.collector import Collector, Ledger
from riprap.engine.spreads.dealer import Dealer
from riprap.engine.spreads.placement import alternate
from riprap.engine.spreads.relay import Relay

INBOX_MAX = 64
"""Blocks that may wait at a task of a general topology before their senders have to."""


class NoneSource(Dealer):
    """Deals blocks in turn to the processors that are alive when the epoch starts."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))
        self.unit = self.k

    def share(self, block_count: int, participants: int) -> int:
        return -(-block_count // participants)

    def on_emit(self, port: Port, block: Block, cause: Block | None = None) -> None:
        number = self.keep(block)
        self.deal(port, alternate(self.participants, number), block)


class NoneProcessor(Relay):
    """Nothing to add to a relay."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout)


class NoneSink(Collector):
    """Closes an epoch when each block has come or its worker is gone."""

    def __init__(self, layout: Layout, options: Mapping[str, Any]) -> None:
        super().__init__(layout, k=len(layout.processors))

    def places(self, ledger: Ledger, epoch: Epoch, row: int, s_index: int) -> tuple[WorkerId, ...]:
        return (alternate(ledger.participants or (), row * self.k + s_index),)

    def resolve(self, port: Port, ledger: Ledger, epoch: Epoch, row: int, lacking: list[int]) -> Ready:
        for i in lacking:
            if self.gone(port, ledger, epoch, row, i):
                ledger.lost.add((row, i))
                port.count("lost_blocks")
        return ()


class NoneDataflow(DataflowScheme):
    """In a general topology: input is acknowledged when received, a lost state begins anew."""

    def on_receive(self, entry: Entry) -> None:
        if len(self.bench.inbox) <= INBOX_MAX:
            self.bench.acknowledge(entry)

    def on_processed(self, entry: Entry) -> None:
        self.bench.acknowledge(entry)
