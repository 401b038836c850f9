"""The workers that a task is joined to: the partitioning of each edge, task by task."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from riprap.codec.ids import WorkerId
from riprap.configs.shape import targets
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.progress import LinkKey, link_key
from riprap.engine.flow.segment import CodedSegment, coded_stages, segments_around


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
    stale_windows: float = 0.0
    """Windows that its receiver may run ahead of what comes (AF 5), on a feedback edge; infinite under ASP."""
    from_source: bool = False
    """True when the sending stage reads the job's input."""
    copies: tuple[WorkerId, ...] = ()
    """Active replicas of those workers: what is sent to one goes to them too, and any of them may send its output."""

    @property
    def is_awaited(self) -> bool:
        """True when its receiver may have to wait for what comes; not so on a feedback edge under ASP."""
        return self.stale_windows != math.inf

    @property
    def everybody(self) -> tuple[WorkerId, ...]:
        """The workers at its other end, and their replicas."""
        return (*self.workers, *self.copies)

    def with_copies(self, worker: WorkerId) -> list[WorkerId]:
        """One of the workers, and its replicas."""
        return [worker, *(copy for copy in self.copies if copy.primary == worker)]


@dataclass(frozen=True)
class Layout:
    """The neighbourhood of one worker. Every edge of the topology comes with a reply edge against it.

    An edge from a stage to itself joins each task to the others: what a task sends to itself stays in its operator.
    """

    me: WorkerId
    parallelism: int
    sinks: tuple[WorkerId, ...]
    inputs: tuple[Joint, ...]
    outputs: tuple[Joint, ...]
    depth: int
    """Operators on the longest way from here to a destination, this one not counted."""
    segments: tuple[CodedSegment, ...] = ()
    """The coded segments that the worker is part of; inputs and outputs have their links, not what these consist of."""
    copied: bool = False
    """True when the task has an active replica, or the worker is one."""
    leads_to_feedback: bool = False
    """True when what it sends leads to another stage that waits for feedback."""

    @classmethod
    def of(cls, topology: Topology, me: WorkerId) -> Layout:
        """The layout around one worker."""
        tasks = {name: stage.parallelism for name, stage in topology.stages.items()}
        inputs, outputs = [], []
        coded, segments = coded_stages(topology), tuple(segments_around(topology, me))
        for edge in topology.edges:
            if edge.upstream in coded or edge.downstream in coded:
                continue
            pair = (tasks[edge.upstream], tasks[edge.downstream])
            direct, stale = Edge(edge.index, edge.name), edge.stale_windows
            reply = Edge(len(topology.edges) + edge.index, f"{edge.downstream}->{edge.upstream}:reply")
            if edge.downstream == me.stage:
                origins = [i for i in range(pair[0]) if me.index in targets(edge, *pair, i)]
                origins = [i for i in origins if WorkerId(edge.upstream, i) != me.primary]
                workers = tuple(WorkerId(edge.upstream, i) for i in origins)
                source = edge.upstream in topology.sources
                inputs.append(
                    Joint(
                        *(direct, reply, edge.upstream, edge.partitioning, edge.feedback, workers, stale, source),
                        topology.copies_of(workers),
                    )
                )
            if edge.upstream == me.stage:
                reached = (WorkerId(edge.downstream, j) for j in targets(edge, *pair, me.index))
                workers = tuple(worker for worker in reached if worker != me.primary)
                copies = topology.copies_of(workers)
                outputs.append(
                    Joint(
                        *(direct, reply, edge.downstream, edge.partitioning, edge.feedback, workers, stale),
                        copies=copies,
                    )
                )
        for segment in segments:
            to = (segment.layout.partner,) if not segment.computes else ()
            joint = Joint(segment.link, segment.reply, segment.stage, "one_to_one", False, to)
            if segment.encodes:
                outputs.append(joint)
            elif segment.decodes:
                inputs.append(replace(joint, from_source=segment.layout.sources[0].stage in topology.sources))
        sinks = tuple(worker for stage in topology.sinks for worker in topology.tasks(stage))
        depth = _depth(topology, me.stage)
        copied = bool(topology.copies_of((me.primary,)))
        paced = {edge.downstream for edge in topology.edges if edge.feedback and edge.stale_windows != math.inf}
        leads = bool(paced & topology.shape.downstream_of(me.stage))
        return cls(me, tasks[me.stage], sinks, tuple(inputs), tuple(outputs), depth, segments, copied, leads)

    @cached_property
    def is_source(self) -> bool:
        """True when no data edge enters: the task reads the job's input."""
        return all(joint.feedback for joint in self.inputs) and not self._computes

    @cached_property
    def is_sink(self) -> bool:
        """True when no data edge leaves: the task is a destination."""
        return all(joint.feedback for joint in self.outputs) and not self._computes

    @property
    def _computes(self) -> bool:
        """True when the task is of a coded stage."""
        return any(segment.computes for segment in self.segments)

    @cached_property
    def leads(self) -> dict[LinkKey, float]:
        """The links that feed back here, and the windows that the task may run ahead of each."""
        back = [joint for joint in self.inputs if joint.feedback]
        return {link_key(joint.edge, worker): joint.stale_windows for joint in back for worker in joint.workers}

    @cached_property
    def unawaited(self) -> frozenset[LinkKey]:
        """Those of them that nobody waits for: under ASP, and of loops, which end within their window."""
        return frozenset(link for link, lead in self.leads.items() if lead == math.inf)

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        """The edges that end here, with the workers at their other end."""
        found = {joint.edge: joint.everybody for joint in self.inputs}
        found |= {joint.reply: joint.everybody for joint in self.outputs}
        for segment in self.segments:
            found.pop(segment.link, None)
            found |= segment.layout.incoming()
        return found

    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start here."""
        links = {segment.link for segment in self.segments}
        parts = chain.from_iterable(segment.layout.outgoing() for segment in self.segments)
        items = (joint.edge for joint in self.outputs if joint.edge not in links)
        return (*items, *(joint.reply for joint in self.inputs), *parts)

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
        joined = [worker for joint in (*self.outputs, *self.inputs) for worker in joint.everybody]
        parts = chain.from_iterable(segment.layout.receivers() for segment in self.segments)
        return list(dict.fromkeys([*joined, *parts]))


def _depth(topology: Topology, stage: str) -> int:
    """The edges on the longest way that items of a stage go."""
    depth, reached = 0, {stage}
    while reached := {edge.downstream for edge in topology.shape.data_edges if edge.upstream in reached}:
        depth += 1
    return depth
