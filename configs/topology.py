"""A topology as every process sees it: frozen, resolved, and quick to rebuild from a plain dict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from riprap.codec.ids import WorkerId
from riprap.configs.shape import Shape, StageEdge


@dataclass(frozen=True)
class Input:
    """A shard directory (absolute path; None for sources that need none), streamed `repeat` times, cut at `limit`.

    `verify`: look for damage and bad rows before. `bad_rows`, those with NaN or infinity: "fail", "drop" or "keep".
    """

    path: str | None
    repeat: int | Literal["forever"]
    limit: int | None
    verify: bool = True
    bad_rows: str = "fail"


@dataclass(frozen=True)
class StageOptions:
    """A named operator (`module:Class`), its constructor's keyword arguments, and how many tasks run it."""

    name: str
    operator: str
    parallelism: int
    options: Mapping[str, Any]
    input: Input | None = None
    """Of a source that does not read the job's."""
    cpus: tuple[int, ...] | None = None
    threads: int = 1
    """Compute threads of each task."""


@dataclass(frozen=True)
class LinkOptions:
    """How data moves: the size of a block, how many epochs may be under way at once, whether payloads may pass by
    reference between workers of one host ("auto") or go over sockets ("zeromq"), and how much memory one worker may
    share for that."""

    block_bytes: int
    window_epochs: int
    transport: str = "auto"
    shared_bytes: int = 1 << 27


@dataclass(frozen=True)
class BackupOptions:
    """Backup servers: how many to start, or the addresses of those that run; how these keep what they get; and what
    backups may take of the CPU time that a task uses."""

    servers: int | Sequence[str]
    storage: str | None
    durability: str
    interval_ms: int
    cpu_share: float = 0.01

    @property
    def addresses(self) -> tuple[str, ...]:
        """The servers that can be reached; none before the launcher has started them."""
        return () if isinstance(self.servers, int) else tuple(self.servers)


@dataclass(frozen=True)
class ClusterOptions:
    """Deadlines of the control plane, in seconds, and when it gives up restarting a worker (controller/limits.py)."""

    heartbeat_timeout_s: float
    startup_timeout_s: float
    recovery_timeout_s: float
    stall_timeout_s: float
    deployment_timeout_s: float = 60.0
    finishing_timeout_s: float = 30.0
    restarts_max: int = 10
    restarts_window_s: float = 60.0


@dataclass(frozen=True)
class Output:
    """Where the rows of windows go: an absolute directory, or a file with {window} in its name; and their format."""

    path: str
    format: str

    def file(self, name: str, task: int | str, window: int | str) -> Path:
        """The file of a window's rows: `NAME.TASK.WINDOW.FORMAT` in a directory; numbers may be patterns of `glob`."""
        if not self.is_pattern:
            return Path(self.path, f"{name}.{task}.{window}.{self.format}")
        given = {"{name}": name, "{task}": str(task), "{window}": str(window)}
        return Path(re.sub("|".join(map(re.escape, given)), lambda found: given[found.group()], self.path))

    @property
    def is_pattern(self) -> bool:
        """Whether the path names a file and not a directory."""
        return "{window}" in self.path


@dataclass(frozen=True)
class Topology:
    """A whole job: its input, stages, edges and fault-tolerance scheme, all defaults filled in."""

    job: str
    input: Input
    micro_batch: int
    seed: int
    stages: Mapping[str, StageOptions]
    edges: tuple[StageEdge, ...]
    fault_tolerance: Mapping[str, Any]
    links: LinkOptions
    backup: BackupOptions
    cluster: ClusterOptions
    output: Output | None = None

    @cached_property
    def shape(self) -> Shape:
        """Stages and edges alone."""
        return Shape({name: stage.parallelism for name, stage in self.stages.items()}, self.edges)

    @property
    def scheme(self) -> str:
        """The name of the fault-tolerance scheme."""
        return str(self.fault_tolerance["scheme"])

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the stages that no data edge enters."""
        return self.shape.sources

    @property
    def processors(self) -> tuple[str, ...]:
        """Names of the stages between sources and sinks."""
        return self.shape.processors

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the stages that no data edge leaves."""
        return self.shape.sinks

    def input_of(self, stage: str) -> Input:
        """What a source reads."""
        return self.stages[stage].input or self.input

    @property
    def input_paths(self) -> tuple[str, ...]:
        """Where the sources read."""
        paths = (self.input_of(stage).path for stage in self.sources)
        return tuple(dict.fromkeys(path for path in paths if path is not None))

    @property
    def keeps_bad_rows(self) -> bool:
        """Whether a source may stream NaN or infinity, so that what is computed need not be finite either."""
        return any(self.input_of(stage).bad_rows == "keep" for stage in self.sources)

    def trusting_inputs(self) -> Topology:
        """The same with inputs that are not read beforehand."""
        stages = {
            name: replace(stage, input=stage.input and replace(stage.input, verify=False))
            for name, stage in self.stages.items()
        }
        return replace(self, input=replace(self.input, verify=False), stages=MappingProxyType(stages))

    def with_operators(self, name_of: Callable[[str], str]) -> Topology:
        """The same with each operator under the name that `name_of` has for it."""
        stages = {name: replace(stage, operator=name_of(stage.operator)) for name, stage in self.stages.items()}
        return replace(self, stages=MappingProxyType(stages))

    def in_edges(self, stage: str) -> tuple[StageEdge, ...]:
        """All edges that end at `stage`, feedback among them."""
        return self.shape.in_edges(stage)

    def out_edges(self, stage: str) -> tuple[StageEdge, ...]:
        """All edges that start at `stage`, feedback among them."""
        return self.shape.out_edges(stage)

    def tasks(self, stage: str) -> list[WorkerId]:
        """The workers of one stage, by index; KeyError for an unknown stage."""
        return [WorkerId(stage, index) for index in range(self.stages[stage].parallelism)]

    def workers(self) -> list[WorkerId]:
        """All workers, stage by stage in the topology's order."""
        return [worker for stage in self.stages for worker in self.tasks(stage)]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers: what is submitted, saved, and sent to workers."""
        return {
            "job": self.job,
            "input": asdict(self.input),
            "micro_batch": self.micro_batch,
            "seed": self.seed,
            "stages": {name: _stage_dict(stage) for name, stage in self.stages.items()},
            "edges": [_edge_dict(edge) for edge in self.edges],
            "fault_tolerance": dict(self.fault_tolerance),
            "links": asdict(self.links),
            "backup": asdict(self.backup),
            "cluster": asdict(self.cluster),
            **({} if self.output is None else {"output": asdict(self.output)}),
            "sinks": [str(worker) for stage in self.sinks for worker in self.tasks(stage)],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Topology:
        """Rebuild what `to_dict` wrote; trusts it, for it was checked when it was loaded."""
        return cls(
            job=data["job"],
            input=Input(**data["input"]),
            micro_batch=data["micro_batch"],
            seed=data["seed"],
            stages=MappingProxyType({name: _stage(name, stage) for name, stage in data["stages"].items()}),
            edges=tuple(_edge(index, edge) for index, edge in enumerate(data["edges"])),
            fault_tolerance=MappingProxyType(dict(data["fault_tolerance"])),
            links=LinkOptions(**data["links"]),
            backup=BackupOptions(**data["backup"]),
            cluster=ClusterOptions(**data["cluster"]),
            output=Output(**data["output"]) if data.get("output") else None,
        )


@dataclass(frozen=True)
class Draft:
    """What of a file is sound, as a topology: stages and edges that are not are left out, other sections made up."""

    topology: Topology
    whole: bool
    """All stages and edges are there and well formed, so that questions about the shape make sense."""
    scheme: str | None
    """The scheme that the file names, though its options may be wrong; None where there is no such scheme."""


def _stage(name: str, data: Mapping[str, Any]) -> StageOptions:
    own, cpus = data.get("input"), data.get("cpus")
    options = MappingProxyType(deepcopy(dict(data["options"])))
    return StageOptions(
        name,
        data["operator"],
        data["parallelism"],
        options,
        Input(**own) if own else None,
        tuple(cpus) if cpus else None,
        data.get("threads", 1),
    )


def _stage_dict(stage: StageOptions) -> dict[str, Any]:
    return {
        "operator": stage.operator,
        "parallelism": stage.parallelism,
        "options": deepcopy(dict(stage.options)),
        "input": asdict(stage.input) if stage.input else None,
        "cpus": list(stage.cpus) if stage.cpus else None,
        "threads": stage.threads,
    }


def _edge(index: int, data: Mapping[str, Any]) -> StageEdge:
    consistency, staleness = data.get("consistency", "bsp"), data.get("staleness", 0)
    return StageEdge(index, data["from"], data["to"], data["partitioning"], data["feedback"], consistency, staleness)


def _edge_dict(edge: StageEdge) -> dict[str, Any]:
    return {
        "from": edge.upstream,
        "to": edge.downstream,
        "partitioning": edge.partitioning,
        "feedback": edge.feedback,
        "consistency": edge.consistency,
        "staleness": edge.staleness,
    }
