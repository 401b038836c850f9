"""From a YAML file and `--set` overrides to a checked topology, or to one message that lists every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from riprap.codec.errors import ConfigError
from riprap.configs.checks import Parts, check_inputs, check_parts, is_whole, scheme_problems
from riprap.configs.document import Document, read_document
from riprap.configs.overrides import apply_sets, parse_set
from riprap.configs.problems import FieldPath, Problem, config_error
from riprap.configs.schemes import SCHEMES
from riprap.configs.sections import Input
from riprap.configs.shape import StageName
from riprap.configs.topology import EDGES_MAX, STAGES_MAX, Draft, Topology
from riprap.configs.validation import TOPOLOGY, accepted, resolved, section_problems, sound_parts

STAGE_NAME = TypeAdapter(StageName)

Check = Callable[[Draft], Iterable[Problem]]

STAND_INS: dict[str, Any] = {"job": "draft", "micro_batch": 1, "fault_tolerance": {"scheme": "none"}}
"""Values in a draft for sections without a default that are not sound."""


def load(
    path: str | PathLike[str], sets: Iterable[str] = (), checks: Sequence[Check] = (), *, with_input: bool = True
) -> Topology:
    """Read and check a topology file, with `--set` overrides (`PATH=VALUE`) applied.

    `checks` are further questions, asked of the sound parts of the file; their findings are reported with the rest.
    The input need not be there unless `with_input` is set. ConfigError lists every problem with its file, line and
    field.
    """
    given = [(*parse_set(text), text) for text in sets]
    document = read_document(path)
    where = _Where(document, {field: text for field, _, text in given})
    values = document.values
    if not isinstance(values, dict):
        problem = Problem((), "is not a mapping", "a topology with job, input, stages, edges, ...")
        raise config_error(where, document.file, [problem])
    _write_out_schemes(values)
    problems = apply_sets(values, [(field, value) for field, value, _ in given])
    problems += check_values(values, checks, with_input=with_input)
    if problems:
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: (not problem.leads, where.order(problem.path)))
        raise config_error(where, document.file, ordered)
    return _rooted_everywhere(resolved(TOPOLOGY.validate_python(values)))


def _write_out_schemes(values: dict[str, Any]) -> None:
    """`fault_tolerance: NAME` is short for that scheme with its defaults, of the job and of a stage."""
    stages = values.get("stages")
    for section in (values, *(stages.values() if isinstance(stages, dict) else ())):
        if isinstance(section, dict) and isinstance(scheme := section.get("fault_tolerance"), str):
            section["fault_tolerance"] = {"scheme": scheme}


def check_values(values: dict[str, Any], checks: Sequence[Check], *, with_input: bool = True) -> list[Problem]:
    """All that is wrong with plain values. Conflicts with the scheme are left out where a check has found that it is
    another job's scheme altogether."""
    problems = section_problems(values)
    if values.get("stages") == {}:  # not a matter of the section's schema: a draft may have no sound stage
        problems.append(Problem(("stages",), "is empty", "the operators of the job, by names of their own"))
    parts = sound_parts(values)
    problems += [*(check_inputs(parts) if with_input else ()), *check_parts(parts)]
    draft = _draft(values, parts)
    found = [problem for check in checks for problem in check(draft)]
    if draft.whole and not any(problem.leads for problem in found):
        problems += scheme_problems(parts)
    return problems + found


def _draft(values: dict[str, Any], parts: Parts) -> Draft:
    """The topology of what is sound."""
    names = [name for name in parts.stages if accepted(STAGE_NAME, name) is not None][:STAGES_MAX]
    known = set(names)
    edges = [index for index, edge in parts.edges.items() if {edge.upstream, edge.downstream} <= known][:EDGES_MAX]
    others = set(Topology.keys()) - {"stages", "edges"}
    given = {name: value for name, value in values.items() if name in others}
    stages_and_edges = {
        "stages": {name: values["stages"][name] for name in names},
        "edges": [values["edges"][index] for index in edges],
    }
    try:
        file = TOPOLOGY.validate_python(given | stages_and_edges)
    except ValidationError as error:
        wrong = {details["loc"][:2] for details in error.errors(include_url=False)}
        sound = {name: value for name, value in given.items() if name not in {path[0] for path in wrong}}
        if isinstance(section := given.get("input"), dict):  # a wrong repeat takes no source's input away
            sound["input"] = {key: value for key, value in section.items() if ("input", key) not in wrong}
        file = TOPOLOGY.validate_python(STAND_INS | sound | stages_and_edges)
    with suppress(ConfigError):  # of a plan that cannot be read, which the problems of its scheme tell
        file = resolved(file)
    section = values.get("fault_tolerance")
    scheme = section.get("scheme") if isinstance(section, dict) else None
    topology = _rooted_everywhere(file)
    return Draft(topology, is_whole(parts), scheme if isinstance(scheme, str) and scheme in SCHEMES else None)


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


def _rooted_everywhere(file: Topology) -> Topology:
    """The same with paths that do not depend on the working directory."""
    stages = {name: replace(stage, input=stage.input and _rooted(stage.input)) for name, stage in file.stages.items()}
    backup, output = file.backup, file.output
    if backup.storage and "://" not in backup.storage:
        backup = replace(backup, storage=str(Path(backup.storage).resolve()))
    return replace(
        file,
        input=_rooted(file.input),
        stages=MappingProxyType(stages),
        backup=backup,
        output=output and replace(output, path=str(Path(output.path).resolve())),
        start_from=file.start_from and str(Path(file.start_from).resolve()),
    )


def _rooted(section: Input) -> Input:
    if section.path is None or section.is_remote:
        return section
    return replace(section, path=str(Path(section.path).resolve()))
