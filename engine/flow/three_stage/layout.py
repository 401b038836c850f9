"""What a task of the three-stage form knows of its topology: the workers around it and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass

from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge


@dataclass(frozen=True)
class Layout:
    """The three-stage form: sources, processors, sinks; source i is paired with sink i (LEC III-A).

    Beside the edges that the user draws, each pair has a coordination edge in both directions: `punctuation` tells the
    sink what an epoch held, `commit` tells the source which epoch is safe. `feedback` runs from every sink to every
    processor; when the user draws none (`trains` is False) it tells of commits alone and nobody waits for it.
    """

    me: WorkerId
    sources: tuple[WorkerId, ...]
    processors: tuple[WorkerId, ...]
    sinks: tuple[WorkerId, ...]
    data: Edge
    result: Edge
    feedback: Edge
    punctuation: Edge
    commit: Edge
    trains: bool = True
    stale_epochs: float = 0.0
    """Epochs that processors may run ahead of the feedback (AF 5): 0 is BSP, infinite ASP, between them SSP."""

    @classmethod
    def of(cls, topology: Topology, me: WorkerId) -> Layout:
        """The layout around one worker of a topology of three stages."""
        (source,), (processor,), (sink,) = topology.sources, topology.processors, topology.sinks
        edges = {(edge.upstream, edge.downstream): Edge(edge.index, edge.name) for edge in topology.edges}
        count = len(topology.edges)
        return cls(
            me,
            tuple(topology.tasks(source)),
            tuple(topology.tasks(processor)),
            tuple(topology.tasks(sink)),
            edges[source, processor],
            edges[processor, sink],
            edges.get((sink, processor), Edge(count + 2, f"{sink}->{processor}")),
            Edge(count, f"{source}->{sink}"),
            Edge(count + 1, f"{sink}->{source}"),
            (sink, processor) in edges,
            max((edge.stale_windows for edge in topology.edges if edge.feedback), default=0.0),
        )

    @property
    def partner(self) -> WorkerId:
        """The sink of this source, or the source of this sink."""
        return (self.sinks if self.me in self.sources else self.sources)[self.me.index]

    def incoming(self) -> dict[Edge, tuple[WorkerId, ...]]:
        """The edges that end here, with the workers at their other end."""
        if self.me in self.sources:
            return {self.commit: (self.partner,)}
        if self.me in self.sinks:
            return {self.result: self.processors, self.punctuation: (self.partner,)}
        return {self.data: self.sources, self.feedback: self.sinks}

    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start here."""
        if self.me in self.sources:
            return (self.data, self.punctuation)
        if self.me in self.sinks:
            return (self.commit, self.feedback)
        return (self.result,)

    def receivers(self) -> list[WorkerId]:
        """All workers that this one sends to, by any edge."""
        return list(self.sinks) if self.me in self.processors else [*self.processors, self.partner]
