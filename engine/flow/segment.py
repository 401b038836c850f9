"""A coded segment of a general topology: encoder, coded stage, decoder (DESIGN 4b; LEC III). Copies are a code too.

Task i of the stage before the coded one and task i of the stage behind it are a pair, joined by one link as any two
tasks are: numbered, acknowledged, replayed. Its blocks travel in stripes over the coded stage's tasks, which compute
on the way (engine/segments/striped.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.configs.shape import StageEdge
from riprap.configs.topology import Topology
from riprap.engine.flow.edges import Edge
from riprap.engine.flow.three_stage.layout import Layout

CODED = ("erasure", "replication")
"""The schemes that make a segment of the stage that names one."""


@dataclass(frozen=True)
class CodedSegment:
    """A segment as one of its workers sees it. `layout` has the edges that messages really take."""

    stage: str
    options: Mapping[str, Any]
    layout: Layout
    link: Edge
    """From encoder to decoder, in whose place stripes travel."""
    reply: Edge
    """Against it, as every link of a general topology has one (engine/flow/layout.py)."""

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
    """The segments that a worker is part of; checked topologies have one edge into a coded stage, and one out of it."""
    count = len(topology.edges)
    for stage, options in coded_stages(topology).items():
        (into,), (out,) = topology.in_edges(stage), topology.out_edges(stage)
        if me.stage not in (into.upstream, stage, out.downstream):
            continue
        yield CodedSegment(
            stage,
            options,
            _layout(topology, me, into, out, count),
            Edge(4 * count + into.index, f"{into.upstream}=>{out.downstream}"),
            Edge(5 * count + into.index, f"{out.downstream}->{into.upstream}:reply"),
        )


def _layout(topology: Topology, me: WorkerId, into: StageEdge, out: StageEdge, count: int) -> Layout:
    first, coded, last = into.upstream, into.downstream, out.downstream
    return Layout(
        me,
        tuple(topology.tasks(first)),
        tuple(topology.tasks(coded)),
        tuple(topology.tasks(last)),
        Edge(into.index, into.name),
        Edge(out.index, out.name),
        Edge(2 * count + out.index, f"{last}->{coded}:pieces"),
        Edge(2 * count + into.index, f"{first}->{last}:rows"),
        Edge(3 * count + into.index, f"{last}->{first}:rows"),
        trains=False,
    )
