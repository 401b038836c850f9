"""Checks the plain values of a topology, whoever wrote them: sections, names, shape, scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from riprap.configs.checks import Parts
from riprap.configs.explain import explain
from riprap.configs.problems import FieldPath, Problem
from riprap.configs.schemes import Erasure, FaultTolerance, SchemeOptions, read_options
from riprap.configs.sections import BackupOptions, Input, StageOptions
from riprap.configs.shape import EdgeSection
from riprap.configs.topology import Topology

TOPOLOGY = TypeAdapter(Topology)
INPUT, STAGE, EDGE = TypeAdapter(Input), TypeAdapter(StageOptions), TypeAdapter(EdgeSection)
BACKUP = TypeAdapter(BackupOptions)
FAULT_TOLERANCE: TypeAdapter[SchemeOptions] = TypeAdapter(FaultTolerance)


def section_problems(values: dict[str, Any]) -> list[Problem]:
    """Violations of the sections' own schemas."""
    try:
        TOPOLOGY.validate_python(values)
    except ValidationError as error:
        return list(explain(error, values))
    return []


def accepted(adapter: TypeAdapter[Any], value: Any) -> Any:
    """The section that `value` is; None when it is wrong."""
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return None


def sound_parts(values: dict[str, Any]) -> Parts:
    """The sections that are sound by themselves."""
    stages, edges = values.get("stages"), values.get("edges")
    stage_values = stages if isinstance(stages, dict) else {}
    edge_values = dict(enumerate(edges)) if isinstance(edges, list) else {}
    sound_stages = {str(name): stage for name, value in stage_values.items() if (stage := accepted(STAGE, value))}
    sound_edges = {index: edge for index, value in edge_values.items() if (edge := accepted(EDGE, value))}
    names_sound = not isinstance(stages, dict) or all(isinstance(name, str) for name in stages)
    return Parts(
        stage_names=tuple(str(name) for name in stage_values),
        stages=sound_stages,
        edges=sound_edges,
        named=tuple(_names(edge_values)),
        whole=bool(stage_values and isinstance(edges, list) and names_sound)
        and len(sound_stages) + len(sound_edges) == len(stage_values) + len(edge_values),
        fault_tolerance=accepted(FAULT_TOLERANCE, values.get("fault_tolerance")),
        input=accepted(INPUT, values.get("input")),
        backup=accepted(BACKUP, values.get("backup")),
    )


def resolved(file: Topology) -> Topology:
    """The same with the options of its schemes that follow from the shape."""
    chosen = read_options(file.fault_tolerance).chosen(file.shape)
    stages = MappingProxyType({name: _resolved_stage(stage) for name, stage in file.stages.items()})
    return replace(file, stages=stages, fault_tolerance=MappingProxyType({**file.fault_tolerance, **chosen}))


def _resolved_stage(stage: StageOptions) -> StageOptions:
    scheme = read_options(stage.fault_tolerance) if stage.fault_tolerance else None
    if not isinstance(scheme, Erasure):
        return stage
    chosen = {**(stage.fault_tolerance or {}), **dict(zip("kr", scheme.counts_of(stage.parallelism)))}
    return replace(stage, fault_tolerance=MappingProxyType(chosen))


def _names(edges: dict[int, Any]) -> Iterator[tuple[FieldPath, str]]:
    for index, edge in edges.items():
        for key in ("from", "to"):
            if isinstance(edge, dict) and isinstance(edge.get(key), str):
                yield ("edges", index, key), edge[key]
