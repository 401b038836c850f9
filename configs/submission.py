"""A topology as it is submitted: the loader's, with the launchers' additions for workers and controllers.

A submitter holds the clients' key, but may be of another version, or wrong. What passes here can be read by
`Topology.from_dict`, and workers find in it what they ask for. No operator is imported, and no file is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints, TypeAdapter, ValidationError

from riprap.codec.errors import ConfigError
from riprap.configs.base import Section
from riprap.configs.checks import Parts, check_parts, is_whole, scheme_problems
from riprap.configs.explain import FINDINGS_MAX, explain
from riprap.configs.problems import FieldPath, Problem, config_error, shown
from riprap.configs.roles import role_problems, thread_problems
from riprap.configs.schemes import CodesProcessors
from riprap.configs.topology import EDGES_MAX, STAGES_MAX, Topology
from riprap.configs.validation import TOPOLOGY, resolved, section_problems, sound_parts

Count = Annotated[int, Field(ge=0, lt=1 << 62)]
DEPTH_MAX = 50
JUDGED_APART = {"schema", "sinks", "copies", "wanted"}
NO_COPIES: dict[str, Any] = {"copies": [], "wanted": []}
TEXT_MAX = 16_000
"""The most text of an answer that lists problems."""


class WindowSchema(Section):
    """The sources' schema (engine/run/job_schema.py)."""

    items: Count | None
    windows: Count | None
    verified: list[str] = Field(default_factory=list)


class MatrixSchema(WindowSchema):
    """The same of a job of Source, Processor and Sink, whose items have columns."""

    columns: Annotated[list[str], Field(min_length=1)]
    label: str | None
    classes: Annotated[list[float], Field(min_length=2, max_length=2)]
    moments: Annotated[str, StringConstraints(pattern="^[12]:[A-Za-z0-9+/]*={0,2}$")] | None = None


class Additions(Section):
    """The parts of a submission besides the topology; whoever injects the faults reads them.

    `restorable`: a sink that is lost can be restored from what it saves. `before`: the epochs that each sink had
    committed before this attempt and those before it. `resume`: the command that goes on with the job. `checkpoint`:
    that of an earlier attempt to go on from. `checkpoints_before`: numbers up to this one belong to the job whose
    savepoint it begins from.
    """

    run: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9]{1,64}$")]
    attempt: int = Field(ge=1, lt=1 << 29)
    restorable: bool
    profile: bool = False
    resume: str = ""
    checkpoint: Count = 0
    checkpoints_before: Count = 0
    before: list[list[Count]] | None = None
    faults: list[JsonValue] = Field(default_factory=list)


ADDITIONS = TypeAdapter(Additions)
SCHEMAS: dict[str, TypeAdapter[Any]] = {"columns": TypeAdapter(MatrixSchema), "windows": TypeAdapter(WindowSchema)}


def check_submission(job: str, submitted: dict[str, Any]) -> None:
    """ConfigError that lists all that is wrong with what was submitted under that name."""
    problems = list(dict.fromkeys(_problems(job, submitted)))
    if problems:
        error = config_error(lambda path: "submission", "the submission", problems)
        raise ConfigError(str(error.args[0])[:TEXT_MAX], error.remedy)


def _problems(job: str, submitted: dict[str, Any]) -> Iterator[Problem]:
    if first := [*_size_problems(submitted), *_plan_problems(submitted)]:
        yield from first
        return
    if submitted.get("job") != job:
        yield Problem(("job",), f"is {shown(submitted.get('job'))}", f"{shown(job)}, under which it is submitted")
    keys = Topology.keys()
    values = {name: value for name, value in submitted.items() if name in keys}
    yield from _found(ADDITIONS, {name: submitted[name] for name in submitted.keys() - values.keys() - JUDGED_APART})
    yield from _schema_problems(submitted.get("schema"))
    yield from _topology_problems(submitted, values)


def _topology_problems(submitted: dict[str, Any], values: dict[str, Any]) -> Iterator[Problem]:
    """Problems that the loader would find, and places where it would have written something else."""
    yield from _server_problems(values)
    file_values = _as_in_a_file(values)
    wrong, parts = section_problems(file_values), sound_parts(file_values)
    unfit = list(islice(check_parts(parts), FINDINGS_MAX))
    if is_whole(parts):
        unfit += [*scheme_problems(parts), *_kind_problems(submitted.get("schema"), parts)]
    yield from (*wrong, *unfit)
    if not wrong:
        yield from _path_problems(values)
        if is_whole(parts):
            wanted = NO_COPIES | resolved(TOPOLOGY.validate_python(file_values)).to_dict()
            apart = ("sinks", "backup") if unfit else ("backup",)
            given = NO_COPIES | submitted
            yield from _differences(given, {name: value for name, value in wanted.items() if name not in apart})
            yield from _differences(submitted.get("backup"), wanted["backup"] | _servers(values), ("backup",))


def _size_problems(submitted: dict[str, Any]) -> Iterator[Problem]:
    """Sizes that would make the checks themselves take too long."""
    if _is_deeper(submitted, DEPTH_MAX):
        yield Problem((), "nested without end", f"at most {DEPTH_MAX} levels of mappings and lists")
    for name, most in (("stages", STAGES_MAX), ("edges", EDGES_MAX)):
        value = submitted.get(name)
        if isinstance(value, dict | list) and len(value) > most:
            yield Problem((name,), f"{len(value)} of them", f"at most {most}")


def _plan_problems(submitted: dict[str, Any]) -> Iterator[Problem]:
    """A launcher names the tasks of a plan instead; a controller opens no file that a client names."""
    section = submitted.get("fault_tolerance")
    if isinstance(section, dict) and (plan := section.get("plan")) is not None:
        yield Problem(("fault_tolerance", "plan"), f"is {shown(plan)}", "null", "submit what the loader resolved")


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _server_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """A launcher names the servers; a file may say how many are wanted."""
    if not isinstance(_servers(values).get("servers"), list):
        yield Problem(("backup", "servers"), "no list", "the addresses of the backup servers, or an empty list")


def _servers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the backup section that name servers, if any."""
    backup = values.get("backup")
    return {"servers": backup["servers"]} if isinstance(backup, dict) and "servers" in backup else {}


def _as_in_a_file(values: dict[str, Any]) -> dict[str, Any]:
    """A cluster without a backup server is no reason to refuse what a file may ask for."""
    return {**values, "backup": values["backup"] | {"servers": 1}} if _servers(values).get("servers") == [] else values


def _schema_problems(schema: Any) -> Iterator[Problem]:
    kind = next((kind for kind in SCHEMAS if isinstance(schema, dict) and kind in schema), None)
    if kind is None:
        yield Problem(
            ("schema",), f"is {shown(schema)}", "what the sources said: a mapping with columns, or with windows"
        )
    else:
        yield from _found(SCHEMAS[kind], schema, ("schema",))


def _kind_problems(schema: Any, parts: Parts) -> Iterator[Problem]:
    """A schema of items with columns and another shape, or one without columns and a scheme that spreads them."""
    if not isinstance(schema, dict) or parts.fault_tolerance is None:
        return
    if "columns" in schema:
        yield from role_problems(parts.shape)
        yield from thread_problems({name: stage.threads for name, stage in parts.stages.items()})
    elif isinstance(parts.fault_tolerance, CodesProcessors):
        wrong = "is for operators of another kind than a schema without columns"
        yield Problem(("fault_tolerance", "scheme"), wrong, "a scheme of that kind")


def _found(adapter: TypeAdapter[Any], value: Any, at: FieldPath = ()) -> Iterator[Problem]:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        yield from explain(error, {}, at)


def _path_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Agents and workers have working directories of their own."""
    places: list[FieldPath] = [("input", "path"), ("backup", "storage"), ("output", "path"), ("start_from",)]
    places += [("stages", name, "input", "path") for name in values["stages"]]
    for place in places:
        value: Any = values
        for part in place:
            value = value.get(part) if isinstance(value, Mapping) else None
        is_address = isinstance(value, str) and value.startswith("tcp://")
        is_address |= place == ("backup", "storage") and value is not None and "://" in value
        if value is not None and not is_address and not os.path.isabs(value):
            yield Problem(place, f"is {shown(value)}", "an absolute path")


def _differences(given: Any, wanted: Any, at: FieldPath = ()) -> Iterator[Problem]:
    """Places where `given` differs from the loader's `wanted`; its other keys are judged elsewhere."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name, value in wanted.items():
            if name not in given:
                yield Problem((*at, name), "missing", shown(value), "submit what the loader resolved")
            elif name != "options":  # any plain values
                yield from _differences(given[name], value, (*at, name))
    elif isinstance(wanted, list) and isinstance(given, list) and len(given) == len(wanted):
        for index, value in enumerate(wanted):
            yield from _differences(given[index], value, (*at, index))
    elif given != wanted:
        yield Problem(at, f"is {shown(given)}", shown(wanted), "submit what the loader resolved")
