"""Premises of a plan: the stages that join, rates that nobody measured, edges that are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.configs.shape import Shape
from riprap.configs.topology import Topology
from riprap.controller.planning.cuts import rank_one_excess
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.rates import StreamRates
from riprap.engine.plan.rates_file import assumed
from riprap.operators.loading import load_operator

EXCESS_TOLD = 1e-6


def joins_of(topology: Topology, told: Mapping[str, bool]) -> frozenset[str]:
    """The stages that join their input streams: as the rates file says, or else their operator's class."""
    found = {name: _is_join(stage.operator) for name, stage in topology.stages.items()}
    return frozenset(name for name, joins in (found | dict(told)).items() if joins)


def _is_join(operator: str) -> bool:
    return bool(getattr(load_operator(operator), "correlated_inputs", False))


def notes_of(shape: Shape, rates: StreamRates, graph: TaskGraph) -> list[str]:
    """One sentence for each premise."""
    return [*_assumptions(shape, rates), *_left_out(shape), *_uneven(graph)]


def _assumptions(shape: Shape, rates: StreamRates) -> Iterator[str]:
    if sources := assumed(shape, rates):
        yield (
            f"no rates were given of {', '.join(sources)}: assumed is that each of its tasks puts out the same, and "
            "that stages put out as many items as they get (--rates FILE)"
        )


def _left_out(shape: Shape) -> Iterator[str]:
    for edge in shape.edges:
        if edge.feedback:
            yield f"{edge.name} runs back and carries nothing here: what it returns came forward before"
        elif edge.partitioning == "stripe":
            yield f"{edge.name} counts as full: what its code decodes without the lost tasks comes on top"


def _uneven(graph: TaskGraph) -> Iterator[str]:
    for stream in graph.substreams:
        excess = rank_one_excess(graph, stream)
        if EXCESS_TOLD < excess < float("inf"):
            ends = f"{graph.operators[stream.upstream].name}->{graph.operators[stream.downstream].name}"
            yield f"the tasks of {ends} get different shares of their senders (up to {100 * excess:.2g} % too much)"
