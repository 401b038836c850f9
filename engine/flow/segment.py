"""A coded segment of a topology: encoder, coded stage, decoder (DESIGN 4b; LEC III-A). Copies are a code too.

Task i of the stage before the coded one and task i of the stage behind it are a pair, joined by one link as any two
tasks are: numbered, acknowledged, replayed. Its blocks travel in rows over the coded stage's tasks, which compute on
the way (engine/spreads/encoder.py, decoder.py). A feedback edge from the stage behind to the coded one brings models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.configs.shape import StageEdge
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge

CODED = ("erasure", "replication", "dealt")
"""The schemes that make a segment of the stage that names one; `dealt` is that of a job that trains under `none`."""


@dataclass(frozen=True)
class SegmentLayout:
    """The workers of a segment and the edges that its messages take; source i is paired with sink i (LEC III-A).

    The roles are the paper's: sources encode, processors compute on the pieces, sinks decode. `punctuation` tells a
    sink what a row holds, `commit` a source which row is whole, `feedback` the processors the same, and asks them for
    pieces.
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


@dataclass(frozen=True)
class CodedSegment:
    """A segment as one of its workers sees it. `layout` has the edges that messages really take."""

    stage: str
    options: Mapping[str, Any]
    layout: SegmentLayout
    link: Edge
    """From encoder to decoder, in whose place stripes travel."""
    reply: Edge
    """Against it, as every link of a topology has one (engine/flow/layout.py)."""
    stale: float | None = None
    """Windows that the coded stage may run ahead of the models that come back to it; None where none do."""

    @property
    def encodes(self) -> bool:
        """True when the worker is before the coded stage."""
        return self.layout.me in self.layout.sources

    @property
    def decodes(self) -> bool:
        """True when it is behind it."""
        return self.layout.me in self.layout.sinks

    @property
    def computes(self) -> bool:
        """True when it is of the coded stage."""
        return self.layout.me in self.layout.processors


def coded_stages(topology: Topology) -> dict[str, Mapping[str, Any]]:
    """The stages that are coded, with the options of their scheme."""
    schemes = {name: stage.fault_tolerance for name, stage in topology.stages.items()}
    return {name: options for name, options in schemes.items() if options and options["scheme"] in CODED}


def segments_around(topology: Topology, me: WorkerId) -> Iterator[CodedSegment]:
    """The segments that a worker is part of; checked topologies have one data edge into a coded stage, and one out of
    it."""
    count = len(topology.edges)
    for stage, options in coded_stages(topology).items():
        (into,) = (edge for edge in topology.in_edges(stage) if not edge.feedback)
        (out,) = topology.out_edges(stage)
        back = [edge for edge in topology.in_edges(stage) if edge.feedback]
        if me.stage not in (into.upstream, stage, out.downstream):
            continue
        yield CodedSegment(
            stage,
            options,
            _layout(topology, me, into, out, back[0] if back else None),
            Edge(4 * count + into.index, f"{into.upstream}=>{out.downstream}"),
            Edge(5 * count + into.index, f"{out.downstream}->{into.upstream}:reply"),
            back[0].stale_windows if back else None,
        )


def _layout(topology: Topology, me: WorkerId, into: StageEdge, out: StageEdge, back: StageEdge | None) -> SegmentLayout:
    count = len(topology.edges)
    first, coded, last = into.upstream, into.downstream, out.downstream
    return SegmentLayout(
        me,
        tuple(topology.tasks(first)),
        tuple(topology.tasks(coded)),
        tuple(topology.tasks(last)),
        Edge(into.index, into.name),
        Edge(out.index, out.name),
        Edge(back.index, back.name) if back else Edge(2 * count + out.index, f"{last}->{coded}:pieces"),
        Edge(2 * count + into.index, f"{first}->{last}:rows"),
        Edge(3 * count + into.index, f"{last}->{first}:rows"),
    )
