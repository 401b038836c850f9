"""A topology as every process sees it: frozen, resolved, and quick to rebuild from a plain dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

from riprap.codec.ids import JOB_NAME, WorkerId
from riprap.configs.declared import Bounds, TopologySection, Written
from riprap.configs.limits import JobLimits
from riprap.configs.sections import (
    BackupOptions,
    Input,
    LinkOptions,
    Output,
    PathText,
    PlacementOptions,
    Scheme,
    StageOptions,
)
from riprap.configs.shape import EdgeSection, Shape, StageEdge, StageName, placed

SECTIONS: dict[str, type[TopologySection]] = {
    "input": Input,
    "links": LinkOptions,
    "backup": BackupOptions,
    "cluster": JobLimits,
    "output": Output,
    "placement": PlacementOptions,
}
"""The sections that stand right under a key."""
STAGES_MAX, EDGES_MAX = 256, 1024
"""More than people write, and few enough to be checked within a fraction of a second."""
JobName = Annotated[str, Bounds(pattern=f"^{JOB_NAME.pattern}$")]


@dataclass(frozen=True, kw_only=True)
class Topology(TopologySection):
    """A whole job: its input, stages, edges and fault-tolerance scheme, all defaults filled in."""

    job: JobName
    input: Input = field(default_factory=Input)
    micro_batch: Annotated[int, Bounds(ge=1, le=1 << 31)]
    """Items of an epoch."""
    seed: Annotated[int, Bounds(ge=0, lt=1 << 63)] = 1
    stages: Annotated[
        Mapping[str, StageOptions],
        Written(lambda: Annotated[dict[StageName, StageOptions], Bounds(max_length=STAGES_MAX)], MappingProxyType),
    ]
    """By their names."""
    edges: Annotated[
        tuple[StageEdge, ...], Written(lambda: Annotated[list[EdgeSection], Bounds(max_length=EDGES_MAX)], placed)
    ]
    fault_tolerance: Scheme
    links: LinkOptions = field(default_factory=LinkOptions)
    backup: BackupOptions = field(default_factory=BackupOptions)
    cluster: JobLimits = field(default_factory=JobLimits)
    output: Output | None = None
    placement: PlacementOptions | None = None
    """The failure domains that tasks are spread over; None: over hosts, where a code or copies have a use for it."""
    start_from: PathText | None = None
    """The directory of a savepoint that the job begins from (riprap savepoint)."""

    @cached_property
    def shape(self) -> Shape:
        """Stages and edges alone."""
        return Shape({name: stage.parallelism for name, stage in self.stages.items()}, self.edges)

    @property
    def scheme(self) -> str:
        """The name of the fault-tolerance scheme."""
        return str(self.fault_tolerance["scheme"])

    def scheme_of(self, stage: str) -> Mapping[str, Any]:
        """The scheme of a stage, with its options: its own, or the job's."""
        return self.stages[stage].fault_tolerance or self.fault_tolerance

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
        """The input that a source reads."""
        return self.stages[stage].input or self.input

    @property
    def input_paths(self) -> tuple[str, ...]:
        """The paths that the sources read."""
        paths = (self.input_of(stage).path for stage in self.sources)
        return tuple(dict.fromkeys(path for path in paths if path is not None))

    @property
    def keeps_bad_rows(self) -> bool:
        """True when a source may stream NaN or infinity, so that results need not be finite either."""
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

    @cached_property
    def copies(self) -> tuple[WorkerId, ...]:
        """The active replicas, by their primaries in the topology's order (PPA II-B); with `adapt` all that may be."""
        if self.fault_tolerance.get("adapt"):
            return self._copies_in({stage for stage in self.stages if stage not in self.sinks})
        return self.wanted_copies

    @property
    def wanted_copies(self) -> tuple[WorkerId, ...]:
        """Those that run from the start."""
        return self._copies_in(set(self.fault_tolerance.get("replicate", ())))

    def _copies_in(self, named: set[str]) -> tuple[WorkerId, ...]:
        """One of each task that is named itself, or by its stage."""
        primaries = (worker for stage in self.stages for worker in self.tasks(stage))
        chosen = (worker for worker in primaries if not named.isdisjoint((str(worker), worker.stage)))
        return tuple(worker._replace(copy=1) for worker in chosen)

    def copies_of(self, primaries: Iterable[WorkerId]) -> tuple[WorkerId, ...]:
        """The active replicas of these."""
        wanted = set(primaries)
        return tuple(worker for worker in self.copies if worker.primary in wanted) if self.copies else ()

    def copies_with(self, worker: WorkerId) -> tuple[WorkerId, ...]:
        """The task's primary and its active replicas, of which the worker is one; nobody where there are none."""
        copies = self.copies_of((worker.primary,))
        return (worker.primary, *copies) if copies else ()

    def workers(self) -> list[WorkerId]:
        """All workers, stage by stage in the topology's order, and behind them the active replicas."""
        return [*(worker for stage in self.stages for worker in self.tasks(stage)), *self.copies]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers: what is submitted, saved, and sent to workers."""
        values = self.to_plain()
        for name in ("output", "placement", "start_from"):
            if values[name] is None:
                del values[name]
        values["sinks"] = [str(worker) for stage in self.sinks for worker in self.tasks(stage)]
        if self.copies:
            values["copies"] = [str(worker) for worker in self.copies]
        if self.fault_tolerance.get("adapt"):
            values["wanted"] = [str(worker) for worker in self.wanted_copies]
        return values

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Topology:
        """Rebuild a topology from `to_dict`'s result, without the launchers' additions; trusts it, for it was checked
        when it was loaded."""
        known = cls.keys()
        values = {key: value for key, value in data.items() if key in known}
        values |= {key: section.of(values[key]) for key, section in SECTIONS.items() if values.get(key) is not None}
        values["stages"] = MappingProxyType({name: StageOptions.of(stage) for name, stage in data["stages"].items()})
        values["edges"] = placed(map(EdgeSection.of, data["edges"]))
        values["fault_tolerance"] = MappingProxyType(dict(data["fault_tolerance"]))
        return cls.of(values)


@dataclass(frozen=True)
class Draft:
    """The sound part of a file, as a topology: unsound stages and edges are left out, other sections made up."""

    topology: Topology
    whole: bool
    """All stages and edges are there and well formed, so that questions about the shape make sense."""
    scheme: str | None
    """The scheme that the file names, though its options may be wrong; None where there is no such scheme."""
