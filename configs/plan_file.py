"""Reads the replicas that `riprap plan` has chosen, out of its plan.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.json_text import from_json
from riprap.configs.shape import Shape

REMEDY = "make it with `riprap plan TOPOLOGY --budget N`, and name the plan.json that it writes"
BYTES_MAX = 64 << 20


class PlannedShape:
    """The stages and edges that something was planned or measured for: `topology` of a plan.json."""

    def __init__(self, topology: dict[str, Any]) -> None:
        self._stages: dict[str, int] = topology["stages"]
        self._edges = {_edge_of(edge): edge.get("partitioning") for edge in topology["edges"]}

    def differences(self, shape: Shape, there: str) -> Iterator[str]:
        """All in which a topology differs from it; `there` says which it is of, as in `in the plan`."""
        for stage in dict.fromkeys([*self._stages, *shape.parallelism]):
            planned, here = self._stages.get(stage, 0), shape.parallelism.get(stage, 0)
            if planned != here:
                yield f"stage {stage} has {planned} tasks {there} and {here} here"
        edges = {(edge.upstream, edge.downstream, edge.feedback): edge.partitioning for edge in shape.edges}
        for edge in dict.fromkeys([*self._edges, *edges]):
            name = f"{'feedback' if edge[2] else 'edge'} {edge[0]}->{edge[1]}"
            if edge not in edges or edge not in self._edges:
                yield f"{name} is {'here' if edge in edges else there} alone"
            elif self._edges[edge] != edges[edge]:
                yield f"{name} is {self._edges[edge]} {there} and {edges[edge]} here"


class PlanFile:
    """The tasks of a plan, and the topology that it was made for."""

    def __init__(self, path: str) -> None:
        """ConfigError for a file that cannot be read, or is no plan."""
        try:
            if Path(path).stat().st_size > BYTES_MAX:
                raise ConfigError("is too large to be a plan", REMEDY)
            content = from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", REMEDY) from error
        except ValueError as error:
            raise ConfigError(f"is no JSON: {error}", REMEDY) from error
        content = content if isinstance(content, dict) else {}
        topology: Any = content.get("topology")
        tasks = content.get("tasks")
        if not _is_identity(topology) or not isinstance(tasks, list) or not all(isinstance(one, str) for one in tasks):
            raise ConfigError("holds no `topology` with stages and edges, or no list of `tasks`", REMEDY)
        self.tasks: list[str] = tasks
        self._shape = PlannedShape(topology)

    def differences(self, shape: Shape) -> Iterator[str]:
        """All in which a topology differs from that of the plan."""
        return self._shape.differences(shape, "in the plan")


def _edge_of(edge: dict[str, Any]) -> tuple[str, str, bool]:
    return str(edge.get("from")), str(edge.get("to")), edge.get("feedback") is True


def _is_identity(topology: Any) -> bool:
    if not isinstance(topology, dict):
        return False
    stages, edges = topology.get("stages"), topology.get("edges")
    if not isinstance(stages, dict) or not isinstance(edges, list):
        return False
    return all(type(tasks) is int for tasks in stages.values()) and all(isinstance(edge, dict) for edge in edges)
