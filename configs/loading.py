"""From a YAML file and `--set` overrides to a checked topology, or to one message that lists every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from configs.checks import Parts, check_parts
from configs.document import Document, read_document
from configs.explain import explain
from configs.overrides import apply_sets, parse_set
from configs.problems import FieldPath, Problem, config_error
from configs.schema import BackupSection, EdgeSection, InputSection, StageSection, TopologyFile
from configs.schemes import FaultTolerance, Scheme
from configs.topology import Topology

INPUT, STAGE, EDGE = TypeAdapter(InputSection), TypeAdapter(StageSection), TypeAdapter(EdgeSection)
BACKUP = TypeAdapter(BackupSection)
FAULT_TOLERANCE: TypeAdapter[Scheme] = TypeAdapter(FaultTolerance)

Check = Callable[[Topology], Iterable[Problem]]


def load_file(path: str | PathLike[str], set_texts: list[str], checks: Sequence[Check]) -> Topology:
    """Do what `configs.topology.load` promises."""
    sets = [(*parse_set(text), text) for text in set_texts]
    document = read_document(path)
    where = _Where(document, {field: text for field, _, text in sets})
    values = document.values
    if not isinstance(values, dict):
        problem = Problem((), "is not a mapping", "a topology with job, input, stages, edges, ...")
        raise config_error(where, document.file, [problem])
    problems = apply_sets(values, [(field, value) for field, value, _ in sets])
    found, topology = check_values(values)
    problems += found
    if topology and not problems:
        problems += [problem for check in checks for problem in check(topology)]
    if problems or topology is None:
        raise config_error(where, document.file, sorted(problems, key=lambda problem: where.order(problem.path)))
    return topology


def check_values(values: dict[str, Any]) -> tuple[list[Problem], Topology | None]:
    """Check plain values; the topology is there only when nothing is wrong."""
    problems: list[Problem] = []
    try:
        file = TopologyFile.model_validate(values)
    except ValidationError as error:
        problems += explain(error, values)
    problems += check_parts(_sound_parts(values))
    return problems, None if problems else _topology(file)


class _Where:
    """Says where a field was written: in the file, or on the command line."""

    def __init__(self, document: Document, set_texts: dict[FieldPath, str]) -> None:
        self._document = document
        self._set_texts = set_texts

    def __call__(self, path: FieldPath) -> str:
        text = self._set_text(path)
        return f"--set {text}" if text else f"{self._document.file}:{self._document.line(path)}"

    def order(self, path: FieldPath) -> tuple[bool, int]:
        """The file's problems come first, by line."""
        return self._set_text(path) is not None, self._document.line(path)

    def _set_text(self, path: FieldPath) -> str | None:
        prefixes = (path[:length] for length in range(len(path), 0, -1))
        return next((self._set_texts[prefix] for prefix in prefixes if prefix in self._set_texts), None)


def _sound_parts(values: dict[str, Any]) -> Parts:
    stages, edges = values.get("stages"), values.get("edges")
    stage_values = stages if isinstance(stages, dict) else {}
    edge_values = dict(enumerate(edges)) if isinstance(edges, list) else {}
    sound_stages = {str(name): stage for name, value in stage_values.items() if (stage := _sound(STAGE, value))}
    sound_edges = {index: edge for index, value in edge_values.items() if (edge := _sound(EDGE, value))}
    names_sound = not isinstance(stages, dict) or all(isinstance(name, str) for name in stages)
    return Parts(
        stage_names=tuple(str(name) for name in stage_values),
        stages=sound_stages,
        edges=sound_edges,
        named=tuple(_names(edge_values)),
        whole=bool(stage_values and isinstance(edges, list) and names_sound)
        and len(sound_stages) + len(sound_edges) == len(stage_values) + len(edge_values),
        fault_tolerance=_sound(FAULT_TOLERANCE, values.get("fault_tolerance")),
        input=_sound(INPUT, values.get("input")),
        backup=_sound(BACKUP, values.get("backup")),
    )


def _names(edges: dict[int, Any]) -> Iterator[tuple[FieldPath, str]]:
    for index, edge in edges.items():
        for key in ("from", "to"):
            if isinstance(edge, dict) and isinstance(edge.get(key), str):
                yield ("edges", index, key), edge[key]


def _sound(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return None


def _topology(file: TopologyFile) -> Topology:
    plain = file.model_dump(by_alias=True)
    if file.input.path is not None:
        plain["input"]["path"] = str(Path(file.input.path).resolve())
    for name, stage in file.stages.items():
        if stage.input is not None and stage.input.path is not None:
            plain["stages"][name]["input"]["path"] = str(Path(stage.input.path).resolve())
    if file.backup.storage and "://" not in file.backup.storage:
        plain["backup"]["storage"] = str(Path(file.backup.storage).resolve())
    for index, edge in enumerate(file.edges):
        plain["edges"][index]["partitioning"] = edge.edge(index).partitioning
    return Topology.from_dict(plain)
