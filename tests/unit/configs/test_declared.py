"""Each key of a topology is declared once, in the dataclass that all processes use, and pydantic holds to that."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import riprap.configs
import riprap.controller
from riprap.configs.declared import Bounds, TopologySection, Written, plain
from riprap.configs.limits import JobLimits
from riprap.configs.schemes import SchemeOptions
from riprap.configs.sections import BackupOptions, Input, LinkOptions, Output, PlacementOptions, StageOptions
from riprap.configs.shape import EdgeSection
from riprap.configs.topology import Topology

ROOT = Path(__file__).parents[3]
SECTIONS = [Topology, Input, StageOptions, EdgeSection, LinkOptions, BackupOptions, PlacementOptions, JobLimits, Output]


def declaring() -> Iterator[type]:
    """The classes of configs and controller that declare fields."""
    for package in (riprap.configs, riprap.controller):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(found.name)).values():
                if isinstance(value, type) and value.__module__ == found.name and declares(value):
                    yield value


def declares(found: type) -> bool:
    return is_dataclass(found) or issubclass(found, BaseModel)


def own(declared: type) -> set[str]:
    """The fields that a class declares itself, `from` as what it is called in Python."""
    return {name for name, kind in vars(declared).get("__annotations__", {}).items() if "ClassVar" not in kind}


def repetitions(sections: Iterable[type], classes: Iterable[type]) -> list[tuple[str, str]]:
    """A section, and a class that declares two or more of its keys which are most of the fields of either."""
    return [
        (section.__name__, other.__name__)
        for section, other in product(sections, classes)
        if section is not other
        and len(shared := own(section) & own(other)) >= 2
        and 2 * len(shared) > min(len(own(section)), len(own(other)))
    ]


def test_no_key_is_declared_in_a_second_place() -> None:
    classes = list(declaring())
    sections = [one for one in classes if issubclass(one, TopologySection | SchemeOptions)]
    assert {one for one in classes if issubclass(one, TopologySection) and own(one) - {"index"}} == set(SECTIONS)
    assert len(classes) > 60, "classes were found at all"
    assert repetitions(sections, classes) == [("Topology", "Parts")], "which has the sections that are sound"


def test_a_second_declaration_would_be_found() -> None:
    @dataclass
    class Deadlines:
        """As a file that wants its own copy would have it."""

        heartbeat_timeout_s: float
        startup_timeout_s: float
        colour: str

    @dataclass
    class Sample:
        """One name in common is chance."""

        path: str
        items: int

    assert repetitions([JobLimits, Input, Output], [Deadlines, Sample]) == [("JobLimits", "Deadlines")]


def test_what_is_written_of_a_section_makes_it_again() -> None:
    first = JobLimits(restarts_max=3), EdgeSection("a", "b", feedback=True), Output("/o", "csv")
    stage = StageOptions("m:S", options={"a": [1, {"b": None}]}, input=Input("/i", limit=3), cpus=(0, 2))
    for section in (*first, stage, Input(), LinkOptions(), BackupOptions(servers=["tcp://a:1"])):
        values = section.to_plain()
        assert list(values) == section.keys() and type(section).of(values) == section
        assert TypeAdapter(type(section)).validate_python(values) == section, "which is what a file may say"
    edge = EdgeSection.of({"from": "a", "to": "b"})
    assert (edge.upstream, edge.downstream) == ("a", "b")
    values = stage.to_plain()
    values["options"]["a"].append(2)
    assert stage.options == {"a": [1, {"b": None}]}, "it is a copy"


def test_what_a_section_does_not_know_it_does_not_take() -> None:
    with pytest.raises(TypeError):
        LinkOptions.of({"block_byte": 3})


def told() -> dict[str, str]:
    """The keys of the guide's table, and their defaults."""
    found = {}
    rows = (row.split(" | ") for row in (ROOT / "docs/guide.md").read_text().splitlines() if row.startswith("| `"))
    for keys, *_, default in rows:
        names, values = re.findall("`([^`]+)`", keys), default.removesuffix(" |").replace("`", "").split(", ")
        prefix = names[0].rpartition(".")[0]
        found |= {f"{prefix}.{name.rpartition('.')[2]}".strip("."): value for name, value in zip(names, values)}
    return found


def said(default: bool | str | float) -> str:
    """A default as the guide has it."""
    return str(default).lower() if isinstance(default, bool | str) else f"{default:.12g}"


def test_the_guide_has_the_defaults_that_are_declared() -> None:
    described, compared = told(), 0
    places = {"": Topology, "input.": Input, "stages.NAME.": StageOptions, "output.": Output, "links.": LinkOptions}
    for at, section in (places | {"backup.": BackupOptions, "cluster.": JobLimits}).items():
        for key in fields(section):
            if key.default is not MISSING and key.default is not None:
                assert described[at + key.name] == said(key.default), key.name
                compared += 1
    assert compared > 20 and described["micro_batch"] == described["job"] == "required"


@dataclass(frozen=True)
class Toy(TopologySection):
    """A section with one of each."""

    count: Annotated[int, Bounds(ge=1, lt=4)]
    share: Annotated[float, Bounds(gt=0, le=1, allow_inf_nan=False)] = 1.0
    word: Annotated[str, Bounds(pattern="^a+$", max_length=3)] | None = None
    places: Annotated[tuple[int, ...], Written(lambda: Annotated[list[int], Bounds(min_length=1)], tuple)] = ()
    renamed: bool = field(default=False, metadata={"alias": "for"})
    place: int = field(default=0, metadata={"alias": None})


TOY: TypeAdapter[Toy] = TypeAdapter(Toy)


def test_pydantic_reads_the_declaration_itself() -> None:
    assert TOY.validate_python({"count": 3, "places": [1, 2], "for": True}) == Toy(3, places=(1, 2), renamed=True)
    assert Toy.keys() == ["count", "share", "word", "places", "for"]
    assert plain(Toy(1)) == {"count": 1, "share": 1.0, "word": None, "places": [], "for": False}
    with pytest.raises(AttributeError):
        replace(Toy(1), count=2).count = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({}, "missing"),
        ({"count": "1"}, "int_type"),
        ({"count": 0}, "greater_than_equal"),
        ({"count": 4}, "less_than"),
        ({"count": 1, "share": 0}, "greater_than"),
        ({"count": 1, "share": 2}, "less_than_equal"),
        ({"count": 1, "share": float("nan")}, "finite_number"),
        ({"count": 1, "word": "b"}, "string_pattern_mismatch"),
        ({"count": 1, "word": "aaaa"}, "string_too_long"),
        ({"count": 1, "places": ()}, "list_type"),
        ({"count": 1, "places": []}, "too_short"),
        ({"count": 1, "for": 1}, "bool_type"),
        ({"count": 1, "renamed": True}, "unexpected_keyword_argument"),
        ({"count": 1, "more": True}, "unexpected_keyword_argument"),
        ([], "dataclass_type"),
    ],
)
def test_each_bound_is_kept(wrong: Any, kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TOY.validate_python(wrong)
    assert [details["type"] for details in caught.value.errors()] == [kind]


PROCESSES = ("engine.worker.worker", "controller.zygote", "controller.agent", "controller.service", "engine.cli.main")


@pytest.mark.parametrize("process", PROCESSES)
def test_only_who_checks_a_file_pays_for_checks(process: str) -> None:
    lines = [
        f"import sys, riprap.{process}",
        "from riprap.configs.topology import Topology",
        "stages = {'a': {'operator': 'm:A'}, 'b': {'operator': 'm:B'}}",
        "edge = {'from': 'a', 'to': 'b', 'partitioning': 'full'}",
        "sections = {'stages': stages, 'edges': [edge], 'fault_tolerance': {'scheme': 'none'}}",
        "values = {'job': 'j', 'micro_batch': 1, **sections}",
        "assert Topology.from_dict(Topology.from_dict(values).to_dict()).sinks == ('b',)",
        "print([m for m in ('ruamel', 'pydantic', 'pydantic_core') if m in sys.modules])",
    ]
    assert subprocess.check_output([sys.executable, "-c", "\n".join(lines)], text=True).strip() == "[]"
