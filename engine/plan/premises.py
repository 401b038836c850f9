"""Premises of a plan: the stages that join, rates that nobody measured, edges that are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.configs.budget import stages_without_replicas
from riprap.configs.shape import Shape
from riprap.configs.topology import Topology
from riprap.controller.planning.cuts import rank_one_excess
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.rates import StreamRates, task_graph
from riprap.engine.plan.rates_file import assumed
from riprap.operators.loading import load_operator

EXCESS_TOLD = 1e-6
STALL = "; who waits for it stands still while a sender of it is down that has no replica"


def joins_of(topology: Topology, told: Mapping[str, bool]) -> frozenset[str]:
    """The stages that join their input streams: as the rates file says, or else their operator's class."""
    found = {name: _is_join(stage.operator) for name, stage in topology.stages.items()}
    return frozenset(name for name, joins in (found | dict(told)).items() if joins)


def _is_join(operator: str) -> bool:
    return bool(getattr(load_operator(operator), "correlated_inputs", False))


def graph_of(topology: Topology, rates: StreamRates, told: Mapping[str, bool] | None = None) -> TaskGraph:
    """The tasks of a topology as plans see them; `told` overrules which stages join. ConfigError as `task_graph`."""
    bare = stages_without_replicas(topology.shape, topology.fault_tolerance)
    return task_graph(topology.shape, rates, joins_of(topology, told or {}), bare)


def notes_of(shape: Shape, rates: StreamRates, graph: TaskGraph, measured_on: str = "") -> list[str]:
    """One sentence for each premise; `measured_on` names the run or pilot that all rates of links are from."""
    measured = _measured(shape, rates, measured_on) if measured_on else ()
    return [*measured, *_assumptions(shape, rates), *_free(graph), *_left_out(shape), *_uneven(graph)]


def _free(graph: TaskGraph) -> Iterator[str]:
    if names := [group.name for group in graph.operators if group.first in graph.free]:
        yield f"destinations ({', '.join(names)}) can have no replica and count as alive: kept is what reaches them"


def _measured(shape: Shape, rates: StreamRates, measured_on: str) -> Iterator[str]:
    items = sum(int(sum(map(sum, rates.links[edge.name]))) for edge in shape.data_edges if edge.name in rates.links)
    yield f"the rates are those of {measured_on}, whose links carried {items:,} items in all"
    if unknown := [edge.name for edge in shape.data_edges if edge.name not in rates.links]:
        yield (
            f"no items were counted of {', '.join(unknown)}: coded pieces are no items of a link, and a task that is "
            "killed at the end tells nothing; assumed is what follows from the stages before"
        )


def _assumptions(shape: Shape, rates: StreamRates) -> Iterator[str]:
    if sources := assumed(shape, rates):
        yield (
            f"no rates were given of {', '.join(sources)}: assumed is that each of its tasks puts out the same, and "
            "that stages put out as many items as they get (--from RUNDIR, --pilot-items N or --rates FILE)"
        )


def _left_out(shape: Shape) -> Iterator[str]:
    for edge in shape.edges:
        if edge.feedback:
            stall = "" if edge.is_free else STALL
            yield f"{edge.name} runs back and carries nothing here: what it returns came forward before{stall}"
        elif edge.partitioning == "stripe":
            yield f"{edge.name} counts as full: what its code decodes without the lost tasks comes on top"


def _uneven(graph: TaskGraph) -> Iterator[str]:
    for stream in graph.substreams:
        excess = rank_one_excess(graph, stream)
        if EXCESS_TOLD < excess < float("inf"):
            ends = f"{graph.operators[stream.upstream].name}->{graph.operators[stream.downstream].name}"
            yield f"the tasks of {ends} get different shares of their senders (up to {100 * excess:.2g} % too much)"
