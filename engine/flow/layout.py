"""Which workers a task of a general topology is joined to: the partitioning of each edge, task by task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from riprap.codec.ids import WorkerId
from riprap.configs.shape import StageEdge
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge


def targets(edge: StageEdge, upstream: int, downstream: int, index: int) -> list[int]:
    """The tasks of the downstream stage that task `index` of the upstream stage sends to.

    one_to_one: its partner; merge: several to one; split: one to several; full: all to all (AF 2.4, PPA III).
    """
    if edge.partitioning == "full":
        return list(range(downstream))
    if edge.partitioning == "split":
        return [j for j in range(downstream) if j % upstream == index]
    return [index % downstream]


@dataclass(frozen=True)
class Joint:
    """One stage edge as seen by a task: the workers at its other end, and the way back.

    `edge` carries items, `reply` what the receiving task tells the sending one when either of them starts (again).
    """

    edge: Edge
    reply: Edge
    stage: str
    partitioning: str | None
    feedback: bool
    workers: tuple[WorkerId, ...]
    awaited: bool = True
    """Whether its receiver may have to wait for what comes; not so on a feedback edge under ASP."""
    from_source: bool = False
    """Whether the sending stage reads the job's input."""


@dataclass(frozen=True)
class DataflowLayout:
    """The neighbourhood of one worker. Every edge of the topology comes with a reply edge against it."""

    me: WorkerId
    parallelism: int
    sinks: tuple[WorkerId, ...]
    inputs: tuple[Joint, ...]
    outputs: tuple[Joint, ...]
    depth: int
    """Operators on the longest way from here to a destination, this one not counted."""

    @classmethod
    def of(cls, topology: Topology, me: WorkerId) -> DataflowLayout:
        """The layout around one worker."""
        tasks = {name: stage.parallelism for name, stage in topology.stages.items()}
        inputs, outputs = [], []
        for edge in topology.edges:
            pair = (tasks[edge.upstream], tasks[edge.downstream])
            direct, awaited = Edge(edge.index, edge.name), edge.stale_windows != math.inf
            reply = Edge(len(topology.edges) + edge.index, f"{edge.downstream}->{edge.upstream}:reply")
            if edge.downstream == me.stage:
                origins = [i for i in range(pair[0]) if me.index in targets(edge, *pair, i)]
                workers = tuple(WorkerId(edge.upstream, i) for i in origins)
                source = edge.upstream in topology.sources
                inputs.append(
                    Joint(direct, reply, edge.upstream, edge.partitioning, edge.feedback, workers, awaited, source)
                )
            if edge.upstream == me.stage:
                workers = tuple(WorkerId(edge.downstream, j) for j in targets(edge, *pair, me.index))
                outputs.append(
                    Joint(direct, reply, edge.downstream, edge.partitioning, edge.feedback, workers, awaited)
                )
        sinks = tuple(worker for stage in topology.sinks for worker in topology.tasks(stage))
        return cls(me, tasks[me.stage], sinks, tuple(inputs), tuple(outputs), _depth(topology, me.stage))

    @cached_property
    def is_source(self) -> bool:
        """Whether no data edge enters: the task reads the job's input."""
        return all(joint.feedback for joint in self.inputs)

    @cached_property
    def is_sink(self) -> bool:
        """Whether no data edge leaves: the task is a destination."""
        return all(joint.feedback for joint in self.outputs)

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        """The edges that end here, with the workers at their other end."""
        items = {joint.edge: joint.workers for joint in self.inputs}
        return items | {joint.reply: joint.workers for joint in self.outputs}

    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start here."""
        return (*(joint.edge for joint in self.outputs), *(joint.reply for joint in self.inputs))

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
        return list(dict.fromkeys(worker for joint in (*self.outputs, *self.inputs) for worker in joint.workers))


def _depth(topology: Topology, stage: str) -> int:
    following = [edge.downstream for edge in topology.out_edges(stage) if not edge.feedback]
    return max((1 + _depth(topology, name) for name in following), default=0)
