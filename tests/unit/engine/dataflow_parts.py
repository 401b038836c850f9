"""Topologies, ports and blocks to put before the parts of a task, without network and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from fake_port import FakePort

from riprap.codec.blocks import Block, Key, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.gate import TaskGate
from riprap.engine.flow.layout import Layout
from riprap.engine.flow.progress import LinkKey
from riprap.engine.flow.window_files import WindowFiles
from riprap.operators.dataflow import DataflowOperator


def no_files() -> WindowFiles:
    """For operators that write none."""
    return WindowFiles(Path("/nonexistent"), 0, DataflowOperator)


def topology(stages: Mapping[str, int], edges: Sequence[Mapping[str, Any]], **fault_tolerance: Any) -> Topology:
    """A topology of stages (name -> tasks) and edges ({from, to, ...}), of nothing else."""
    whole = {"partitioning": "full", "feedback": False}
    return Topology.from_dict(
        {
            "job": "job",
            "input": {"path": "none", "repeat": 1, "limit": None},
            "micro_batch": 10,
            "seed": 1,
            "stages": {
                name: {"operator": "any:Any", "parallelism": tasks, "options": {}} for name, tasks in stages.items()
            },
            "edges": [whole | dict(edge) for edge in edges],
            "fault_tolerance": {"scheme": "none", **fault_tolerance},
            "links": {"block_bytes": 100, "window_epochs": 2},
            "backup": {"servers": 1, "storage": None, "durability": "fsync", "interval_ms": 1},
            "cluster": dict.fromkeys(
                ("heartbeat_timeout_s", "startup_timeout_s", "recovery_timeout_s", "stall_timeout_s"), 1.0
            ),
        }
    )


def chain(*stages: tuple[str, int], **fault_tolerance: Any) -> Topology:
    """Stages one behind the other, each joined to the next by a full edge."""
    names = [name for name, _ in stages]
    edges = [{"from": a, "to": b} for a, b in pairwise(names)]
    return topology(dict(stages), edges, **fault_tolerance)


def edge_of(gate: TaskGate, layout: Layout, sender: WorkerId, block: Block) -> Edge:
    """The edge on which such a block may come from this sender; any of its edges where none carries the kind."""
    edges = [edge for edge, senders in layout.incoming().items() if sender in senders]
    return next((edge for edge in edges if block.kind in gate.kinds[edge]), edges[0])


def layout_of(topology: Topology, me: str) -> Layout:
    """The layout around one worker."""
    return Layout.of(topology, WorkerId.parse(me))


class DataflowPort(FakePort):
    """A port that keeps what was sent on each link until a test acknowledges it."""

    def __init__(self, layout: Layout, window: int = 64) -> None:
        super().__init__(layout, window)
        self.on_the_way: dict[tuple[Edge, WorkerId], list[Block]] = {}

    def send(self, edge: Edge, to: WorkerId, block: Block, urgent: bool = False) -> bool:
        if super().send(edge, to, block):
            self.on_the_way.setdefault((edge, to), []).append(block)
            return True
        return False

    def kept(self, edge: Edge, to: WorkerId) -> list[Block]:
        return list(self.on_the_way.get((edge, to), []))

    def unacknowledged(self, edge: Edge, to: WorkerId) -> int:
        return len(self.kept(edge, to))

    def receive_ack(self, edge: Edge, to: WorkerId, blocks: int = 1) -> None:
        """The peer has acknowledged so many more blocks."""
        del self.on_the_way[edge, to][:blocks]

    def renew(self, worker: WorkerId) -> None:
        """A new life of a peer: its links start anew."""
        self.restart(worker)
        for key in [key for key in self.on_the_way if key[1] == worker]:
            del self.on_the_way[key]


def data(number: int, before: int = 0, items: int = 1, cause: Sequence[int] = (0, 0, 1, 0), **fields: Any) -> Block:
    """A DATA block as it comes on a link: its number there, and the items before it."""
    block = Block(Kind.DATA, Epoch(1), Key(0, 0, number, before), items, (np.arange(items, dtype=float),))
    block.meta = {"cause": list(cause)}
    for name, value in fields.items():
        setattr(block, name, value)
    return block


def entry(number: int, block: Block, link: LinkKey = (0, 0)) -> Entry:
    """A received block; `number` is its place in the order of receipt."""
    return Entry(number, link, block)
