"""A small job under a scheme, for the explorer: what of it never changes, and what its workers send and save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dataflow_jobs
import msgpack
import numpy as np
from dataflow_simulator import Ledger, Rows
from explore_jobs import JOBS

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch
from riprap.configs.topology import Topology
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.links import Window
from riprap.engine.flow.reader import Reader
from riprap.engine.flow.task import Task
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.worker.build import Hosted, hosting_task
from riprap.engine.worker.operators import opened_dataflow

if TYPE_CHECKING:
    from explore_worker import Node

WIDE = 1000
"""A link's window that never fills: nothing need be acknowledged then."""
CHECKPOINTS = {"interval_ms": 1, "min_pause_ms": 0, "timeout_ms": 500, "tolerated_failures": 3}
SCHEMES: dict[str, dict[str, Any]] = {
    "aligned": CHECKPOINTS | {"scheme": "barrier", "alignment": "aligned"},
    "unaligned": CHECKPOINTS | {"scheme": "barrier", "alignment": "unaligned"},
    "timeout": CHECKPOINTS | {"scheme": "barrier", "alignment": "timeout", "alignment_timeout_ms": 1000},
    "stop_the_world": CHECKPOINTS | {"scheme": "stop_the_world"},
}


class Sent(NamedTuple):
    """A message between two workers, or to and from the controller; `body` depends on `kind`."""

    kind: str
    sender: int
    life: int
    round: int
    to_life: int
    body: tuple[Any, ...]


class Record(NamedTuple):
    """A part of a checkpoint in the store."""

    number: int
    meta: bytes
    arrays: tuple[tuple[str, tuple[int, ...], bytes], ...]

    @classmethod
    def of(cls, number: int, meta: dict[str, Any], arrays: Sequence[np.ndarray]) -> Record:
        """What a task has saved."""
        return cls(number, msgpack.packb(meta), tuple((a.dtype.str, a.shape, a.tobytes()) for a in arrays))

    @property
    def block(self) -> Block:
        """As a new life gets it."""
        arrays = tuple(np.frombuffer(data, code).reshape(shape) for code, shape, data in self.arrays)
        meta = msgpack.unpackb(self.meta, strict_map_key=False)
        return Block(Kind.DATA, Epoch(self.number), arrays=arrays, meta=meta)


class Plan:
    """A job under a scheme, and what of it never changes: layouts, gates, input."""

    def __init__(self, *named: Any) -> None:
        self._named = named
        job, scheme, items, windows, window = named
        self.topology: Topology = dataflow_jobs.topology(JOBS[job], SCHEMES[scheme])
        self.workers = self.topology.workers()
        self.items, self.windows, self.window = items, windows, window
        self.layouts = [Layout.of(self.topology, worker) for worker in self.workers]
        self.gates = [TaskGate(layout) for layout in self.layouts]
        self.index = {worker: i for i, worker in enumerate(self.workers)}
        self.edges = [
            {edge.index: edge for edge in (*layout.incoming(), *layout.outgoing())} for layout in self.layouts
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return plan_of, self._named

    def lanes(self) -> Iterator[tuple[int, int, int]]:
        """Sender, receiver and edge of all that carries messages: of each link both ways, in order."""
        for me, layout in enumerate(self.layouts):
            for edge, senders in layout.incoming().items():
                for sender in senders:
                    yield self.index[sender], me, edge.index
                    yield me, self.index[sender], -1 - edge.index

    def make_task(self, node: Node) -> Task:
        """The task of a worker's life, or of a round of it."""
        topology, layout = self.topology, self.layouts[node.at]
        operator = opened_dataflow(topology, layout.me)
        files = WindowFiles(Path("/nonexistent"), layout.me.index, type(operator))
        reader = None
        if layout.is_source:
            rows = Rows(np.arange(1, self.items + 1))
            rows.item_bytes = float(topology.links.block_bytes)  # each block holds an item
            reader = Reader(rows, self.windows, topology.links.block_bytes, 0)
        journal = Ledger(node.announced) if layout.is_sink else None
        hosted = Hosted(operator, reader)
        return hosting_task(
            topology, layout, node, hosted, files, journal, node.is_first, self.items, Window(self.window)
        )


@cache
def plan_of(job: str, scheme: str, items: int, windows: int, window: int) -> Plan:
    """The plan of a job: each time the same object, which copies of a worker share."""
    return Plan(job, scheme, items, windows, window)
