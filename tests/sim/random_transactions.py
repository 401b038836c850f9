"""Random graphs whose destinations put rows out as transactions, into what is outside of the job."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
from dataflow_simulator import DataflowCase
from random_graphs import Drawn, Graph
from random_operators import KEYS, Ended, rows_of

from riprap.configs.topology import Topology
from riprap.operators.base import Context
from riprap.operators.dataflow import Emitter, Items
from riprap.operators.outputs.transactional import TransactionalSink


class Outside:
    """What other programs may read; no worker's death changes it."""

    def __init__(self) -> None:
        self.prepared: dict[str, list[np.ndarray]] = {}
        self.visible: dict[str, list[np.ndarray]] = {}
        """Rows of task, window, key and value, by the name of their transaction."""


class Transacted(Ended, TransactionalSink):
    """The same sums, and each of the rows that they are of outside."""

    outside: ClassVar[Outside]

    def __init__(self, back: str = "", stage: str = "") -> None:
        super().__init__(back)
        self._stage = self._me = stage
        self._rows: list[np.ndarray] = []

    def open(self, context: Context) -> None:
        super().open(context)
        self._me = f"{self._stage}.{context.index}"

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        left = super().process_data(items, first, out)
        rows = rows_of(items)[first:left, :2]
        self._rows.append(np.column_stack([np.full(len(rows), items.epoch), rows]))
        return left

    def pre_commit(self, checkpoint: int) -> str | None:
        rows, self._rows = self._rows, []
        if not rows:
            return None
        name = f"{self._me}/{checkpoint}"
        assert name not in self.outside.visible, f"{name} is prepared a second time"
        self.outside.prepared[name] = rows
        return name

    def commit(self, name: str) -> None:
        if name in self.outside.visible:
            return
        self.outside.visible[name] = self.outside.prepared.pop(name)

    def abort(self, kept: Collection[str]) -> None:
        mine = [name for name in self.outside.prepared if name.partition("/")[0] == self._me]
        for name in mine:
            if name not in kept:
                del self.outside.prepared[name]


class TransactedDrawn(Drawn):
    """One job, as it is drawn."""

    def _draw(self) -> None:
        super()._draw()
        for name, stage in self.stages.items():
            if stage["operator"].endswith(":Ended"):
                stage["operator"] = "random_transactions:Transacted"
                stage["options"]["stage"] = name


class TransactedGraph(Graph):
    """Runs it: the results are what can be read outside."""

    def __init__(self, drawn: Drawn, topology: Topology, case: DataflowCase) -> None:
        self.outside = Transacted.outside = Outside()
        super().__init__(drawn, topology, case)

    def sums(self) -> dict[str, np.ndarray]:
        found: dict[str, Any] = {stage: np.zeros((self.case.windows, KEYS + 1)) for stage in self.topology.sinks}
        for name, transaction in self.outside.visible.items():
            for rows in transaction:
                epochs, keys = rows[:, 0].astype(int) - 1, rows[:, 1].astype(int)
                np.add.at(found[name.partition(".")[0]], (epochs, keys), rows[:, 2])
        return found
