"""The thresholds of scheme `approximate` that act on a job, found from its topology and operators before it starts.

A source loses nothing: it reads its input again from where its last backup is. Output of a window that closes is never
lost either. So Theta and L act on a stage behind a source that gets more than results of whole windows, Theta if it has
a state; Gamma acts on one that puts out more than such results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from riprap.configs.topology import Topology
from riprap.engine.worker.operators import opened_dataflow
from riprap.operators.dataflow import DataflowOperator

BEHIND = "put states behind the source, which is then forward:Forward (docs/tune.md)"
"""Advice that makes thresholds act."""


@dataclass(frozen=True)
class Reach:
    """The stages where a threshold acts, and for others with something to bound the reason why it does not."""

    acts: tuple[str, ...]
    inert: tuple[tuple[str, str], ...]


def reaches(topology: Topology) -> dict[str, Reach]:
    """The reach of each threshold; of a job whose operators can be made."""
    made = {name: opened_dataflow(topology, topology.tasks(name)[0]) for name in topology.stages}
    theta = [name for name, operator in made.items() if operator.state is not None]
    gamma = [name for name in made if any(not edge.feedback for edge in topology.out_edges(name))]
    reasons = {name: _whole(topology, made, name) for name in made}
    silent = {name: "it puts out only results of whole windows" if made[name].only_windows else "" for name in gamma}
    return {
        "theta": _reach(theta, reasons),
        "l": _reach([name for name in made if name not in topology.sources], reasons),
        "gamma": _reach(gamma, {name: _source(topology, name) or silent[name] for name in gamma}),
    }


def notes(topology: Topology) -> Iterator[str]:
    """A sentence for each finite threshold that does not act everywhere where one would expect it to."""
    if topology.scheme != "approximate":
        return
    for name, reach in reaches(topology).items():
        if reach.inert and topology.fault_tolerance[name] != math.inf:
            yield said(name, reach)


def said(name: str, reach: Reach) -> str:
    """The stages where it does not act, with the reasons."""
    why = "; ".join(f"{stage}: {reason}" for stage, reason in reach.inert)
    where = f"acts on {', '.join(reach.acts)} alone" if reach.acts else "acts nowhere"
    return f"{name} {where}, for nothing else is ever lost ({why})"


def acting(topology: Topology) -> tuple[str, ...]:
    """The thresholds that act on some stage."""
    return tuple(name for name, reach in reaches(topology).items() if reach.acts)


def _reach(stages: list[str], reasons: dict[str, str]) -> Reach:
    acts = tuple(name for name in stages if not reasons[name])
    return Reach(acts, tuple((name, reasons[name]) for name in stages if reasons[name]))


def _source(topology: Topology, name: str) -> str:
    return "it reads the input, again after a failure" if name in topology.sources else ""


def _whole(topology: Topology, made: dict[str, DataflowOperator], name: str) -> str:
    """The reason why nothing that comes to the stage can be lost; empty where something can."""
    senders = [edge.upstream for edge in topology.in_edges(name) if not edge.feedback]
    if all(made[sender].only_windows for sender in senders) and senders:
        return "it gets only results of whole windows"
    return _source(topology, name)
